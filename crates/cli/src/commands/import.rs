//! `anabranch import`: checks the whole file, opens a window for what is old, writes, and closes the window.

use std::{path::Path, time::Duration};

use anabranch_api::v1::{Backfill, CloseBackfillRequest, GetNamespaceRequest, Namespace};
use anabranch_client::{Client, ErrorKind};
use anabranch_model::{Interval, Timestamp};

use super::{backfill, write::PATIENT};
use crate::{
    args::{FileFormat, ImportArgs},
    failure::{Exit, Failure, Outcome},
    import::{
        csv::{CsvRows, Dialect},
        input::Input,
        jsonl::{JsonLines, import_parser},
        mapping::Mapping,
        row::RowRules,
        scan::Scan,
    },
    ingest::{self, BatchLimits, Job, Progress, ResumePoint, Summary, source::EventSource},
    interrupt::Signals,
    output::note,
    session::Session,
    times::show_duration,
};

/// While an import runs, events near the edge of the accepted window would fall out of it: they count as old, too.
const EDGE: Duration = Duration::from_secs(3600);

pub(crate) async fn run(session: &Session, args: &ImportArgs) -> Outcome {
    let format = format_of(args)?;
    // First of all, so that a long file isn't checked in vain.
    let client = session.connect_with(PATIENT).await?;
    let namespace = client.get_namespace(GetNamespaceRequest { name: args.namespace.clone() }).await;
    let namespace = namespace.map_err(|error| match error.kind() {
        ErrorKind::NotFound => {
            Failure::from(error).hint(format!("make it with `anabranch namespace create {}`", args.namespace))
        }
        _ => error.into(),
    })?;
    let resume = ResumePoint::new(&args.batch, &args.namespace, &args.file)?;
    let path = args.file.clone();
    let input = session.env.blocking(move || Input::new(&path)).await;
    let input = input.unwrap_or_else(|| Err(Failure::other("reading the input failed")))?;

    let checking = Progress::new("checking", Some(input.bytes()));
    let source = open(args, format, &input, resume.next_line())?;
    let scan = session.env.blocking(move || Scan::of(source, &checking)).await;
    let scan = scan.ok_or_else(|| Failure::other("reading the input failed"))?;
    if !args.batch.skip_bad {
        scan.check()?;
    }
    let job = Job {
        namespace: args.namespace.clone(),
        source: open(args, format, &input, resume.next_line())?,
        limits: BatchLimits::new(args.batch.batch, &namespace),
        skip_bad: args.batch.skip_bad,
        queued: false,
        resume,
        doing: "importing",
        file_bytes: Some(input.bytes()),
    };
    let summary = match window(&namespace, scan.span(), session.now()) {
        Some(interval) => in_window(session, &client, args, interval, job).await?,
        None => ingest::run(session, &client, job, &mut Signals::listen()?).await?,
    };
    summary.print(session)
}

fn format_of(args: &ImportArgs) -> Outcome<FileFormat> {
    let extension = args.file.extension().and_then(|extension| extension.to_str()).unwrap_or_default();
    match (args.format, extension.to_ascii_lowercase().as_str()) {
        (Some(format), _) => Ok(format),
        (None, "csv" | "tsv") => Ok(FileFormat::Csv),
        (None, "jsonl" | "ndjson" | "json") => Ok(FileFormat::Jsonl),
        (None, _) => Err(Failure::usage(format!(
            "the name `{}` doesn't say whether it is CSV or JSON lines; add --format csv or --format jsonl",
            args.file.display()
        ))),
    }
}

fn open(args: &ImportArgs, format: FileFormat, input: &Input, from_line: u64) -> Outcome<Box<dyn EventSource>> {
    let mapping = Mapping {
        entries: args.map.clone(),
        only_mapped: args.only_mapped,
        has_series: args.series.is_some(),
        lenient: false,
    };
    let rules = RowRules {
        time_format: args.time_format.clone(),
        series: args.series.clone(),
        series_prefix: args.series_prefix.clone(),
        keep_empty: args.keep_empty,
    };
    let file = input.open()?;
    match format {
        FileFormat::Jsonl => Ok(Box::new(JsonLines::new(file, import_parser(mapping, rules), from_line))),
        FileFormat::Csv => {
            let is_tsv = input.path().extension().is_some_and(|extension| extension == "tsv");
            let delimiter = args.delimiter.unwrap_or(if is_tsv { b'\t' } else { b',' });
            let dialect = Dialect { delimiter, has_headers: !args.no_headers };
            let rows = CsvRows::open(file, dialect, &mapping, rules, from_line);
            let rows =
                rows.map_err(|reason| Failure::new(Exit::Refused, format!("{}: {reason}", shown(input.path()))))?;
            Ok(Box::new(rows))
        }
    }
}

