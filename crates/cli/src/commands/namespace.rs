//! `anabranch namespace`: makes, lists, changes and deletes namespaces.

use std::{
    io::{BufRead, IsTerminal, Write, stderr, stdin},
    path::Path,
};

use anabranch_api::{
    v1::{
        BlockedSeries, CreateNamespaceRequest, DeleteNamespaceRequest, GetNamespaceRequest, ListNamespacesRequest,
        Namespace, NamespaceConfig, UpdateNamespaceRequest,
    },
    wkt,
};
use anabranch_client::Client;
use anabranch_provision::DEFAULT_SEED;

use super::namespace_show;
use crate::{
    args::{BlockArgs, DeleteArgs, NamespaceCommand, SettingArgs, UpdateArgs},
    failure::{Failure, Outcome},
    output::{Format, Out, table::Table, text::escaped},
    planning::{self, Document},
    session::Session,
    times::{show_time, show_wire_duration, to_wire},
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
        NamespaceCommand::List => list(session, &client).await,
        NamespaceCommand::Show { name } => {
            let namespace = client.get_namespace(GetNamespaceRequest { name }).await?;
            namespace_show::print(session, &namespace)
        }
        NamespaceCommand::Update(args) => update(session, &client, *args).await,
        NamespaceCommand::Delete(args) => {
            let request = DeleteNamespaceRequest { name: args.name.clone(), confirm: args.name.clone() };
            client.delete_namespace(request).await?;
            let mut out = Out::new();
            match session.format {
                Format::Table => out.line(format!("deleted the namespace `{}`", escaped(&args.name)))?,
                Format::Json | Format::Jsonl => out.json_line(&serde_json::json!({"deleted": args.name}))?,
            }
            Ok(out.flush()?)
        }
    }
}

async fn list(session: &Session, client: &Client) -> Outcome {
    let answer = client.list_namespaces(ListNamespacesRequest {}).await?;
    let mut out = Out::new();
    match session.format {
        Format::Json => out.json(&answer)?,
        Format::Jsonl => answer.namespaces.iter().try_for_each(|namespace| out.json_line(namespace))?,
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
    let mut config = to_config(&args.settings)?;
    let mut clear: Vec<String> = args.clear.iter().map(|setting| camel_case(setting)).collect();
    if args.block.changes() {
        let namespace = client.get_namespace(GetNamespaceRequest { name: args.name.clone() }).await?;
        let latest = namespace.next_config.or(namespace.config).unwrap_or_default();
        config.block_list = args.block.applied_to(latest.block_list, session);
        if config.block_list.is_empty() {
            clear.push("blockList".to_owned());
        }
    }
    if config == NamespaceConfig::default() && clear.is_empty() {
        return Err(Failure::usage("nothing to change: give a setting, or --clear")
            .hint("see `anabranch namespace update --help`"));
    }
    let request = UpdateNamespaceRequest { name: args.name, config: Some(config), clear };
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

impl BlockArgs {
    fn changes(&self) -> bool {
        [&self.block, &self.block_reads, &self.block_writes, &self.unblock].iter().any(|list| !list.is_empty())
    }

    /// The list after these changes.
    fn applied_to(&self, mut list: Vec<BlockedSeries>, session: &Session) -> Vec<BlockedSeries> {
        list.retain(|blocked| !self.unblock.contains(&blocked.time_series_id));
        let expires = self.block_for.map(|length| to_wire(session.now().saturating_add(length)));
        let blocks = [(&self.block, true, true), (&self.block_reads, true, false), (&self.block_writes, false, true)];
        for (names, reads, writes) in blocks {
            for name in names {
                let found = list.iter().position(|blocked| blocked.time_series_id == *name);
                let before = found.map(|index| list.remove(index));
                list.push(BlockedSeries {
                    time_series_id: name.clone(),
                    reads: reads || before.as_ref().is_some_and(|blocked| blocked.reads),
                    writes: writes || before.as_ref().is_some_and(|blocked| blocked.writes),
                    reason: self.block_reason.clone(),
                    since: None::<wkt::Timestamp>,
                    expires,
                });
            }
        }
        list
    }
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
    if !stdin().is_terminal() {
        let message = format!("deleting `{}` needs --yes where there is no terminal to ask on", args.name);
        return Err(Failure::usage(message));
    }
    eprint!("This deletes `{}` and every event in it. Type the name to go on: ", escaped(&args.name));
    let mut answer = String::new();
    let read = stderr().flush().and_then(|()| stdin().lock().read_line(&mut answer));
    read.map_err(|error| Failure::other(format!("can't read from the terminal: {error}")))?;
    if answer.trim() == args.name { Ok(()) } else { Err(Failure::other("that is not the name; nothing was deleted")) }
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
