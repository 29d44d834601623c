//! `anabranch config`: every setting of the server, its value, and where that came from; or the page of all that can be set.

use serde_json::json;

use crate::{
    args::ConfigArgs,
    config_layers::{self, Layers, variable_name},
    config_reference,
    failure::Outcome,
    output::{Format, Out, note, table::Table, text::escaped},
    session::Session,
};

pub(crate) fn run(session: &Session, args: &ConfigArgs) -> Outcome {
    if args.reference {
        let mut out = Out::new();
        out.text(&config_reference::page())?;
        return Ok(out.flush()?);
    }
    let layers = config_layers::load(&args.server)?;
    print(session, &layers)?;
    for unknown in &layers.unknown_variables {
        note(session.colors, unknown);
    }
    layers.check()
}

fn print(session: &Session, layers: &Layers) -> Outcome {
    let mut out = Out::new();
    let mut documents = Vec::new();
    let mut table = Table::new(&["setting", "value", "from"]);
    for field in layers.config.fields() {
        let origin = layers.origin(&field.path).to_string();
        let value = field.value.as_deref().map_or_else(|| "-".to_owned(), escaped);
        table.row(vec![field.path.clone(), value, escaped(&origin)]);
        documents.push(json!({
            "setting": field.path,
            "value": field.value,
            "from": origin,
            "variable": variable_name(&field.path),
            "meaning": field.doc,
        }));
    }
    match session.format {
        Format::Table => out.text(&table.take_text(session.colors.stdout))?,
        Format::Json => out.json(&documents)?,
        Format::Jsonl => documents.iter().try_for_each(|document| out.json_line(document))?,
    }
    Ok(out.flush()?)
}
