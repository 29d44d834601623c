//! Messages as proto3 JSON: one way in, whose errors name the field, and one way out.

use prost::Message;
use serde::Serialize;
use serde::de::DeserializeOwned;

/// Why JSON couldn't be read: where, and what is wrong there.
#[derive(Debug, thiserror::Error)]
pub enum JsonError {
    /// The JSON is sound, but a value isn't what its field takes, or there is no such field.
    #[error("{path}: {reason}")]
    Field {
        /// The way to the field, as `events[0].eventTime`.
        path: String,
        /// What is wrong with it.
        reason: String,
    },
    /// The text isn't JSON, or not an object of this message.
    #[error("not a JSON {message}: {reason}")]
    Text {
        /// The message that was expected.
        message: &'static str,
        /// What the parser stumbled over, and where.
        reason: String,
    },
}

/// Reads a message. Field names are taken in lowerCamelCase and snake_case; unknown ones are refused.
pub fn from_slice<M: Message + prost::Name + DeserializeOwned>(text: &[u8]) -> Result<M, JsonError> {
    let broken = |reason: &dyn ToString| JsonError::Text { message: M::NAME, reason: reason.to_string() };
    let mut parser = serde_json::Deserializer::from_slice(text);
    let message = serde_path_to_error::deserialize(&mut parser).map_err(|error| {
        let path = error.path().to_string();
        let reason = error.inner();
        if path == "." || !reason.is_data() {
            return broken(reason);
        }
        JsonError::Field { path, reason: readable(reason.to_string()) }
    })?;
    parser.end().map_err(|reason| broken(&reason))?;
    Ok(message)
}

/// Says what numbers and bytes should have been, where the parser only says what they aren't.
fn readable(reason: String) -> String {
    if let Some((_, place)) = reason.split_once("data did not match any variant of untagged enum Content") {
        return format!("not a number, or not one that this field can hold{place}");
    }
    let base64 = ["Invalid symbol", "Invalid input length", "Invalid last symbol", "Invalid padding"];
    if base64.iter().any(|start| reason.starts_with(start)) {
        return format!("not base64: {reason}");
    }
    reason
}

/// Writes a message: lowerCamelCase, default values left out, 64-bit numbers as strings, bytes as base64. Fails only
/// on what has no JSON form, such as a time past the year 9999.
pub fn to_string<M: Message + Serialize>(message: &M) -> Result<String, serde_json::Error> {
    serde_json::to_string(message)
}
