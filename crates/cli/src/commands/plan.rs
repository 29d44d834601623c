//! `anabranch plan`: works out the settings of a namespace, and prints them with their reasons.

use std::io::{IsTerminal, stderr, stdin};

use anabranch_provision::Plan;

use crate::{
    args::{OutputChoice, PlanArgs},
    failure::{Failure, Outcome},
    output::Out,
    planning::{self, read_document},
    session::Session,
};

pub(crate) fn run(session: &Session, args: &PlanArgs) -> Outcome {
    let mut description = match &args.file {
        Some(path) => read_document(path)?.into_description(),
        None => planning::Description::default(),
    };
    args.workload.given().into_iter().for_each(|(field, text)| description.set(field, text));
    if !description.is_complete() && stdin().is_terminal() {
        planning::ask(&mut description, &mut stdin().lock(), &mut stderr())?;
    }
    let plan = planning::plan(&description.to_workload()?, args.seed)?;
    print(session, &plan)
}

fn print(session: &Session, plan: &Plan) -> Outcome {
    let mut out = Out::new();
    match session.global.output {
        OutputChoice::Table => out.text(&planning::text(plan, session.colors.stdout))?,
        OutputChoice::Json => out.json(plan)?,
        OutputChoice::Jsonl => out.json_line(plan)?,
        OutputChoice::Toml => {
            let text = toml::to_string(plan).map_err(|error| Failure::other(format!("can't be TOML: {error}")))?;
            out.text(&text)?;
        }
    }
    Ok(out.flush()?)
}
