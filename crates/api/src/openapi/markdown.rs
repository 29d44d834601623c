//! The reference in Markdown, `docs/api.md`: every service, rpc and route, every message and enum, every error.

use std::collections::BTreeSet;
use std::fmt::Write as _;

use super::catalog::{Catalog, Enum, Field, Kind, Message, PACKAGE, Rpc};
use super::document::{ABOUT, path_note, rest};
use super::routes::{Answers, ROUTES, Route};
use crate::errors::REASONS;

const OPENING: &str = "\
# API reference

Made from `proto/anabranch/v1` and the table of routes by `cargo xtask docs`; a test fails when it says anything else.
[Concepts](concepts.md) explains the words.

Everything is there twice: over gRPC (package `anabranch.v1`, by default on `127.0.0.1:7400`, with reflection and health), and over
HTTP/JSON (by default on `127.0.0.1:7401`). A server tells its own version of this page at `/docs`, and at `/openapi.json` for tools.

";

const JSON_TYPES: &str = "\
| type here | in JSON |
|---|---|
| bool, string, double, int32, uint32 | as usual |
| int64, uint64 | a string of digits, `\"1048576\"`; a number is taken, too |
| bytes | base64, `\"RGFyaw==\"` |
| time | RFC 3339 to the nanosecond, `\"2026-03-28T10:00:00.123456789Z\"`; answered in UTC, any offset is taken |
| duration | seconds, `\"0.004s\"` |
| an enum | the name of its value, `\"LATEST_FIRST\"` |

In the query of a GET a list is given by repeating its name.

";

/// The whole reference, for people who read files.
pub fn reference() -> String {
    let catalog = Catalog::load();
    let services = services_in_order();
    let mut page = OPENING.to_owned();
    let _ = writeln!(page, "{ABOUT}\n");
    page += JSON_TYPES;
    for service in &services {
        let _ = writeln!(page, "- [{service}](#{}): {}", anchor(service), catalog.services[*service]);
    }
    page += "- [For those who look after the server](#for-those-who-look-after-the-server)\n- [Errors](#errors)\n- [Messages](#messages)\n";
    for service in services {
        of_service(&mut page, &catalog, service);
    }
    operators(&mut page);
    errors(&mut page);
    messages(&mut page, &catalog);
    page
}

/// Services as the table of routes names them: what most people need stands first.
fn services_in_order() -> Vec<&'static str> {
    let mut services = Vec::new();
    for route in ROUTES {
        if let Answers::Rpc { rpc, .. } = &route.answers {
            let service = rpc.split('/').next().unwrap_or(rpc);
            if !services.contains(&service) {
                services.push(service);
            }
        }
    }
    services
}

fn of_service(page: &mut String, catalog: &Catalog, service: &str) {
    let _ = write!(page, "\n## {service}\n\n{}\n", catalog.services[service]);
    for route in ROUTES {
        if let Answers::Rpc { rpc, path_fields } = &route.answers
            && rpc.split('/').next() == Some(service)
        {
            of_rpc(page, catalog, route, rpc, path_fields);
        }
    }
}

fn of_rpc(page: &mut String, catalog: &Catalog, route: &Route, name: &str, path_fields: &[(&str, &str)]) {
    let rpc: &Rpc = &catalog.rpcs[name];
    let method = name.split('/').next_back().unwrap_or(name);
    let _ = write!(page, "\n### {method}\n\n`{} {}` · gRPC `{PACKAGE}.{name}`\n\n", route.verb.name(), route.path);
    let _ = write!(page, "{}\n\n", rpc.doc);
    let request = &catalog.messages[&rpc.request];
    let place = match (route.verb.has_body(), rest(request, path_fields).is_empty()) {
        (_, true) => "",
        (true, false) => " The rest is the body.",
        (false, false) => " The rest is the query.",
    };
    let _ = write!(page, "Request `{}`:", rpc.request);
    match path_note(path_fields) {
        Some(_) => {
            let names: Vec<String> = path_fields.iter().map(|(_, field)| format!("`{field}`")).collect();
            let verb = if names.len() == 1 { "is" } else { "are" };
            let _ = write!(page, " {} {verb} in the path.{place}", names.join(", "));
        }
        None if !request.fields.is_empty() => page.push_str(place),
        None => {}
    }
    page.push_str("\n\n");
    fields(page, request);
    let stream = if rpc.streams { " A stream of them; over HTTP one a line (NDJSON)." } else { "" };
    if is_shared(catalog, &rpc.response) {
        let _ = writeln!(page, "Answer: [`{0}`](#{1}).{stream}", rpc.response, anchor(&rpc.response));
    } else {
        let _ = write!(page, "Answer `{}`:{stream}\n\n", rpc.response);
        fields(page, &catalog.messages[&rpc.response]);
    }
}

