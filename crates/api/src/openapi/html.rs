//! The routes as one HTML page: nothing from the network, no scripts.

use std::collections::BTreeSet;
use std::fmt::Write as _;

use super::catalog::{Catalog, Enum, Field, Kind, Message};
use super::document::{ABOUT, path_note, rest};
use super::routes::{Answers, GRPC_ONLY, ROUTES, Route};
use crate::errors::REASONS;

const STYLE: &str = include_str!("page.css");

/// The HTTP routes as a page for people: what each takes and answers. It links to `/openapi.json`.
pub fn page() -> String {
    let catalog = Catalog::load();
    let contents: String = ROUTES.iter().map(|route| format!("<li>{}</li>", link(route))).collect();
    let routes: String = ROUTES.iter().map(|route| of_route(&catalog, route)).collect();
    format!(
        "<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n\
         <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n\
         <title>Anabranch HTTP interface</title>\n<style>\n{STYLE}</style>\n</head>\n<body>\n\
         <h1>Anabranch HTTP interface</h1>\n<p>{about}</p>\n\
         <p>For tools: <a href=\"/openapi.json\">openapi.json</a>. Version {version}.</p>\n\
         <nav aria-label=\"Routes\"><ul>{contents}</ul></nav>\n\
         <h2>Routes</h2>\n{routes}{only}<h2>Errors</h2>\n{errors}<h2>Messages</h2>\n{messages}</body>\n</html>\n",
        about = rich(ABOUT),
        version = env!("CARGO_PKG_VERSION"),
        only = grpc_only(),
        errors = errors(),
        messages = messages(&catalog),
    )
}

fn link(route: &Route) -> String {
    format!("<a href=\"#{}\">{}</a>", anchor(route), heading(route))
}

fn anchor(route: &Route) -> &'static str {
    match route.answers {
        Answers::Rpc { rpc, .. } => rpc.rsplit('/').next().unwrap_or(rpc),
        Answers::Text { name, .. } => name,
    }
}

fn heading(route: &Route) -> String {
    let verb = route.verb.name();
    let class = verb.to_ascii_lowercase();
    format!("<span class=\"method {class}\">{verb}</span> <code>{}</code>", escape(route.path))
}

fn of_route(catalog: &Catalog, route: &Route) -> String {
    let inside = match &route.answers {
        Answers::Rpc { rpc, path_fields } => of_rpc(catalog, route, rpc, path_fields),
        Answers::Text { summary, unavailable, .. } => {
            let unavailable = unavailable.map(|meaning| format!(" 503: {meaning}")).unwrap_or_default();
            format!("<p>{}</p><h4>Answer</h4><p>Text.{}</p>", rich(summary), rich(&unavailable))
        }
    };
    format!("<section id=\"{}\"><h3>{}</h3>{inside}</section>\n", anchor(route), heading(route))
}

fn of_rpc(catalog: &Catalog, route: &Route, name: &str, path_fields: &[(&str, &str)]) -> String {
    let rpc = &catalog.rpcs[name];
    let (request, response) = (&catalog.messages[&rpc.request], &catalog.messages[&rpc.response]);
    let fields = rest(request, path_fields);
    let place = if route.verb.has_body() { "Request" } else { "Query" };
    let mut html = format!("<p>{}</p>", rich(&rpc.doc));
    if !fields.is_empty() {
        let _ = write!(html, "<h4>{place}</h4>{}", table(fields));
    }
    if let Some(note) = path_note(path_fields).filter(|_| route.verb.has_body()) {
        let _ = write!(html, "<p>{}</p>", rich(&note));
    }
    let lines = if rpc.streams { ", one a line (NDJSON)" } else { "" };
    let _ = write!(html, "<h4>Answer: {}{lines}</h4>{}", escape(&rpc.response), body(response));
    let _ = write!(html, "<p>gRPC: <code>{}</code></p>", escape(name));
    html
}

fn body(message: &Message) -> String {
    if message.fields.is_empty() { "<p>Empty.</p>".to_owned() } else { table(message.fields.iter().collect()) }
}

