//! `anabranch bus tail`: shows detections of wide partitions as they pass on Kafka.

use std::{fmt::Write as _, time::Duration};

use anabranch_server::{PassingDetection, StartError, Tail};

use super::serve::refusal;
use crate::{
    args::{BusTailArgs, ServerFlags},
    config_layers,
    failure::{Failure, Outcome},
    interrupt::Signals,
    output::{Format, Out, note, text::escaped},
    session::Session,
    times::show_bytes,
};

/// How long after a failure the next message is asked for.
const RETRY: Duration = Duration::from_secs(1);

pub(crate) async fn tail(session: &Session, args: &BusTailArgs) -> Outcome {
    let flags = ServerFlags { config: args.config.clone(), bus: args.bus.clone(), ..ServerFlags::default() };
    let layers = config_layers::load(&flags)?;
    let mut signals = Signals::listen()?;
    let tail = Tail::open(&layers.config, args.from_beginning, &session.env).await.map_err(|error| refused(&error))?;
    let mut left = args.count.unwrap_or(u64::MAX);
    let mut out = Out::new();
    let mut told = String::new();
    while left > 0 {
        let passing = tokio::select! {
            passing = tail.next() => passing,
            _ = signals.next() => break,
        };
        let passing = match passing {
            Ok(passing) => passing,
            // A broker that goes away comes back, and what passes then is shown.
            Err(error) => {
                let error = error.to_string();
                if error != told {
                    note(session.colors, &format!("{}; waiting for it", escaped(&error)));
                    told = error;
                }
                tokio::select! {
                    () = session.env.sleep(RETRY) => continue,
                    _ = signals.next() => break,
                }
            }
        };
        match session.format {
            Format::Table => out.line(line(&passing))?,
            Format::Json | Format::Jsonl => out.line(json(&passing))?,
        }
        out.flush()?;
        told.clear();
        left -= 1;
    }
    Ok(())
}

/// One line of JSON, whatever passes: as it was sent, where that is one line of harmless text.
fn json(passing: &PassingDetection) -> String {
    let sent = String::from_utf8_lossy(&passing.payload);
    match &passing.detection {
        Ok(_) if !sent.contains(char::is_control) => sent.into_owned(),
        Ok(detection) => harmless(&String::from_utf8_lossy(&detection.to_json())),
        Err(error) => harmless(&serde_json::json!({ "error": error, "payload": sent }).to_string()),
    }
}

/// The same JSON without the control characters that JSON allows in text.
fn harmless(json: &str) -> String {
    json.chars().fold(String::with_capacity(json.len()), |mut line, next| {
        if next.is_control() {
            let _ = write!(line, "\\u{:04x}", u32::from(next));
        } else {
            line.push(next);
        }
        line
    })
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

#[cfg(test)]
mod tests {
    use anabranch_bus::Detection;

    use super::*;

    fn passing(payload: &[u8]) -> PassingDetection {
        let detection = Detection::from_json(payload).map_err(|error| error.to_string());
        PassingDetection { published: None, detection, payload: payload.to_vec() }
    }

    #[test]
    fn whatever_passes_is_one_harmless_line_of_json() {
        let good = r#"{"namespace":"plays","time_slice":"data_20260328","time_series_id":"a","time_bucket":1,"event_bucket":0,"immutable":true,"version":"0"}"#;
        assert_eq!(json(&passing(good.as_bytes())), good);
        let spread = good.replace(',', ",\n\t");
        assert_eq!(json(&passing(spread.as_bytes())), good);
        for bad in ["", "no\njson", "\u{1b}[2J", "\u{9b}2J\u{7f}", "{\"version\":\"\u{9b}\"}", "\u{1F30A}\"\\"] {
            let line = json(&passing(bad.as_bytes()));
            assert!(!line.contains(char::is_control), "{line:?}");
            let read: serde_json::Value = serde_json::from_str(&line).unwrap();
            assert_eq!(read["payload"], bad);
            assert!(read["error"].is_string(), "{line}");
        }
        let read: serde_json::Value = serde_json::from_str(&json(&passing(b"\xff\xfe"))).unwrap();
        assert!(read["error"].is_string());
    }
}