/// Whether a message has a section of its own: it stands in fields, or is answered by more than one rpc, or by none.
fn is_shared(catalog: &Catalog, name: &str) -> bool {
    let uses = catalog.rpcs.values().filter(|rpc| rpc.response == name || rpc.request == name).count();
    let all = catalog.messages.values().flat_map(|message| &message.fields);
    let in_fields: BTreeSet<&str> = all.filter_map(|field| field.kind.message()).collect();
    in_fields.contains(name) || (uses != 1 && !catalog.rpcs.values().any(|rpc| rpc.request == name))
}

fn fields(page: &mut String, message: &Message) {
    if message.fields.is_empty() {
        page.push_str("Empty.\n\n");
        return;
    }
    page.push_str("| field | type | meaning |\n|---|---|---|\n");
    for field in &message.fields {
        let _ = writeln!(page, "| `{}` | {} | {} |", field.proto_name, kind(field), cell(&field.doc));
    }
    page.push('\n');
}

fn kind(field: &Field) -> String {
    let one = match &field.kind {
        Kind::Bool => "bool".to_owned(),
        Kind::Bytes => "bytes".to_owned(),
        Kind::Double => "double".to_owned(),
        Kind::Duration => "duration".to_owned(),
        Kind::Int32 => "int32".to_owned(),
        Kind::Int64 => "int64".to_owned(),
        Kind::String => "string".to_owned(),
        Kind::Timestamp => "time".to_owned(),
        Kind::Uint32 => "uint32".to_owned(),
        Kind::Uint64 => "uint64".to_owned(),
        Kind::Enum(name) | Kind::Message(name) => format!("[{name}](#{})", anchor(name)),
    };
    if field.repeated { format!("list of {one}") } else { one }
}

fn operators(page: &mut String) {
    page.push_str("\n## For those who look after the server\n\nOver HTTP only; answered as text.\n\n");
    page.push_str("| route | answers |\n|---|---|\n");
    for route in ROUTES {
        if let Answers::Text { summary, unavailable, .. } = &route.answers {
            let unavailable = unavailable.map(|meaning| format!(" 503: {meaning}")).unwrap_or_default();
            let _ = writeln!(page, "| `{} {}` | {summary}{unavailable} |", route.verb.name(), route.path);
        }
    }
}

fn errors(page: &mut String) {
    page.push_str(
        "\n## Errors\n\nOver gRPC a failure is a status with `google.rpc` details; over HTTP it is the same as JSON:\n\n\
         ```json\n{\"error\":{\"code\":5,\"status\":\"NOT_FOUND\",\"message\":\"there is no namespace `plays`\",\"details\":[\n\
         {\"@type\":\"type.googleapis.com/google.rpc.ErrorInfo\",\"reason\":\"NO_SUCH_NAMESPACE\",\"domain\":\"anabranch\"},\n\
         {\"@type\":\"type.googleapis.com/google.rpc.ResourceInfo\",\"resourceType\":\"namespace\",\"resourceName\":\"plays\"}]}}\n\
         ```\n\n\
         The message is for people: what happened, to what, and what to do. Programs look at the code, and at the `reason` in\n\
         `google.rpc.ErrorInfo`. Beside it there may be a `google.rpc.BadRequest` with every field that is wrong, a\n\
         `google.rpc.RetryInfo` with the time after which another try makes sense (over HTTP also `Retry-After`), a\n\
         `google.rpc.ResourceInfo`, and after a failed write a [`WriteOutcome`](#writeoutcome). Over gRPC details are cut at about 6 KiB, and the\n\
         message says so.\n\n",
    );
    page.push_str("| reason | code | HTTP | what happened, what to do |\n|---|---|---|---|\n");
    for reason in REASONS {
        let _ = writeln!(page, "| `{}` | {} | {} | {} |", reason.name, reason.code, reason.http, cell(reason.meaning));
    }
}

fn messages(page: &mut String, catalog: &Catalog) {
    page.push_str("\n## Messages\n\nThose that stand in others, and those that several rpcs answer.\n");
    for (name, message) in catalog.messages.iter().filter(|(name, _)| is_shared(catalog, name)) {
        let _ = write!(page, "\n### {name}\n\n{}\n\n", message.doc);
        fields(page, message);
        // What belongs to a message stands right after it.
        let inside = |(inner, _): &(&String, &Enum)| inner.rsplit_once('.').is_some_and(|(outer, _)| outer == name);
        for (name, declared) in catalog.enums.iter().filter(inside) {
            values(page, name, declared);
        }
    }
    for (name, declared) in catalog.enums.iter().filter(|(name, _)| !name.contains('.')) {
        values(page, name, declared);
    }
    page.truncate(page.trim_end().len());
    page.push('\n');
}

fn values(page: &mut String, name: &str, declared: &Enum) {
    let _ = write!(page, "\n### {name}\n\n{}\n\n| value | meaning |\n|---|---|\n", declared.doc);
    for value in &declared.values {
        let _ = writeln!(page, "| `{}` | {} |", value.name, cell(&value.doc));
    }
    page.push('\n');
}

/// Text in a cell of a table.
fn cell(text: &str) -> String {
    text.replace('|', "\\|")
}

/// The anchor that a heading gets.
fn anchor(heading: &str) -> String {
    heading.to_ascii_lowercase().replace('.', "")
}
