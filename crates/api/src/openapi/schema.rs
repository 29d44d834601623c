//! Messages, enums and errors as JSON Schema, the `components` of the document.

use serde_json::{Map, Value, json};

use super::catalog::{Catalog, Enum, Field, Kind, Message};

/// A reference to the schema of a message or enum.
pub(super) fn reference(name: &str) -> Value {
    json!({"$ref": format!("#/components/schemas/{name}")})
}

/// Every schema that a reference may name.
pub(super) fn all(catalog: &Catalog) -> Map<String, Value> {
    let mut schemas = Map::new();
    for (name, message) in &catalog.messages {
        schemas.insert(name.clone(), of_message(message));
    }
    for (name, declared) in &catalog.enums {
        schemas.insert(name.clone(), of_enum(declared));
    }
    schemas.insert("Timestamp".to_owned(), timestamp());
    schemas.insert("Duration".to_owned(), duration());
    schemas.insert("Error".to_owned(), error());
    schemas
}

/// The schema of a field, without its comment.
pub(super) fn of_field(field: &Field) -> Value {
    let one = match &field.kind {
        Kind::Bool => json!({"type": "boolean"}),
        Kind::Bytes => json!({"type": "string", "contentEncoding": "base64"}),
        Kind::Double => json!({"type": "number"}),
        Kind::Int32 => json!({"type": "integer", "format": "int32"}),
        Kind::Uint32 => json!({"type": "integer", "minimum": 0, "maximum": u32::MAX}),
        // Sent as strings, since JSON numbers keep 53 bits in many languages; taken as either.
        Kind::Int64 => json!({"type": ["string", "integer"], "format": "int64", "pattern": "^-?[0-9]+$"}),
        Kind::Uint64 => {
            json!({"type": ["string", "integer"], "format": "uint64", "pattern": "^[0-9]+$", "minimum": 0})
        }
        Kind::String => json!({"type": "string"}),
        Kind::Timestamp => reference("Timestamp"),
        Kind::Duration => reference("Duration"),
        Kind::Enum(name) | Kind::Message(name) => reference(name),
    };
    if field.repeated { json!({"type": "array", "items": one}) } else { one }
}

/// Adds a comment, where there is one.
pub(super) fn described(mut value: Value, doc: &str) -> Value {
    if !doc.is_empty() {
        value["description"] = json!(doc);
    }
    value
}

fn of_message(message: &Message) -> Value {
    let fields = message.fields.iter();
    let properties: Map<String, Value> =
        fields.map(|field| (field.json_name.clone(), described(of_field(field), &field.doc))).collect();
    described(json!({"type": "object", "properties": properties}), &message.doc)
}

fn of_enum(declared: &Enum) -> Value {
    let names: Vec<&str> = declared.values.iter().map(|value| value.name.as_str()).collect();
    let explained = declared.values.iter().filter(|value| !value.doc.is_empty());
    let explained = explained.map(|value| format!("- `{}`: {}", value.name, value.doc));
    let doc = std::iter::once(declared.doc.clone()).filter(|doc| !doc.is_empty()).chain(explained);
    described(json!({"type": "string", "enum": names}), &doc.collect::<Vec<_>>().join("\n"))
}

fn timestamp() -> Value {
    json!({
        "type": "string",
        "format": "date-time",
        "description": "RFC 3339, to the nanosecond. Answered in UTC; any offset is taken.",
        "examples": ["2026-03-28T10:00:00.123456789Z"],
    })
}

fn duration() -> Value {
    json!({
        "type": "string",
        "pattern": r"^[-+]?[0-9]+(\.[0-9]{1,9})?s$",
        "description": "Seconds, to the nanosecond, followed by `s`.",
        "examples": ["0.004s", "3600s"],
    })
}

fn error() -> Value {
    json!({
        "type": "object",
        "description": "Why a request failed.",
        "required": ["error"],
        "properties": {"error": {
            "type": "object",
            "required": ["code", "status", "message"],
            "properties": {
                "code": {"type": "integer", "description": "The gRPC status code."},
                "status": {"type": "string", "description": "The name of the code."},
                "message": {"type": "string", "description": "What happened, to what, and what to do."},
                "details": {
                    "type": "array",
                    "description": "More for programs. After a failed write: a `WriteOutcome`.",
                    "items": {
                        "type": "object",
                        "properties": {"@type": {
                            "type": "string",
                            "description": "Which message this is: `type.googleapis.com/anabranch.v1.WriteOutcome`.",
                        }},
                    },
                },
            },
        }},
        "examples": [{"error": {
            "code": 3,
            "status": "INVALID_ARGUMENT",
            "message": "events[0].eventId: must not be empty",
            "details": [],
        }}],
    })
}
