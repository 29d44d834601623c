//! The settings of a namespace, all of them, under the names that the API and the command line know them by.

use std::time::Duration;

use anabranch_api::v1::{Namespace, NamespaceConfig};
use maud::{Markup, html};
use serde_json::Value;

use super::show;

pub(super) fn section(namespace: &Namespace) -> Markup {
    html! {
        section aria-labelledby="settings" {
            h2 #settings { "Configuration" }
            @if let Some(config) = &namespace.next_config {
                p.notice { "New settings come into force at " (show::time(namespace.next_config_time.as_ref())) ", when every server knows them:" }
                (list(config))
                h3 { "Until then" }
            }
            @if let Some(config) = &namespace.config { (list(config)) }
            p.more { "Change it with " code { "anabranch namespace update " (namespace.name) } "." }
        }
    }
}

fn list(config: &NamespaceConfig) -> Markup {
    let Ok(Value::Object(fields)) = serde_json::to_value(config) else { return html! {} };
    let (groups, single): (Vec<_>, Vec<_>) = fields.iter().partition(|(_, value)| value.is_object());
    html! {
        div.settings {
            div { h3 { "General" } dl.pairs { @for (name, value) in single { (pair(name, value)) } } }
            @for (group, value) in groups {
                div { h3 { code { (group) } } dl.pairs {
                    @for (name, value) in value.as_object().into_iter().flatten() { (pair(name, value)) }
                } }
            }
        }
    }
}

fn pair(name: &str, value: &Value) -> Markup {
    html! { div { dt { code { (name) } } dd { (told(name, value)) } } }
}

/// A value as people read it.
fn told(name: &str, value: &Value) -> String {
    match value {
        Value::Bool(true) => "yes".to_owned(),
        Value::Bool(false) => "no".to_owned(),
        Value::Array(list) => format!("{} entries", list.len()),
        Value::String(text) => {
            if let Some(number) = text.parse().ok().filter(|_| is_bytes(name)) {
                return show::bytes(number);
            }
            let seconds = text.strip_suffix('s').and_then(|digits| digits.parse::<f64>().ok());
            match seconds.and_then(|seconds| Duration::try_from_secs_f64(seconds).ok()) {
                Some(duration) => show::length(duration),
                None => show::one_line(text),
            }
        }
        Value::Number(number) => match number.as_u64() {
            Some(number) if name.starts_with("secondsPer") => show::length(Duration::from_secs(number)),
            Some(number) if is_bytes(name) => show::bytes(number),
            Some(number) => show::count(number),
            None => number.to_string(),
        },
        Value::Null | Value::Object(_) => "–".to_owned(),
    }
}

fn is_bytes(name: &str) -> bool {
    name.ends_with("Bytes")
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn values_are_told_in_their_units() {
        assert_eq!(told("thresholdBytes", &json!("10485760")), "10.0 MiB");
        assert_eq!(told("blockBytes", &json!(4096)), "4.0 KiB");
        assert_eq!(told("acceptLimit", &json!("86400s")), "1 d");
        assert_eq!(told("target", &json!("0.100s")), "100 ms");
        assert_eq!(told("secondsPerSlice", &json!(3600)), "1 h");
        assert_eq!(told("promote", &json!(false)), "no");
        assert_eq!(told("packing", &json!("LZ4")), "LZ4");
    }
}
