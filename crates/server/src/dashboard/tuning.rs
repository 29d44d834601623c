//! What the slice tuner proposes, from which evidence, with the forms to apply and to reject it; and what was decided before.

use std::time::Duration;

use anabranch_api::v1::{
    DensityTarget, MeasuredSlice, Namespace, NamespaceConfig, TunedSettings, TuningDecision,
    namespace_config::TunerMode, tuning_decision::Outcome,
};
use anabranch_model::Timestamp;
use maud::{Markup, html};

use super::{layout, show};

/// Decisions that are seen at once; older ones are folded away.
const SHOWN: usize = 6;

pub(super) fn section(
    namespace: &Namespace,
    slices: &[MeasuredSlice],
    decisions: &[TuningDecision],
    now: Timestamp,
) -> Markup {
    let mode = namespace.config.as_ref().map(NamespaceConfig::tuner).unwrap_or_default();
    let target = slices.first().and_then(|slice| slice.density_target);
    let waiting = decisions.iter().find(|decision| decision.outcome() == Outcome::Proposed);
    html! {
        section aria-labelledby="tuning" {
            h2 #tuning { "Tuner" }
            p { "Compares measured slices with the target and chooses how slices to come are divided. What is written stays as it is." }
            p { "Set to " (layout::badge(if mode == TunerMode::Off { "off" } else { "plain" }, mode.as_str_name())) ": " (about(mode)) "." }
            @match waiting {
                Some(waiting) => (proposal(&namespace.name, waiting, target, now)),
                None => p.more { "Nothing waits for an answer." },
            }
            form.row method="post" action="/ui/actions/tuning-propose" {
                input type="hidden" name="namespace" value=(namespace.name);
                button type="submit" { "Look again now" }
            }
            (history(decisions, mode, slices.iter().any(is_evidence)))
        }
    }
}

fn about(mode: TunerMode) -> &'static str {
    match mode {
        TunerMode::Apply => "it applies by itself what it proposes",
        TunerMode::Propose => "it proposes, and an operator applies or rejects",
        TunerMode::Off | TunerMode::Unspecified => "it looks only when asked",
    }
}

/// Whether a slice was measured when it was over, so that the tuner can look at it.
fn is_evidence(slice: &MeasuredSlice) -> bool {
    let measured = slice.measurement.as_ref().and_then(|measurement| measurement.measure_time);
    measured.is_some() && measured >= slice.slice.as_ref().and_then(|slice| slice.end)
}

fn proposal(namespace: &str, waiting: &TuningDecision, target: Option<DensityTarget>, now: Timestamp) -> Markup {
    html! {
        div.proposal data-proposal=(waiting.number) {
            h3 { "Proposal " (waiting.number) ", " (show::ago(waiting.time.as_ref(), now)) }
            p.said { (show::one_line(&waiting.reason)) }
            (change(waiting, target))
            (evidence(waiting))
            div.actions {
                (apply(namespace, waiting))
                (reject(namespace, waiting))
            }
        }
    }
}

fn change(waiting: &TuningDecision, target: Option<DensityTarget>) -> Markup {
    let (old, new) = (waiting.old_settings.unwrap_or_default(), waiting.new_settings.unwrap_or_default());
    let long = |seconds: u32| show::length(Duration::from_secs(seconds.into()));
    let row = |name: &str, field: &str, of: fn(&TunedSettings) -> u32, shown: &dyn Fn(u32) -> String| {
        html! {
            tr {
                th scope="row" { (name) }
                td.number data-label="Now" { (shown(of(&old))) }
                td.number data-label="Proposed" {
                    span data-field=(field) data-value=(of(&new)) { @if of(&old) == of(&new) { "the same" } @else { b { (shown(of(&new))) } } }
                }
            }
        }
    };
    html! {
        table.cards.narrow {
            (layout::columns(&["Setting", "Now#", "Proposed#"]))
            tbody {
                (row("Length of slices", "seconds_per_slice", |it| it.seconds_per_slice, &long))
                (row("Length of time buckets", "seconds_per_bucket", |it| it.seconds_per_bucket, &long))
                (row("Event buckets", "event_buckets", |it| it.event_buckets, &|count| show::count(count.into())))
            }
        }
        p {
            "Then 99 of 100 partitions should be no bigger than about "
            b data-field="expected_p99" data-value=(waiting.expected_p99_bytes) { (show::bytes(waiting.expected_p99_bytes)) }
            @if let Some(target) = target { "; the target is " b { (show::bytes(target.low_bytes)) } " to " b { (show::bytes(target.high_bytes)) } }
            "."
        }
    }
}

/// What a decision was made from.
fn evidence(decision: &TuningDecision) -> Markup {
    html! {
        details id=(format!("evidence-{}", decision.number)) {
            summary { "Evidence: " (show::counted(decision.counted.len() as u64, "slice")) " counted, " (decision.uncounted.len()) " not" }
            @if !decision.counted.is_empty() {
                table.cards {
                    (layout::columns(&["Slice", "Time bucket#", "Event buckets#", "Partitions#", "99 of 100 are no bigger than#"]))
                    tbody {
                        @for slice in &decision.counted {
                            @let settings = slice.settings.unwrap_or_default();
                            tr data-evidence=(slice.time_slice) {
                                th scope="row" { code { (slice.time_slice) } }
                                td.number data-label="Time bucket" { (show::length(Duration::from_secs(settings.seconds_per_bucket.into()))) }
                                td.number data-label="Event buckets" { (settings.event_buckets) }
                                td.number data-label="Partitions" { (show::count(slice.partitions)) }
                                td.number data-label="99 of 100 are no bigger than" {
                                    span data-field="p99" data-value=(slice.p99_bytes) { (show::bytes(slice.p99_bytes)) }
                                }
                            }
                        }
                    }
                }
            }
            @if !decision.uncounted.is_empty() {
                ul.more { @for slice in &decision.uncounted { li { code { (slice.time_slice) } ": " (slice.reason) } } }
            }
            @match &decision.reads {
                Some(reads) => p.more {
                    (show::count(reads.reads)) " pages were seen; half of them covered at most "
                    (show::duration(reads.typical_interval.as_ref())) ", 99 of 100 at most "
                    (show::duration(reads.longest_interval.as_ref())) "."
                },
                None => p.more { "Too few pages were read to say how much time they cover." },
            }
        }
    }
}