fn shown(path: &Path) -> String {
    if path == Path::new("-") { "stdin".to_owned() } else { path.display().to_string() }
}

/// The span for which a backfill window is needed, if one is.
fn window(namespace: &Namespace, span: Option<(Timestamp, Timestamp)>, now: Timestamp) -> Option<Interval> {
    let (earliest, latest) = span?;
    let config = namespace.config.clone().unwrap_or_default();
    let accept_limit = config.accept_limit.and_then(|limit| Duration::try_from(limit).ok()).unwrap_or_default();
    let edge = now.saturating_sub(accept_limit).saturating_add(EDGE);
    if earliest >= edge.min(now) {
        return None;
    }
    let end = latest.saturating_add(Duration::from_nanos(1)).min(now);
    Some(Interval::new(earliest, end))
}

/// Opens the window, writes, and closes it, whatever came of the writing.
async fn in_window(
    session: &Session,
    client: &Client,
    args: &ImportArgs,
    interval: Interval,
    job: Job,
) -> Outcome<Summary> {
    // From here on an interrupt ends the import, but not before its window is closed.
    let mut signals = Signals::listen()?;
    let reason = format!("import of {}", shown(&args.file));
    let opened = backfill::open(client, &args.namespace, interval, args.expires, &reason).await?;
    note(session.colors, &format!("opening the backfill window {} for events from {interval}", opened.id));
    let open = tokio::select! {
        open = backfill::wait_until_open(session, client, &args.namespace, &opened) => open,
        _ = signals.next() => Err(Failure::other("interrupted")),
    };
    let summary = match open {
        Ok(_) => ingest::run(session, client, job, &mut signals).await,
        Err(failure) => Err(failure),
    };
    close(session, client, args, &opened).await;
    summary
}

async fn close(session: &Session, client: &Client, args: &ImportArgs, opened: &Backfill) {
    let request = CloseBackfillRequest { namespace: args.namespace.clone(), id: opened.id.clone() };
    // The outcome of the import counts, not this.
    let closed = session.env.timeout(Duration::from_secs(5), client.close_backfill(request)).await;
    if !matches!(closed, Ok(Ok(_))) {
        let (namespace, id) = (&args.namespace, &opened.id);
        let text = format!(
            "the backfill window {id} could not be closed; it expires {} after it was opened, or close it with \
             `anabranch backfill close {namespace} {id}`",
            show_duration(args.expires)
        );
        note(session.colors, &text);
    }
}

#[cfg(test)]
mod tests {
    use anabranch_api::{v1::NamespaceConfig, wkt};

    use super::*;

    #[test]
    fn a_window_is_opened_only_for_what_is_old() {
        let at = |text: &str| text.parse::<Timestamp>().unwrap();
        let accept_limit = wkt::Duration::try_from(Duration::from_secs(36 * 3600)).unwrap();
        let config = NamespaceConfig { accept_limit: Some(accept_limit), ..NamespaceConfig::default() };
        let namespace = Namespace { config: Some(config), ..Namespace::default() };
        let now = at("2026-03-28T12:00:00Z");
        let span = |from: &str, to: &str| window(&namespace, Some((at(from), at(to))), now);
        assert_eq!(span("2026-03-28T00:00:00Z", "2026-03-28T11:00:00Z"), None);
        let old = at("2020-01-01T00:00:00Z");
        let past = Interval::new(old, at("2021-01-01T00:00:00.000000001Z"));
        assert_eq!(span("2020-01-01T00:00:00Z", "2021-01-01T00:00:00Z"), Some(past));
        assert_eq!(span("2020-01-01T00:00:00Z", "2026-03-28T12:05:00Z"), Some(Interval::new(old, now)));
        // Near the edge: it would fall out while the import runs.
        assert!(span("2026-03-27T00:30:00Z", "2026-03-28T00:00:00Z").is_some());
        assert_eq!(window(&namespace, None, now), None);
    }
}
