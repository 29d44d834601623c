//! Messages as proto3 JSON: one way in, whose errors name the field, and one way out.

use prost::Message;
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::Value;

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

/// Reads a message. Field names are taken in lowerCamelCase and snake_case; unknown ones are refused; `null` is the same
/// as an absent field.
pub fn from_slice<M: Message + prost::Name + DeserializeOwned>(text: &[u8]) -> Result<M, JsonError> {
    let mut parser = serde_json::Deserializer::from_slice(text);
    let error = match serde_path_to_error::deserialize(&mut parser) {
        Ok(message) => return parser.end().map(|()| message).map_err(|reason| not_json::<M>(&reason)),
        Err(error) => error,
    };
    // The generated code doesn't know that null means absent; a message that has one is read again without.
    let unknown = error.inner().to_string().starts_with("unknown field");
    if !unknown && let Some(message) = without_nulls(text).and_then(|value| M::deserialize(value).ok()) {
        return Ok(message);
    }
    let (path, reason) = (error.path().to_string(), error.into_inner());
    if path == "." || !reason.is_data() {
        return Err(not_json::<M>(&reason));
    }
    Err(JsonError::Field { path, reason: readable(reason.to_string()) })
}

fn not_json<M: prost::Name>(reason: &serde_json::Error) -> JsonError {
    JsonError::Text { message: M::NAME, reason: reason.to_string() }
}

/// The JSON without members that are null; `None` when there are none, or when it isn't JSON.
fn without_nulls(text: &[u8]) -> Option<Value> {
    let mut value: Value = serde_json::from_slice(text).ok()?;
    strip_nulls(&mut value).then_some(value)
}

fn strip_nulls(value: &mut Value) -> bool {
    match value {
        Value::Object(members) => {
            let before = members.len();
            members.retain(|_, member| !member.is_null());
            let inside = members.values_mut().map(strip_nulls).fold(false, |any, one| any | one);
            inside || members.len() < before
        }
        Value::Array(elements) => elements.iter_mut().map(strip_nulls).fold(false, |any, one| any | one),
        _ => false,
    }
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