fn hidden(namespace: &str, number: u64) -> Markup {
    html! {
        input type="hidden" name="namespace" value=(namespace);
        input type="hidden" name="number" value=(number);
    }
}

fn apply(namespace: &str, waiting: &TuningDecision) -> Markup {
    html! {
        details.ask #tuning-apply {
            summary.button { "Apply…" }
            form.stack method="post" action="/ui/actions/tuning-apply" {
                (hidden(namespace, waiting.number))
                p.more {
                    "Slices that no write can reach yet get the proposed settings, and so do all later ones. A slice that has events keeps "
                    "the settings that it was made with: this can be changed again, but only for slices to come."
                }
                button.primary type="submit" { "Yes, apply it" }
            }
        }
    }
}

fn reject(namespace: &str, waiting: &TuningDecision) -> Markup {
    html! {
        details.ask #tuning-reject {
            summary.button { "Reject…" }
            form.stack method="post" action="/ui/actions/tuning-reject" {
                (hidden(namespace, waiting.number))
                label for="tuning-reason" { "Why, for those who look later" }
                input #tuning-reason name="reason" maxlength="200" autocomplete="off";
                p.more { "Nothing is changed, and the same isn't proposed again." }
                button.danger type="submit" { "Yes, reject it" }
            }
        }
    }
}

fn history(decisions: &[TuningDecision], mode: TunerMode, is_evident: bool) -> Markup {
    let (latest, older) = decisions.split_at(decisions.len().min(SHOWN));
    html! {
        h3 { "What was decided" }
        @if decisions.is_empty() {
            p.more { (why_nothing(mode, is_evident)) }
        } @else {
            (decided(latest, "decisions", "Latest decisions of the tuner"))
            @if !older.is_empty() {
                details #older-decisions {
                    summary { (older.len()) " older decisions" }
                    (decided(older, "decisions-older", "Older decisions of the tuner"))
                }
            }
        }
    }
}

fn why_nothing(mode: TunerMode, is_evident: bool) -> &'static str {
    match (is_evident, mode) {
        (false, _) => "Nothing yet: slices have to end and to be measured first.",
        (true, TunerMode::Off | TunerMode::Unspecified) => {
            "Nothing yet: the tuner hasn't looked. The button asks it now."
        }
        (true, TunerMode::Propose | TunerMode::Apply) => {
            "Nothing yet: the tuner hasn't looked. It looks now and then; the button asks it now."
        }
    }
}

fn decided(decisions: &[TuningDecision], id: &str, about: &str) -> Markup {
    html! {
        div.scroll tabindex="0" role="region" aria-label=(about) id=(id) {
            table.cards {
                (layout::columns(&["No.#", "When", "Outcome", "By", "What and why"]))
                tbody { @for decision in decisions { (decided_row(decision)) } }
            }
        }
    }
}

fn decided_row(decision: &TuningDecision) -> Markup {
    let kind = match decision.outcome() {
        Outcome::Applied => "good",
        Outcome::Proposed => "warn",
        Outcome::Rejected => "bad",
        Outcome::Kept | Outcome::Superseded | Outcome::Unspecified => "off",
    };
    let when = decision.outcome_time.as_ref().or(decision.time.as_ref());
    html! {
        tr data-decision=(decision.number) {
            th.number scope="row" { (decision.number) }
            td.when data-label="When" { (show::second(when)) }
            td data-label="Outcome" { (layout::badge(kind, decision.outcome().as_str_name())) }
            td data-label="By" { @if decision.by.is_empty() { "–" } @else { (show::one_line(&decision.by)) } }
            td.prose data-label="What and why" {
                span {
                    (show::one_line(&decision.reason))
                    @if !decision.reject_reason.is_empty() { span.more.under { "Rejected because: " (show::one_line(&decision.reject_reason)) } }
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use anabranch_api::{v1, wkt};

    use super::*;

    #[test]
    fn a_slice_is_evidence_once_it_was_measured_after_its_end() {
        let at = |seconds: i64| Some(wkt::Timestamp::from_nanos(seconds * 1_000_000_000));
        let slice = |measurement: Option<v1::SliceMeasurement>| MeasuredSlice {
            slice: Some(v1::Slice { end: at(100), ..Default::default() }),
            measurement,
            ..Default::default()
        };
        let measured = |seconds| Some(v1::SliceMeasurement { measure_time: at(seconds), ..Default::default() });
        assert_eq!([None, measured(99), measured(100)].map(|it| is_evidence(&slice(it))), [false, false, true]);
        assert!(history(&[], TunerMode::Propose, true).into_string().contains("the tuner hasn't looked"));
        assert!(history(&[], TunerMode::Propose, false).into_string().contains("slices have to end"));
    }
}
