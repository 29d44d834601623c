//! The OpenAPI 3.1 document.

use serde_json::{Map, Value, json};

use super::catalog::{Catalog, Field, Message, PACKAGE, Rpc};
use super::routes::{Answers, GRPC_ONLY, ROUTES, Route};
use super::schema::{self, described, reference};

pub(super) const ABOUT: &str = "A store for time-series events. JSON follows the proto3 mapping: lowerCamelCase names, \
     64-bit numbers as strings, bytes as base64, enums by name; fields with default values are left out of answers, \
     and unknown fields are refused. What the path names may be left out of the body; where it is present it must agree.";

/// The OpenAPI 3.1 description of the HTTP routes, for tools. `x-grpc-method` names the rpc behind each route,
/// `x-grpc-only` the rpcs that have none.
pub fn document() -> Value {
    let catalog = Catalog::load();
    let tags = catalog.services.iter().map(|(name, doc)| described(json!({"name": name}), doc));
    let operator = json!({"name": "Server", "description": "For those who look after the server."});
    let only: Vec<String> = GRPC_ONLY.iter().map(|rpc| format!("{PACKAGE}.{rpc}")).collect();
    json!({
        "openapi": "3.1.0",
        "info": {
            "title": "Anabranch",
            "version": env!("CARGO_PKG_VERSION"),
            "description": ABOUT,
        },
        "tags": tags.chain([operator]).collect::<Vec<_>>(),
        "paths": paths(&catalog),
        "components": {
            "schemas": schema::all(&catalog),
            "responses": {"Error": {
                "description": "The request failed.",
                "content": {"application/json": {"schema": reference("Error")}},
            }},
        },
        "x-grpc-only": only,
    })
}

fn paths(catalog: &Catalog) -> Map<String, Value> {
    let mut paths = Map::new();
    for route in ROUTES {
        let operation = match &route.answers {
            Answers::Rpc { rpc, path_fields } => of_rpc(catalog, route, rpc, path_fields),
            Answers::Text { name, summary, unavailable } => of_text(name, summary, *unavailable),
        };
        let path = paths.entry(route.path).or_insert_with(|| json!({}));
        path[route.verb.name().to_ascii_lowercase()] = operation;
    }
    paths
}

fn of_rpc(catalog: &Catalog, route: &Route, name: &str, path_fields: &[(&str, &str)]) -> Value {
    let rpc = &catalog.rpcs[name];
    let request = &catalog.messages[&rpc.request];
    let (service, method) = name.split_once('/').expect("routes name rpcs as Service/Method");
    let mut operation = json!({
        "operationId": method,
        "summary": summary(&rpc.doc),
        "description": rpc.doc,
        "tags": [service],
        "x-grpc-method": format!("{PACKAGE}.{name}"),
        "parameters": parameters(route, request, path_fields),
        "responses": responses(rpc),
    });
    if route.verb.has_body() {
        let mut body = json!({
            "required": !rest(request, path_fields).is_empty(),
            "content": {"application/json": {"schema": reference(&rpc.request)}},
        });
        if let Some(note) = path_note(path_fields) {
            body["description"] = json!(note);
        }
        operation["requestBody"] = body;
    }
    operation
}

fn parameters(route: &Route, request: &Message, path_fields: &[(&str, &str)]) -> Vec<Value> {
    let mut parameters = Vec::new();
    for (parameter, field_name) in path_fields {
        let field = request.fields.iter().find(|field| field.proto_name == *field_name);
        let doc = field.map(|field| field.doc.as_str()).unwrap_or_default();
        let kind = field.map_or_else(|| json!({"type": "string"}), schema::of_field);
        let parameter = json!({"name": parameter, "in": "path", "required": true, "schema": kind});
        parameters.push(described(parameter, doc));
    }
    if !route.verb.has_body() {
        let query = rest(request, path_fields).into_iter();
        parameters.extend(query.map(|field| {
            let parameter = json!({"name": field.json_name, "in": "query", "schema": schema::of_field(field)});
            described(parameter, &field.doc)
        }));
    }
    parameters
}

fn responses(rpc: &Rpc) -> Value {
    let (kind, said) =
        if rpc.streams { ("application/x-ndjson", "One message a line.") } else { ("application/json", "Done.") };
    json!({
        "200": {"description": said, "content": {kind: {"schema": reference(&rpc.response)}}},
        "default": {"$ref": "#/components/responses/Error"},
    })
}

fn of_text(name: &str, summary: &str, unavailable: Option<&str>) -> Value {
    let text = json!({"text/plain": {"schema": {"type": "string"}}});
    let mut responses = json!({"200": {"description": "Text.", "content": text}});
    if let Some(meaning) = unavailable {
        responses["503"] = json!({"description": meaning, "content": text});
    }
    json!({"operationId": name, "summary": summary.trim_end_matches('.'), "tags": ["Server"], "responses": responses})
}

/// The fields that the path doesn't fill in.
pub(super) fn rest<'a>(request: &'a Message, path_fields: &[(&str, &str)]) -> Vec<&'a Field> {
    let in_path = |field: &&Field| path_fields.iter().any(|(_, name)| field.proto_name == *name);
    request.fields.iter().filter(|field| !in_path(field)).collect()
}

/// What to know about fields of the body that the path names too.
pub(super) fn path_note(path_fields: &[(&str, &str)]) -> Option<String> {
    let names: Vec<String> = path_fields.iter().map(|(_, field)| format!("`{field}`")).collect();
    let (are, agree) = if names.len() == 1 { ("is", "it must") } else { ("are", "they must") };
    (!names.is_empty()).then(|| {
        format!("{} {are} in the path and may be left out here; where present {agree} agree.", names.join(" and "))
    })
}

/// The first sentence.
fn summary(doc: &str) -> &str {
    let end = [". ", "; ", ": "].iter().filter_map(|stop| doc.find(stop)).min();
    end.map_or(doc, |end| &doc[..end]).trim_end_matches('.')
}
