//! `anabranch bus tail`: shows detections of wide partitions as they pass on Kafka.

use anabranch_server::{PassingDetection, StartError, Tail};

use super::serve::refusal;
use crate::{
    args::{BusTailArgs, ServerFlags},
    config_layers,
    failure::{Failure, Outcome},
    interrupt::Signals,
    output::{Format, Out, text::escaped},
    session::Session,
    times::show_bytes,
};

pub(crate) async fn tail(session: &Session, args: &BusTailArgs) -> Outcome {
    let flags = ServerFlags { config: args.config.clone(), bus: args.bus.clone(), ..ServerFlags::default() };
    let layers = config_layers::load(&flags)?;
    let mut signals = Signals::listen()?;
    let tail = Tail::open(&layers.config, args.from_beginning, &session.env).await.map_err(|error| refused(&error))?;
    let mut left = args.count.unwrap_or(u64::MAX);
    let mut out = Out::new();
    while left > 0 {
        let passing = tokio::select! {
            passing = tail.next() => passing.map_err(|error| refused(&error))?,
            _ = signals.next() => break,
        };
        match session.format {
            Format::Table => out.line(line(&passing))?,
            Format::Json | Format::Jsonl => out.line(String::from_utf8_lossy(&passing.payload))?,
        }
        out.flush()?;
        left -= 1;
    }
    Ok(())
}

fn line(passing: &PassingDetection) -> String {
    let published = passing.published.map_or_else(|| "-".to_owned(), |time| time.to_string());
    match &passing.detection {
        Ok(found) => {
            let seen = found.bytes_seen.map_or_else(|| "-".to_owned(), show_bytes);
            let sealed = if found.immutable { "sealed" } else { "takes writes" };
            let (series, slice) = (escaped(found.time_series_id.as_str()), escaped(&found.time_slice));
            let bucket = format!("{}.{}", found.time_bucket, found.event_bucket);
            format!("{published}  {}  {slice}  {bucket}  {series}  {seen} read  {sealed}", found.namespace)
        }
        Err(why) => format!("{published}  can't be read: {}", escaped(why)),
    }
}

fn refused(error: &StartError) -> Failure {
    match error {
        StartError::InProcessBus => Failure::usage(error.to_string())
            .hint("`anabranch split list NAMESPACE --watch` shows what comes of detections, whatever carries them"),
        _ => refusal(error),
    }
}
