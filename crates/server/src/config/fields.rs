//! The configuration as a list of settings, for those who print it, change one, or ask which a file sets.

use toml::{Table, Value};

use super::section::Section;
use super::{Bus, Cassandra, Config, ConfigError, Engine, Kafka, Limits, Listen, Log, Splits, Store, Traces, Tuning};

/// One setting.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Field {
    /// Its section and name: `store.cache`.
    pub path: String,
    /// Its value as TOML would say it; `None` when it isn't set.
    pub value: Option<String>,
    /// What it means.
    pub doc: &'static str,
    /// What is written for it.
    pub kind: Kind,
}

/// What is written for a setting.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// An IP address and a port.
    Address,
    /// `true` or `false`.
    Bool,
    /// A path of this machine.
    File,
    /// A whole number.
    Number,
    /// A number of bytes.
    Size,
    /// Anything, or what its meaning says.
    Text,
    /// A length of time.
    Time,
}

impl Kind {
    /// By the type in Rust.
    fn of(rust: &str) -> Kind {
        match rust.trim_start_matches("Option<").trim_end_matches('>') {
            "SocketAddr" => Kind::Address,
            "bool" => Kind::Bool,
            "PathBuf" => Kind::File,
            "usize" | "u32" => Kind::Number,
            "ByteSize" => Kind::Size,
            "Duration" => Kind::Time,
            _ => Kind::Text,
        }
    }
}

/// All sections with their settings.
const SECTIONS: [(&str, Section); 11] = [
    ("listen", Listen::SECTION),
    ("store", Store::SECTION),
    ("cassandra", Cassandra::SECTION),
    ("bus", Bus::SECTION),
    ("kafka", Kafka::SECTION),
    ("limits", Limits::SECTION),
    ("engine", Engine::SECTION),
    ("splits", Splits::SECTION),
    ("tuning", Tuning::SECTION),
    ("log", Log::SECTION),
    ("traces", Traces::SECTION),
];

impl Config {
    /// Every setting with its value, in the order in which they are documented.
    pub fn fields(&self) -> Vec<Field> {
        let table = self.table();
        let mut fields = Vec::new();
        for (name, section) in SECTIONS {
            for setting in section.settings {
                let value = table.get(name).and_then(|section| section.get(setting.name)).map(Value::to_string);
                let (doc, kind) = (setting.doc.trim(), Kind::of(setting.kind));
                fields.push(Field { path: format!("{name}.{}", setting.name), value, doc, kind });
            }
        }
        fields
    }

    /// The names of all sections, and what each is for.
    pub fn sections() -> impl Iterator<Item = (&'static str, &'static str)> {
        SECTIONS.into_iter().map(|(name, section)| (name, section.about.trim()))
    }

    /// The paths of all settings that a TOML file says something about.
    pub fn paths_in(text: &str) -> Result<Vec<String>, ConfigError> {
        let table: Table = toml::from_str(text)?;
        let mut paths = Vec::new();
        for (section, settings) in &table {
            let names = settings.as_table().into_iter().flat_map(Table::keys);
            paths.extend(names.map(|name| format!("{section}.{name}")));
        }
        Ok(paths)
    }

    /// Changes one setting, given as text: from the environment, or a flag.
    pub fn set(&mut self, path: &str, text: &str) -> Result<(), ConfigError> {
        let unknown = || ConfigError::Unknown { path: path.to_owned() };
        let (section, name) = path.split_once('.').ok_or_else(unknown)?;
        let known = |(found, told): &(&str, Section)| {
            *found == section && told.settings.iter().any(|setting| setting.name == name)
        };
        SECTIONS.iter().find(|section| known(section)).ok_or_else(unknown)?;
        let mut table = self.table();
        let settings = table.get_mut(section).and_then(Value::as_table_mut).ok_or_else(unknown)?;
        let wrong = |reason: String| ConfigError::Value { path: path.to_owned(), value: text.to_owned(), reason };
        let value = parse_like(settings.get(name), text).map_err(wrong)?;
        settings.insert(name.to_owned(), value);
        *self = Config::from_table(table).map_err(wrong)?;
        Ok(())
    }

    fn table(&self) -> Table {
        Table::try_from(self).expect("a configuration holds nothing that TOML can't say")
    }

    fn from_table(table: Table) -> Result<Config, String> {
        table.try_into().map_err(|error: toml::de::Error| error.message().to_owned())
    }
}

