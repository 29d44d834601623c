//! `anabranch namespace`: makes, lists, changes and deletes namespaces.

use std::{
    io::{BufRead, IsTerminal, Write, stderr, stdin},
    path::Path,
};

use anabranch_api::{
    v1::{
        CreateNamespaceRequest, DeleteNamespaceRequest, GetNamespaceRequest, ListNamespacesRequest, Namespace,
        NamespaceConfig, RestoreNamespaceRequest, UpdateNamespaceRequest,
    },
    wkt,
};
use anabranch_client::Client;
use anabranch_provision::DEFAULT_SEED;

use super::namespace_show;
use crate::{
    args::{DeleteArgs, NamespaceCommand, SettingArgs, UpdateArgs},
    failure::{Failure, Outcome},
    output::{Format, Out, table::Table, text::escaped},
    planning::{self, Document},
    session::Session,
    times::{show_time, show_wire_duration},
};

pub(crate) async fn run(session: &Session, command: NamespaceCommand) -> Outcome {
    if let NamespaceCommand::Delete(args) = &command {
        confirm(args)?;
    }
    let client = session.connect().await?;
    match command {
        NamespaceCommand::Create(args) => {
            let (settings, workload) = with_plan(args.settings, args.plan.as_deref())?;
            let config = Some(to_config(&settings)?);
            let request = CreateNamespaceRequest { name: args.name, config, workload };
            let namespace = client.create_namespace(request).await?;
            print_done(session, "created", &namespace)
        }
        NamespaceCommand::List { deleted } => list(session, &client, deleted).await,
        NamespaceCommand::Show { name } => {
            let namespace = client.get_namespace(GetNamespaceRequest { name }).await?;
            namespace_show::print(session, &namespace)
        }
        NamespaceCommand::Update(args) => update(session, &client, *args).await,
        NamespaceCommand::Delete(args) => delete(session, &client, &args).await,
        NamespaceCommand::Restore { name } => {
            let namespace = client.restore_namespace(RestoreNamespaceRequest { name }).await?;
            print_done(session, "restored", &namespace)
        }
    }
}

async fn delete(session: &Session, client: &Client, args: &DeleteArgs) -> Outcome {
    let grace = args.grace.map(wkt::Duration::try_from).transpose();
    let grace = grace.map_err(|error| Failure::usage(error.to_string()))?;
    let request = DeleteNamespaceRequest { name: args.name.clone(), confirm: args.name.clone(), grace };
    let answer = client.delete_namespace(request).await?;
    let mut out = Out::new();
    match session.format {
        Format::Table => {
            let name = escaped(&args.name);
            out.line(format!("deleted the namespace `{name}`"))?;
            if args.grace != Some(std::time::Duration::ZERO) {
                let until = show_time(answer.drop_time.as_ref());
                out.line(format!("until {until}, `anabranch namespace restore {name}` brings it back"))?;
            }
        }
        Format::Json | Format::Jsonl => {
            out.json_line(&serde_json::json!({"deleted": args.name, "dropTime": answer.drop_time}))?;
        }
    }
    Ok(out.flush()?)
}

async fn list(session: &Session, client: &Client, deleted: bool) -> Outcome {
    let answer = client.list_namespaces(ListNamespacesRequest { deleted }).await?;
    let mut out = Out::new();
    match session.format {
        Format::Json => out.json(&answer)?,
        Format::Jsonl => answer.namespaces.iter().try_for_each(|namespace| out.json_line(namespace))?,
        Format::Table if answer.namespaces.is_empty() && deleted => out.line("no namespace can be restored")?,
        Format::Table if deleted => {
            let mut table = Table::new(&["name", "slices", "created", "can be restored until"]).align_right(&[1]);
            for namespace in &answer.namespaces {
                table.row(vec![
                    escaped(&namespace.name),
                    namespace.slices.len().to_string(),
                    show_time(namespace.create_time.as_ref()),
                    show_time(namespace.drop_time.as_ref()),
                ]);
            }
            out.text(&table.take_text(session.colors.stdout))?;
        }
        Format::Table if answer.namespaces.is_empty() => {
            out.line("no namespaces; make one with `anabranch namespace create NAME`")?;
        }
        Format::Table => {
            let headers = ["name", "slices", "accepts", "keeps", "created"];
            let mut table = Table::new(&headers).align_right(&[1]);
            for namespace in &answer.namespaces {
                let config = namespace.config.clone().unwrap_or_default();
                let keeps = config.close_after.or(config.delete_after);
                table.row(vec![
                    escaped(&namespace.name),
                    namespace.slices.len().to_string(),
                    show_wire_duration(config.accept_limit.as_ref()),
                    keeps.map_or_else(|| "forever".to_owned(), |keeps| show_wire_duration(Some(&keeps))),
                    show_time(namespace.create_time.as_ref()),
                ]);
            }
            out.text(&table.take_text(session.colors.stdout))?;
        }
    }
    Ok(out.flush()?)
}

