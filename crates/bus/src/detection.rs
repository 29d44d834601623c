//! A suspicion that a partition is wide. The planner decides.

use anabranch_model::{EventBucket, NamespaceName, PartitionKey, TimeBucket, TimeSeriesId};
use serde::{Deserialize, Serialize};
use thiserror::Error;

/// The version that is written; readers refuse others.
pub const VERSION: &str = "0";

/// A partition that may be wide.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Detection {
    /// In which namespace.
    pub namespace: NamespaceName,
    /// The slice's table: `data_20260328`.
    pub time_slice: String,
    /// Whose history.
    pub time_series_id: TimeSeriesId,
    /// Which span of the slice.
    pub time_bucket: u32,
    /// Which of the span's buckets.
    pub event_bucket: u32,
    /// Whether the whole partition was sealed when it was seen.
    pub immutable: bool,
    /// Of this form.
    pub version: String,
    /// How many bytes of it a read has seen.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub bytes_seen: Option<u64>,
}

/// Why bytes aren't a detection.
#[derive(Debug, Error)]
pub enum DetectionError {
    /// Not this JSON.
    #[error("not a detection event: {0}")]
    Json(#[from] serde_json::Error),
    /// Another version.
    #[error("detection event of version `{version}`; this one is `{VERSION}`")]
    Version {
        /// What it said.
        version: String,
    },
}

impl Detection {
    /// A detection of a partition of a slice.
    pub fn new(
        namespace: NamespaceName,
        time_slice: String,
        partition: &PartitionKey,
        immutable: bool,
        bytes_seen: Option<u64>,
    ) -> Self {
        Detection {
            namespace,
            time_slice,
            time_series_id: partition.series.clone(),
            time_bucket: partition.time_bucket.0,
            event_bucket: partition.event_bucket.0,
            immutable,
            version: VERSION.to_owned(),
            bytes_seen,
        }
    }

    /// Which partition of the slice.
    pub fn partition(&self) -> PartitionKey {
        PartitionKey {
            series: self.time_series_id.clone(),
            time_bucket: TimeBucket(self.time_bucket),
            event_bucket: EventBucket(self.event_bucket),
        }
    }

    /// The same for all detections of a partition, whatever each has seen of it.
    pub(crate) fn suspect(&self) -> Detection {
        Detection { immutable: false, bytes_seen: None, ..self.clone() }
    }

    /// As it goes over the wire.
    pub fn to_json(&self) -> Vec<u8> {
        serde_json::to_vec(self).expect("a detection is plain data")
    }

    /// Reads one back; fields that aren't known are ignored.
    pub fn from_json(bytes: &[u8]) -> Result<Self, DetectionError> {
        let detection: Detection = serde_json::from_slice(bytes)?;
        if detection.version != VERSION {
            return Err(DetectionError::Version { version: detection.version });
        }
        Ok(detection)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const EXAMPLE: &str = r#"{"namespace":"plays","time_slice":"data_20260328","time_series_id":"profileId:123","time_bucket":7,"event_bucket":2,"immutable":true,"version":"0"}"#;

    #[test]
    fn the_json_form_is_the_documented_one() {
        let detection = Detection::from_json(EXAMPLE.as_bytes()).unwrap();
        assert_eq!(detection.partition().time_bucket, TimeBucket(7));
        assert_eq!(String::from_utf8(detection.to_json()).unwrap(), EXAMPLE);
    }

    #[test]
    fn what_is_no_detection_is_refused_with_a_reason() {
        for bad in ["", "{}", "null", &EXAMPLE.replace("\"0\"", "\"9\""), &EXAMPLE.replace("plays", "No Name")] {
            assert!(Detection::from_json(bad.as_bytes()).is_err(), "{bad}");
        }
    }
}
