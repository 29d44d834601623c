//! `anabranch write`: one event from flags, or many from JSON lines.

use std::{
    fs::{self, File},
    io::{Read, stdin},
    path::{Path, PathBuf},
    time::Duration,
};

use anabranch_api::v1::{Event, EventItem, GetNamespaceRequest, WriteEventRecordsRequest};
use anabranch_client::RetryPolicy;
use bytes::Bytes;

use crate::{
    args::{FlagItem, ValueSource, WriteArgs},
    failure::{Failure, Outcome},
    import::jsonl::{JsonLines, parse_event},
    ingest::{self, BatchLimits, Job, ResumePoint},
    interrupt::Signals,
    output::{Format, Out, text::escaped},
    session::Session,
    times::to_wire,
};

/// A file is worth more patience than a single request, half a minute: servers may be restarted meanwhile, or compare their clocks.
pub(crate) const PATIENT: RetryPolicy =
    RetryPolicy { attempts: 20, first_delay: Duration::from_millis(50), max_delay: Duration::from_secs(3) };

pub(crate) async fn run(session: &Session, args: &WriteArgs) -> Outcome {
    let stdin = args.stdin.as_ref().map(PathBuf::from);
    match args.file.as_ref().or(stdin.as_ref()) {
        Some(file) => write_file(session, args, file).await,
        None => write_one(session, args).await,
    }
}

async fn write_one(session: &Session, args: &WriteArgs) -> Outcome {
    let event = event_of_flags(session, args)?;
    let client = session.connect().await?;
    let request = WriteEventRecordsRequest { namespace: args.namespace.clone(), events: vec![event.clone()] };
    match args.queued {
        true => client.write(request).await.map(|_| ())?,
        false => client.write_sync(request).await.map(|_| ())?,
    }
    let mut out = Out::new();
    match session.format {
        Format::Table => {
            let verb = if args.queued { "queued" } else { "stored" };
            let time = event.event_time.unwrap_or_default();
            let (series, id) = (escaped(&event.time_series_id), escaped(&event.event_id));
            out.line(format!("{verb} event `{id}` of `{series}` at {time}"))?;
        }
        Format::Json => out.json(&event)?,
        Format::Jsonl => out.json_line(&event)?,
    }
    Ok(out.flush()?)
}

fn event_of_flags(session: &Session, args: &WriteArgs) -> Outcome<Event> {
    let now = session.now();
    let time = args.time.map_or(now, |time| time.resolve(now));
    let mut event_items = Vec::new();
    for item in &args.items {
        let value = bytes_of(item)?;
        event_items.push(EventItem { event_item_key: item.key.clone(), event_item_value: value, value_metadata: None });
    }
    if event_items.is_empty() {
        return Err(Failure::usage("an event needs at least one --item KEY=VALUE"));
    }
    for metadata in &args.metadata {
        let item = event_items.iter_mut().find(|item| item.event_item_key == metadata.key);
        let missing = || Failure::usage(format!("--metadata {0}=…: there is no --item {0}=…", metadata.key));
        item.ok_or_else(missing)?.value_metadata = Some(bytes_of(metadata)?);
    }
    let event_id = args.event_id.clone().unwrap_or_else(|| format!("{:016x}", session.env.random_u64()));
    let time_series_id = args.series.clone().unwrap_or_default();
    Ok(Event { time_series_id, event_time: Some(to_wire(time)), event_id, event_items })
}

fn bytes_of(item: &FlagItem) -> Outcome<Bytes> {
    match &item.source {
        ValueSource::Given(bytes) => Ok(bytes.clone()),
        ValueSource::File(path) => fs::read(path).map(Bytes::from).map_err(|error| Failure::file("read", path, &error)),
    }
}

async fn write_file(session: &Session, args: &WriteArgs, file: &Path) -> Outcome {
    let (reader, bytes): (Box<dyn Read + Send>, Option<u64>) = if file == Path::new("-") {
        (Box::new(stdin()), None)
    } else {
        let open = File::open(file).and_then(|open| open.metadata().map(|metadata| (open, metadata)));
        let (open, metadata) = open.map_err(|error| Failure::file("read", file, &error))?;
        (Box::new(open), metadata.is_file().then_some(metadata.len()))
    };
    let resume = ResumePoint::new(&args.batch, &args.namespace, file)?;
    let client = session.connect_with(PATIENT).await?;
    let namespace = client.get_namespace(GetNamespaceRequest { name: args.namespace.clone() }).await?;
    let job = Job {
        namespace: args.namespace.clone(),
        source: Box::new(JsonLines::new(reader, Box::new(parse_event), resume.next_line())),
        limits: BatchLimits::new(args.batch.batch, &namespace),
        skip_bad: args.batch.skip_bad,
        queued: args.queued,
        resume,
        doing: "writing",
        file_bytes: bytes,
    };
    ingest::run(session, &client, job, &mut Signals::listen()?).await?.print(session)
}
