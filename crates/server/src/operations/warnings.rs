//! What needs a person, in words that say what happened and what to do. Pure: what is known goes in, warnings come out.

use anabranch_api::v1::{self, split::State, warning::Kind};
use anabranch_engine::{EngineError, NamespaceRecord, TaskStatus};
use anabranch_model::Timestamp;

use crate::convert::timestamp;

/// Those of the server as a whole.
pub(super) fn of_server(not_ready: Option<EngineError>, tasks: &[TaskStatus], dropped: u64) -> Vec<v1::Warning> {
    let mut warnings = Vec::new();
    if let Some(error) = not_ready {
        let message = format!("This server takes no writes and starts no splits: {error}");
        warnings.push(v1::Warning { urgent: true, message, ..about(Kind::NotReady) });
    }
    for task in tasks.iter().filter(|task| task.is_failing()) {
        let message = format!("The background task “{}” failed when it last ran: {}", task.name, task.error);
        warnings.push(v1::Warning {
            message,
            since: task.last_failure.and_then(timestamp),
            count: task.failures,
            task: task.name.to_owned(),
            ..about(Kind::TaskFailing)
        });
    }
    if dropped > 0 {
        let message = format!(
            "{dropped} queued events were lost since this server started: they left the accept window, or their \
             namespace was gone, before they were written. Clients that need to know should write synchronously."
        );
        warnings.push(v1::Warning { message, count: dropped, ..about(Kind::EventsDropped) });
    }
    warnings
}

/// Those of one namespace. Of its parked splits, an operator gave so many up: those wait for nobody.
pub(super) fn of_namespace(
    overview: &v1::NamespaceOverview,
    record: &NamespaceRecord,
    given_up: u64,
    now: Timestamp,
) -> Vec<v1::Warning> {
    let name = &overview.name;
    let mut warnings = Vec::new();
    let mut warn = |kind, urgent, count, since: Option<Timestamp>, message: String| {
        let namespace = name.clone();
        let since = since.and_then(timestamp);
        warnings.push(v1::Warning { urgent, count, since, message, namespace, ..about(kind) });
    };
    if let Some(change) = record.splits.history.last().filter(|change| change.by == "rule" && change.to < change.from) {
        let (to, reason) = (change.to.name(), &change.reason);
        let message = format!(
            "Reads don't trust splits any more: a difference made a rule set the mode back to {to} ({reason}). Look at \
             the differences before you trust them again."
        );
        warn(Kind::Demoted, true, 1, Some(change.at), message);
    }
    if record.slices.at(now).is_none() {
        let message = "There is no slice for the present: writes have to wait until one is made.".to_owned();
        warn(Kind::NoSlice, true, 0, None, message);
    }
    let count = |state: State| {
        overview.splits.iter().filter(|counted| counted.state() == state).map(|counted| counted.count).sum::<u64>()
    };
    let parked = count(State::Parked).saturating_sub(given_up);
    if parked > 0 {
        let message = format!("{} for an operator: read why, then retry or leave it.", are(parked, "parked"));
        warn(Kind::SplitsParked, true, parked, None, message);
    }
    let failed = count(State::Failed);
    if failed > 0 {
        let message = format!("{} and will be tried again.", have(failed));
        warn(Kind::SplitsFailed, false, failed, None, message);
    }
    if overview.set_aside_splits > 0 {
        let count = overview.set_aside_splits;
        let message = format!(
            "{}: reads were slower from pieces than from the original, which is read instead. A retry gives another try.",
            are(count, "set aside")
        );
        warn(Kind::SplitsSetAside, false, count, None, message);
    }
    warnings
}

/// Slices whose splits rest.
pub(super) fn resting(namespace: &str, slices: u64) -> Option<v1::Warning> {
    (slices > 0).then(|| v1::Warning {
        count: slices,
        namespace: namespace.to_owned(),
        message: format!(
            "Splits of {slices} {} rest for a while: too many reads of pieces went back to the original.",
            if slices == 1 { "slice" } else { "slices" }
        ),
        ..about(Kind::SplitsResting)
    })
}

fn are(count: u64, how: &str) -> String {
    if count == 1 { format!("One split is {how}") } else { format!("{count} splits are {how}") }
}

fn have(count: u64) -> String {
    if count == 1 { "One split failed".to_owned() } else { format!("{count} splits failed") }
}

fn about(kind: Kind) -> v1::Warning {
    v1::Warning { kind: kind.into(), ..v1::Warning::default() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_task_that_failed_last_is_told_and_one_that_recovered_is_not() {
        let at = Timestamp::from_seconds;
        let failing = TaskStatus {
            name: "sweep",
            last_run: Some(at(1)),
            last_failure: Some(at(2)),
            error: "no room".to_owned(),
            ..TaskStatus::default()
        };
        let recovered = TaskStatus { name: "refresh", last_run: Some(at(3)), ..failing.clone() };
        let told = of_server(None, &[failing, recovered], 0);
        assert_eq!(told.len(), 1);
        assert_eq!((told[0].kind(), told[0].task.as_str()), (Kind::TaskFailing, "sweep"));
        assert!(told[0].message.contains("no room"), "{}", told[0].message);
    }

    #[test]
    fn a_split_that_parked_by_itself_is_urgent_and_one_that_was_given_up_is_not_told() {
        let record = NamespaceRecord::new(1, Timestamp::from_seconds(1), anabranch_model::NamespaceConfig::default());
        let parked = v1::SplitStateCount { state: State::Parked.into(), count: 2 };
        let overview = v1::NamespaceOverview { splits: vec![parked], ..Default::default() };
        let told = |given_up| {
            let told = of_namespace(&overview, &record, given_up, Timestamp::from_seconds(2));
            told.into_iter().find(|warning| warning.kind() == Kind::SplitsParked)
        };
        assert_eq!(told(2), None);
        let left = told(1).unwrap();
        assert_eq!((left.urgent, left.count), (true, 1));
    }

    #[test]
    fn a_server_that_is_not_ready_is_urgent() {
        let error = EngineError::NotServing { reason: "the clock is off".to_owned() };
        let told = of_server(Some(error), &[], 3);
        assert_eq!(told.iter().map(v1::Warning::kind).collect::<Vec<_>>(), [Kind::NotReady, Kind::EventsDropped]);
        assert!(told[0].urgent && !told[1].urgent);
    }
}
