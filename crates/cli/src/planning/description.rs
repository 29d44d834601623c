//! The description of a workload from its layers: a file, then flags, then answers.

use std::{fs, path::Path};

use anabranch_provision::{Settings, Workload};
use serde::Deserialize;
use toml::{Table, Value};

use crate::failure::{Exit, Failure, Outcome};

const NEEDED: [(&str, &str); 3] =
    [("writes_per_second", "--writes-per-second"), ("event_bytes", "--event-bytes"), ("ids", "--ids")];

/// Fields of a description, checked only when it is complete.
#[derive(Clone, Debug, Default)]
pub(crate) struct Description {
    fields: Table,
}

/// What a file holds.
pub(crate) enum Document {
    Description(Description),
    /// The answer to one, with the settings that were worked out.
    Plan {
        description: Description,
        settings: Settings,
    },
}

impl Document {
    pub(crate) fn into_description(self) -> Description {
        match self {
            Document::Description(description) | Document::Plan { description, .. } => description,
        }
    }
}

/// Reads a description or a plan, in TOML or JSON.
pub(crate) fn read_document(path: &Path) -> Outcome<Document> {
    let text = fs::read_to_string(path).map_err(|error| Failure::file("read", path, &error))?;
    let wrong = |error: &dyn std::fmt::Display| {
        let message = format!("{} is neither a description nor a plan: {error}", path.display());
        Failure::new(Exit::Refused, message).hint("see `anabranch plan --help`")
    };
    let mut table: Table = if text.trim_start().starts_with('{') {
        serde_json::from_str(&text).map_err(|error| wrong(&error))?
    } else {
        toml::from_str(&text).map_err(|error| wrong(&error.message()))?
    };
    let (workload, settings) = (table.remove("workload"), table.remove("settings"));
    let document = match (workload, settings) {
        (Some(Value::Table(fields)), Some(settings)) => {
            let settings = Settings::deserialize(settings).map_err(|error| wrong(&error.message()))?;
            Document::Plan { description: Description { fields }, settings }
        }
        (None, None) => Document::Description(Description { fields: table }),
        _ => return Err(wrong(&"a plan has the tables `workload` and `settings`")),
    };
    let (Document::Description(description) | Document::Plan { description, .. }) = &document;
    description.check().map_err(|error| wrong(&error.message()))?;
    Ok(document)
}

impl Description {
    /// Sets fields to what was typed. A skew replaces one of the other kind.
    pub(crate) fn set(&mut self, field: &str, text: String) {
        match field {
            "zipf" | "top_one_percent" => {
                let skew = Table::from_iter([(field.to_owned(), Value::String(text))]);
                self.fields.insert("skew".to_owned(), Value::Table(skew));
            }
            field => {
                self.fields.insert(field.to_owned(), Value::String(text));
            }
        }
    }

    pub(crate) fn has(&self, field: &str) -> bool {
        let name = if matches!(field, "zipf" | "top_one_percent") { "skew" } else { field };
        self.fields.contains_key(name)
    }

    /// Whether nothing that nobody else can know is missing.
    pub(crate) fn is_complete(&self) -> bool {
        NEEDED.iter().all(|(field, _)| self.has(field))
    }

    /// Whether what is there can be understood, whatever is still missing: who mistyped a field shouldn't be asked for it.
    fn check(&self) -> Result<(), toml::de::Error> {
        let mut fields = self.fields.clone();
        for (field, _) in NEEDED {
            fields.entry(field).or_insert(Value::Integer(1));
        }
        Workload::deserialize(fields).map(|_| ())
    }

    pub(crate) fn to_workload(&self) -> Outcome<Workload> {
        let missing: Vec<&str> = NEEDED.iter().filter(|(field, _)| !self.has(field)).map(|(_, flag)| *flag).collect();
        if !missing.is_empty() {
            let failure = Failure::usage(format!("nothing can be planned without {}", missing.join(", ")));
            return Err(failure.hint("give flags or a file, or run it on a terminal to be asked"));
        }
        Workload::deserialize(self.fields.clone()).map_err(|error| {
            let message = format!("the description can't be understood: {}", error.message());
            Failure::new(Exit::Refused, message).hint("see `anabranch plan --help`")
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn later_layers_win_and_a_skew_replaces_the_other_kind() {
        let mut description = Description::default();
        for (field, text) in
            [("writes_per_second", "5"), ("event_bytes", "1KiB"), ("ids", "1..2..3@0.5"), ("zipf", "0.9")]
        {
            description.set(field, text.to_owned());
        }
        description.set("top_one_percent", "40%".to_owned());
        description.set("writes_per_second", "6".to_owned());
        let workload = description.to_workload().unwrap();
        assert_eq!(workload.writes_per_second.mid(), 6.0);
        assert_eq!(workload.ids.high(), 3.0);
        assert!(matches!(workload.skew, anabranch_provision::Skew::TopOnePercent(share) if share.mid() == 0.4));
    }

    #[test]
    fn a_mistyped_field_is_named_before_what_is_missing() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("plays.toml");
        let reason = |text: &str| {
            fs::write(&file, text).unwrap();
            read_document(&file).err().map(|failure| failure.message).unwrap_or_default()
        };
        assert!(reason("writes_per_second = 10\nevent_byte = 5\n").contains("unknown field `event_byte`"));
        assert!(
            reason("writes_per_second = \"x\"\n").contains("`x` is not a number"),
            "{}",
            reason("writes_per_second = \"x\"\n")
        );
        assert_eq!(reason("writes_per_second = 10\n"), "");
    }

    #[test]
    fn what_is_missing_is_named() {
        let mut description = Description::default();
        description.set("ids", "5".to_owned());
        let failure = description.to_workload().unwrap_err();
        assert_eq!(failure.message, "nothing can be planned without --writes-per-second, --event-bytes");
    }
}