async fn update(session: &Session, client: &Client, args: UpdateArgs) -> Outcome {
    let config = to_config(&args.settings)?;
    let clear: Vec<String> = args.clear.iter().map(|setting| camel_case(setting)).collect();
    if config == NamespaceConfig::default() && clear.is_empty() {
        return Err(Failure::usage("nothing to change: give a setting, or --clear")
            .hint("see `anabranch namespace update --help`"));
    }
    let request = UpdateNamespaceRequest { name: args.name, config: Some(config), clear, dry_run: false };
    let namespace = client.update_namespace(request).await?;
    print_done(session, "updated", &namespace)
}

/// The settings of a plan, below the flags that were given, and the description that it was made from. A description is
/// planned for first.
fn with_plan(settings: SettingArgs, file: Option<&Path>) -> Outcome<(SettingArgs, String)> {
    let Some(file) = file else { return Ok((settings, String::new())) };
    let (workload, planned) = match planning::read_document(file)? {
        Document::Plan { description, settings } => (description.to_workload()?, settings),
        Document::Description(description) => {
            let workload = description.to_workload()?;
            let planned = planning::plan(&workload, DEFAULT_SEED)?.settings;
            (workload, planned)
        }
    };
    let described = toml::to_string(&workload).map_err(|error| Failure::other(format!("can't be TOML: {error}")))?;
    Ok((settings.or_planned(&planned), described))
}

fn to_config(settings: &SettingArgs) -> Outcome<NamespaceConfig> {
    settings.to_config().map_err(|error| Failure::usage(error.to_string()))
}

/// `delete-after` and `delete_after` are `deleteAfter` in the API.
fn camel_case(setting: &str) -> String {
    let mut name = String::with_capacity(setting.len());
    let mut upper = false;
    for c in setting.trim_start_matches('-').chars() {
        match c {
            '-' | '_' => upper = true,
            c if upper => {
                name.extend(c.to_uppercase());
                upper = false;
            }
            c => name.push(c),
        }
    }
    name
}

fn print_done(session: &Session, verb: &str, namespace: &Namespace) -> Outcome {
    let mut out = Out::new();
    match session.format {
        Format::Json => out.json(namespace)?,
        Format::Jsonl => out.json_line(namespace)?,
        Format::Table => {
            out.line(format!("{verb} the namespace `{}`", escaped(&namespace.name)))?;
            if let Some(at) = &namespace.next_config_time {
                out.line(format!("some settings come into force at {at}; `anabranch namespace show` lists them"))?;
            }
        }
    }
    Ok(out.flush()?)
}

/// Asks for the name once more, so that nothing is deleted by a slip.
fn confirm(args: &DeleteArgs) -> Outcome {
    if args.yes {
        return Ok(());
    }
    ask(&format!("This deletes `{}` and every event in it.", escaped(&args.name)), &args.name)
}

/// Goes on only when the name is typed.
pub(super) fn ask(what: &str, name: &str) -> Outcome {
    if !stdin().is_terminal() {
        return Err(Failure::usage(format!("{what} That needs --yes where there is no terminal to ask on")));
    }
    eprint!("{what} Type the name to go on: ");
    let mut answer = String::new();
    let read = stderr().flush().and_then(|()| stdin().lock().read_line(&mut answer));
    read.map_err(|error| Failure::other(format!("can't read from the terminal: {error}")))?;
    if answer.trim() == name { Ok(()) } else { Err(Failure::other("that is not the name; nothing was changed")) }
}

#[cfg(test)]
mod tests {
    use super::camel_case;

    #[test]
    fn settings_are_named_as_in_flags_files_and_json() {
        for text in ["delete-after", "delete_after", "deleteAfter", "--delete-after"] {
            assert_eq!(camel_case(text), "deleteAfter");
        }
    }
}