/// A value of the type that the setting has now.
fn parse_like(now: Option<&Value>, text: &str) -> Result<Value, String> {
    match now {
        Some(Value::Boolean(_)) => match text.trim() {
            "true" | "1" | "yes" => Ok(Value::Boolean(true)),
            "false" | "0" | "no" => Ok(Value::Boolean(false)),
            _ => Err("it takes true or false".to_owned()),
        },
        Some(Value::Integer(_)) => {
            text.trim().parse().map(Value::Integer).map_err(|_| "it takes a whole number".to_owned())
        }
        _ => Ok(Value::String(text.to_owned())),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_setting_is_listed_with_its_value_and_meaning() {
        let fields = Config::default().fields();
        let mut named: Vec<String> = Vec::new();
        for (section, settings) in &Config::default().table() {
            named.extend(settings.as_table().unwrap().keys().map(|name| format!("{section}.{name}")));
        }
        for path in named {
            assert!(fields.iter().any(|field| field.path == path && field.value.is_some()), "{path}");
        }
        assert!(fields.iter().all(|field| field.doc.ends_with('.') || field.doc.ends_with('`')));
        let cache = fields.iter().find(|field| field.path == "store.cache").unwrap();
        assert_eq!(cache.value.as_deref(), Some("\"512 MiB\""));
        let key = fields.iter().find(|field| field.path == "listen.tls_key").unwrap();
        assert_eq!(key.value, None);
    }

    #[test]
    fn every_setting_has_the_kind_of_its_value() {
        for field in Config::default().fields() {
            let Some(value) = field.value.as_deref() else { continue };
            let fits = match field.kind {
                Kind::Bool => value == "true" || value == "false",
                Kind::Number => value.parse::<u64>().is_ok(),
                Kind::Size => value.ends_with("B\""),
                Kind::Time => value.ends_with("s\"") || value.ends_with("m\"") || value.ends_with("h\""),
                Kind::Address => value.trim_matches('"').parse::<std::net::SocketAddr>().is_ok(),
                Kind::File | Kind::Text => value.starts_with('"'),
            };
            assert!(fits, "{} is {value}, not a {:?}", field.path, field.kind);
        }
    }

    #[test]
    fn every_bound_is_one_of_a_setting() {
        let config = Config::default();
        let fields = config.fields();
        let bounds = config.bounds();
        assert!(bounds.len() > 40, "{}", bounds.len());
        for bound in bounds {
            assert!(fields.iter().any(|field| field.path == bound.field), "{}", bound.field);
        }
    }

    #[test]
    fn settings_are_changed_by_text() {
        let mut config = Config::default();
        for (path, text) in [
            ("listen.grpc", "127.0.0.1:0"),
            ("listen.insecure", "true"),
            ("listen.tls_key", "key.pem"),
            ("store.cache", "16 MiB"),
            ("limits.max_requests", "7"),
            ("limits.shutdown_grace", "1m 30s"),
            ("log.format", "json"),
        ] {
            config.set(path, text).unwrap();
        }
        assert_eq!(config.store.cache.0, 16 << 20);
        assert_eq!(config.limits.shutdown_grace.as_secs(), 90);
        assert!(config.listen.insecure && config.listen.tls_key.is_some());
        let refusal = |path: &str, text: &str| Config::default().set(path, text).unwrap_err().to_string();
        insta::assert_snapshot!(refusal("store.cash", "1"), @"there is no setting `store.cash`; `anabranch config` shows all");
        insta::assert_snapshot!(refusal("store.cache", "much"), @"`store.cache` can't be `much`: `much` is not a number of bytes such as 512 MiB, 64 KiB or 1048576");
        insta::assert_snapshot!(refusal("listen.grpc", "7400"), @"`listen.grpc` can't be `7400`: invalid socket address syntax");
        insta::assert_snapshot!(refusal("limits.max_requests", "-1"), @"`limits.max_requests` can't be `-1`: invalid value: integer `-1`, expected usize");
    }

    #[test]
    fn a_file_says_what_it_sets() {
        let text = "[store]\ncache = \"1 GiB\"\n[log]\nlevel = \"debug\"\n";
        assert_eq!(Config::paths_in(text).unwrap(), ["log.level", "store.cache"]);
        assert_eq!(Config::from_toml(text).unwrap().store.cache.0, 1 << 30);
        let error = Config::from_toml("[store]\ncash = 1\n").unwrap_err().to_string();
        assert!(error.contains("line 2") && error.contains("unknown field `cash`"), "{error}");
    }
}
