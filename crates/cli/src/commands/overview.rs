//! `anabranch overview`: what needs a person, and how each namespace fares.

use std::fmt::Write as _;

use anabranch_api::v1::{GetOverviewRequest, NamespaceOverview, Overview, split::State};
use anabranch_api::wkt;

use crate::{
    args::OverviewArgs,
    failure::{Failure, Outcome},
    output::{Format, Out, table::Table, text::escaped},
    session::Session,
    times::{show_bytes, show_count, show_elapsed},
};

pub(crate) async fn run(session: &Session, args: &OverviewArgs) -> Outcome {
    let window = wkt::Duration::try_from(args.window).map_err(|_| Failure::usage("`--window` is too long"))?;
    let request = GetOverviewRequest { window: Some(window), namespace: args.namespace.clone().unwrap_or_default() };
    let client = session.connect().await?;
    let answer = client.get_overview(request).await?;
    let mut out = Out::new();
    match session.format {
        Format::Json => out.json(&answer)?,
        Format::Jsonl => answer.namespaces.iter().try_for_each(|namespace| out.json_line(namespace))?,
        Format::Table => {
            out.text(&warnings(&answer))?;
            out.line("")?;
            out.text(&table(&answer.namespaces).take_text(session.colors.stdout))?;
        }
    }
    Ok(out.flush()?)
}

pub(super) fn warnings(answer: &Overview) -> String {
    if answer.warnings.is_empty() {
        return "nothing needs a person\n".to_owned();
    }
    answer.warnings.iter().fold("needs a person:\n".to_owned(), |mut text, warning| {
        let when = if warning.urgent { "now " } else { "soon" };
        let place = if warning.namespace.is_empty() { String::new() } else { format!("{}: ", warning.namespace) };
        let _ = writeln!(text, "  {when}  {place}{}", escaped(&warning.message));
        text
    })
}

pub(super) fn table(namespaces: &[NamespaceOverview]) -> Table {
    let headers = [
        "namespace",
        "mode",
        "events/s",
        "written/s",
        "pages/s",
        "read/s",
        "p50",
        "p99",
        "wide",
        "running",
        "done",
        "failed",
        "parked",
    ];
    let mut table = Table::new(&headers).align_right(&[2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12]);
    for namespace in namespaces {
        let count = |states: &[State]| {
            let counted = namespace.splits.iter().filter(|counted| states.contains(&counted.state()));
            show_count(counted.map(|counted| counted.count).sum())
        };
        let bytes = |rate: f64| show_bytes(rate.round() as u64);
        table.row(vec![
            escaped(&namespace.name),
            namespace.read_mode().as_str_name().to_owned(),
            format!("{:.1}", namespace.events_per_second),
            bytes(namespace.written_bytes_per_second),
            format!("{:.1}", namespace.pages_per_second),
            bytes(namespace.read_bytes_per_second),
            latency(namespace.read_p50.as_ref()),
            latency(namespace.read_p99.as_ref()),
            show_count(namespace.wide_partitions),
            count(&[State::Detected, State::Planning, State::Planned, State::Splitting, State::Verifying]),
            count(&[State::Completed]),
            count(&[State::Failed]),
            count(&[State::Parked]),
        ]);
    }
    table
}

/// To a hundredth of a millisecond below one, else to what matters.
fn latency(took: Option<&wkt::Duration>) -> String {
    match took.map(|took| std::time::Duration::try_from(*took)) {
        Some(Ok(took)) if took.as_millis() < 10 => format!("{:.2} ms", took.as_secs_f64() * 1000.0),
        Some(Ok(took)) => show_elapsed(took),
        _ => "-".to_owned(),
    }
}