fn table(fields: Vec<&Field>) -> String {
    let mut html = "<table><thead><tr><th>Field</th><th>Type</th><th>Meaning</th></tr></thead><tbody>".to_owned();
    for field in fields {
        let (name, kind, doc) = (escape(&field.json_name), kind(field), rich(&field.doc));
        let _ = write!(html, "<tr><td><code>{name}</code></td><td>{kind}</td><td>{doc}</td></tr>");
    }
    html + "</tbody></table>"
}

fn kind(field: &Field) -> String {
    let one = match &field.kind {
        Kind::Bool => "boolean".to_owned(),
        Kind::Bytes => "base64".to_owned(),
        Kind::Double => "number".to_owned(),
        Kind::Duration => "duration, <code>\"0.004s\"</code>".to_owned(),
        Kind::Int32 | Kind::Uint32 => "integer".to_owned(),
        Kind::Int64 | Kind::Uint64 => "integer, as a string".to_owned(),
        Kind::String => "string".to_owned(),
        Kind::Timestamp => "time, RFC 3339".to_owned(),
        Kind::Enum(name) | Kind::Message(name) => format!("<a href=\"#m-{0}\">{0}</a>", escape(name)),
    };
    if field.repeated { format!("list of {one}") } else { one }
}

fn grpc_only() -> String {
    if GRPC_ONLY.is_empty() {
        return String::new();
    }
    let names: String = GRPC_ONLY.iter().map(|rpc| format!("<li><code>{}</code></li>", escape(rpc))).collect();
    format!("<h2>By gRPC only</h2>\n<ul>{names}</ul>\n")
}

fn errors() -> String {
    let example = r#"{"error":{"code":3,"status":"INVALID_ARGUMENT","message":"…","details":[]}}"#;
    let rows = REASONS.iter().map(|reason| {
        let (name, code, http, meaning) = (reason.name, reason.code, reason.http, rich(reason.meaning));
        format!("<tr><td><code>{name}</code></td><td>{code}</td><td>{http}</td><td>{meaning}</td></tr>")
    });
    let rows: String = rows.collect();
    format!(
        "<p>Every failure answers <code>{}</code>: {}</p>\n<table><thead><tr><th>Reason</th><th>Code</th><th>HTTP</th>\
         <th>What happened, what to do</th></tr></thead><tbody>{rows}</tbody></table>\n",
        escape(example),
        rich(
            "the gRPC code and its name, what happened and what to do, and details for programs, each with its \
             `@type`: the reason in a `google.rpc.ErrorInfo`; after a failed write a `WriteOutcome`."
        ),
    )
}

/// What the tables above refer to, and what stands in no rpc.
fn messages(catalog: &Catalog) -> String {
    let in_rpcs = catalog.rpcs.values().flat_map(|rpc| [rpc.request.as_str(), rpc.response.as_str()]);
    let in_rpcs: BTreeSet<&str> = in_rpcs.collect();
    let fields = catalog.messages.values().flat_map(|message| &message.fields);
    let in_fields: BTreeSet<&str> = fields.filter_map(|field| field.kind.message()).collect();
    let shown = |name: &str| in_fields.contains(name) || !in_rpcs.contains(name);
    let messages = catalog.messages.iter().filter(|(name, _)| shown(name));
    let messages = messages.map(|(name, message)| part(name, &message.doc, &body(message)));
    let enums = catalog.enums.iter().map(|(name, declared)| part(name, &declared.doc, &values(declared)));
    messages.chain(enums).collect()
}

fn part(name: &str, doc: &str, inside: &str) -> String {
    format!("<section id=\"m-{0}\"><h3>{0}</h3><p>{1}</p>{inside}</section>\n", escape(name), rich(doc))
}

fn values(declared: &Enum) -> String {
    let values = declared.values.iter().map(|value| {
        let (name, doc) = (escape(&value.name), rich(&value.doc));
        format!("<tr><td><code>{name}</code></td><td>{doc}</td></tr>")
    });
    let rows: String = values.collect();
    format!("<table><thead><tr><th>Value</th><th>Meaning</th></tr></thead><tbody>{rows}</tbody></table>")
}

/// Text with `code` in it.
fn rich(text: &str) -> String {
    let parts = text.split('`').enumerate();
    parts
        .map(|(index, part)| {
            let part = escape(part);
            if index % 2 == 1 { format!("<code>{part}</code>") } else { part }
        })
        .collect()
}

fn escape(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;")
}
