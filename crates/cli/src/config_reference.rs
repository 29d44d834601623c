//! `anabranch config --reference`: every setting of the server and of a namespace as one page in Markdown. `docs/configuration.md`
//! is what it prints.

use std::{fmt::Write as _, time::Duration};

use anabranch_model::{Amount, Bound, NamespaceConfig, config::Surroundings};
use anabranch_server::{Config, Field, Kind};
use clap::Args as _;

use crate::{
    args::{ServerFlags, SettingArgs},
    config_layers::variable_name,
    times::{show_bytes, show_duration},
};

const OPENING: &str = "\
# Configuration reference

Printed by `anabranch config --reference`, so that a program always tells what it understands itself; `cargo xtask docs` writes it
here, and a test fails when this page says anything else.

There are two kinds of settings. Those [of the server](#settings-of-the-server) belong to one process and are read when it starts. Those
[of a namespace](#settings-of-a-namespace) lie in the store, are the same for all servers, and are changed while they run.

## Settings of the server

Later ones win: the default; a TOML file (`--config FILE`, else `ANABRANCH_CONFIG`, else `./anabranch.toml` if it is there); the
environment; flags of `anabranch serve`. `anabranch config` shows the result, and where each value came from. What nobody knows is
refused in a file, and told as a note in the environment. A configuration that breaks a rule is refused with every rule it breaks.

```toml
[listen]
grpc = \"127.0.0.1:7400\"

[store]
cache = \"512 MiB\"

[limits]
shutdown_grace = \"20s\"
```

| type | what is written |
|---|---|
| address | an IP address and a port: `\"127.0.0.1:7400\"` |
| bool | `true` or `false` |
| file | a path, from where the server was started: `\"./anabranch-data\"` |
| number | a whole number: `1024` |
| size | bytes: `\"512 MiB\"`, `\"64 KiB\"`, `1048576`; KB, MB and GB count in thousands |
| text | a string |
| time | `\"500ms\"`, `\"20s\"`, `\"1m 30s\"`, `\"36h\"` |

The variable of a setting is its name in capitals: `store.cache` is `ANABRANCH_STORE_CACHE`.
";

const NAMESPACES: &str = "
## Settings of a namespace

Given when a namespace is created, and changed later: `anabranch namespace create NAME --event-buckets 4`,
`anabranch namespace update NAME --event-buckets 8`, in the field `config` of [CreateNamespace](api.md#createnamespace) and
[UpdateNamespace](api.md#updatenamespace). `anabranch plan` works them out from a workload ([provisioning](provisioning.md)). Settings that
decide what may be written, or where, take effect two refresh intervals later, so that every server knows them; new partition settings
hold for slices that aren't made yet.

| flag | field | default | allowed | meaning |
|---|---|---|---|---|
";

const FURTHER_RULES: &str = "
Rules over several of them; what breaks one is refused:

- `seconds_per_slice` is a multiple of 60, `seconds_per_bucket` isn't longer than it.
- Slices are long enough that `accept_limit`, `drift_limit` and `delete_after` need no more than 300 of them.
- `seal_margin` covers `write_slo.max` and the server's `engine.max_clock_skew`.
- `close_after` isn't shorter than `accept_limit` and `seal_margin` together; `delete_after` needs it, and exceeds it by the longest
  request (`read_slo.max`, `write_slo.max`) and the server's `engine.lease`.
- A `target` isn't above its `max`, a default page not bigger than the biggest, a piece not bigger than the threshold.

Beside them a namespace has a block list (`anabranch block`), backfill windows (`anabranch backfill`) and a read mode
(`anabranch split mode`): [operating it](operations.md).
";

/// The whole page.
pub(crate) fn page() -> String {
    let config = Config::default();
    let (fields, bounds) = (config.fields(), config.bounds());
    let mut page = OPENING.to_owned();
    for (section, about) in Config::sections() {
        let prefix = format!("{section}.");
        let _ = write!(
            page,
            "\n### [{section}]\n\n{about}\n\n| setting | type | default | allowed | flag | meaning |\n|---|---|---|---|---|---|\n"
        );
        for field in fields.iter().filter(|field| field.path.starts_with(&prefix)) {
            server_row(&mut page, field, bounds.iter().find(|bound| bound.field == field.path));
        }
    }
    page += NAMESPACES;
    namespace_rows(&mut page, &config);
    page += FURTHER_RULES;
    page
}

fn server_row(page: &mut String, field: &Field, bound: Option<&Bound>) {
    let default = field.value.as_deref().map_or_else(|| "unset".to_owned(), |value| format!("`{value}`"));
    let default = if default == "`\"\"`" { "empty".to_owned() } else { default };
    let allowed = bound.map_or_else(String::new, |bound| allowed(bound, &ToString::to_string));
    let flag = ServerFlags::flag_of(&field.path).map_or_else(String::new, |flag| format!("`{flag}`"));
    let (path, kind, doc) = (&field.path, kind_name(field.kind), field.doc.replace('|', "\\|"));
    let _ =
        writeln!(page, "| `{path}`<br>`{}` | {kind} | {default} | {allowed} | {flag} | {doc} |", variable_name(path));
}

fn kind_name(kind: Kind) -> &'static str {
    match kind {
        Kind::Address => "address",
        Kind::Bool => "bool",
        Kind::File => "file",
        Kind::Number => "number",
        Kind::Size => "size",
        Kind::Text => "text",
        Kind::Time => "time",
    }
}

fn allowed(bound: &Bound, show: &impl Fn(&Amount) -> String) -> String {
    match &bound.most {
        Some(most) => format!("{} to {}", show(&bound.least), show(most)),
        None => format!("from {}", show(&bound.least)),
    }
}

fn namespace_rows(page: &mut String, config: &Config) {
    let around = Surroundings { max_clock_skew: config.engine.max_clock_skew, lease: config.engine.lease };
    let bounds = NamespaceConfig::bounds(&around);
    let command = SettingArgs::augment_args(clap::Command::new("settings"));
    for argument in command.get_arguments() {
        let help = argument.get_help().map(ToString::to_string).unwrap_or_default();
        let (meaning, default) = help.split_once(" [default: ").unwrap_or((&help, ""));
        let field = field_of(argument.get_id().as_str());
        // Lengths of partitions are given in seconds over the API, and as a time on the command line.
        let show = |amount: &Amount| match amount {
            Amount::Number(seconds) if field.starts_with("seconds_per") => show_duration(Duration::from_secs(*seconds)),
            Amount::Number(number) => number.to_string(),
            Amount::Bytes(bytes) => show_bytes(*bytes),
            Amount::Time(length) => show_duration(*length),
        };
        let bound = bounds.iter().find(|bound| bound.field == field);
        let allowed = bound.map_or_else(String::new, |bound| allowed(bound, &show));
        let flag = argument.get_long().unwrap_or_default();
        let default = default.trim_end_matches(']');
        let _ = writeln!(page, "| `--{flag}` | `{field}` | {default} | {allowed} | {meaning} |");
    }
}

/// The name of a setting in the API, `read_slo.max`, by the name of its flag, `read_slo_max`.
fn field_of(argument: &str) -> String {
    let defaults = serde_json::to_value(NamespaceConfig::default()).unwrap_or_default();
    let mut fields = Vec::new();
    for (name, value) in defaults.as_object().into_iter().flatten() {
        match value.as_object() {
            Some(inner) => fields.extend(inner.keys().map(|inner| format!("{name}.{inner}"))),
            None => fields.push(name.clone()),
        }
    }
    let same = |field: &&String| field.replace('.', "_") == argument || field.rsplit('.').next() == Some(argument);
    fields.iter().find(same).cloned().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_setting_and_every_bound_stands_in_the_page_once() {
        let page = page();
        let config = Config::default();
        for field in config.fields() {
            let row = format!("| `{}`<br>", field.path);
            assert_eq!(page.matches(&row).count(), 1, "{}", field.path);
        }
        let around = Surroundings { max_clock_skew: config.engine.max_clock_skew, lease: config.engine.lease };
        for bound in NamespaceConfig::bounds(&around) {
            let row = page.lines().find(|line| line.contains(&format!("| `{}` |", bound.field)));
            let row = row.unwrap_or_else(|| panic!("{} has no row", bound.field));
            assert!(row.contains(" to "), "{row}");
        }
        let rows = page.lines().filter(|line| line.starts_with("| `--"));
        assert!(rows.clone().count() > 30);
        for row in rows {
            let cells: Vec<&str> = row.split(" | ").collect();
            assert!(!cells[1].contains("``") && !cells[2].is_empty() && cells[4].len() > 10, "{row}");
        }
    }
}
