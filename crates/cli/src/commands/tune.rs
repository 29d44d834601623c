//! `anabranch tune`: what the slice tuner decided, and what to do about it.

use anabranch_api::v1::{
    ApplyTuningRequest, ListTuningDecisionsRequest, ProposeTuningRequest, RejectTuningRequest, TuningDecision,
    tuning_decision::Outcome as Became,
};

use crate::{
    args::TuneCommand,
    failure::Outcome,
    output::{Format, Out, table::Table, text::escaped},
    session::Session,
    times::{show_bytes, show_count, show_time, show_wire_duration},
};

pub(crate) async fn run(session: &Session, command: TuneCommand) -> Outcome {
    let client = session.connect().await?;
    match command {
        TuneCommand::History { namespace } => {
            let answer = client.list_tuning_decisions(ListTuningDecisionsRequest { namespace }).await?;
            let mut out = Out::new();
            match session.format {
                Format::Json => out.json(&answer)?,
                Format::Jsonl => answer.decisions.iter().try_for_each(|decision| out.json_line(decision))?,
                Format::Table if answer.decisions.is_empty() => {
                    out.line("nothing was decided yet; slices have to end and be measured first")?;
                }
                Format::Table => out.text(&table(&answer.decisions).take_text(session.colors.stdout))?,
            }
            Ok(out.flush()?)
        }
        TuneCommand::Propose { namespace } => {
            let decision = client.propose_tuning(ProposeTuningRequest { namespace }).await?;
            print(session, &decision)
        }
        TuneCommand::Apply(args) => {
            let request = ApplyTuningRequest { namespace: args.namespace, number: args.number, by: args.by };
            print(session, &client.apply_tuning(request).await?)
        }
        TuneCommand::Reject { which, reason } => {
            let request =
                RejectTuningRequest { namespace: which.namespace, number: which.number, by: which.by, reason };
            print(session, &client.reject_tuning(request).await?)
        }
    }
}

fn table(decisions: &[TuningDecision]) -> Table {
    let mut table = Table::new(&["no.", "when", "outcome", "by", "slices", "p99", "reason"]).align_right(&[0, 4, 5]);
    for decision in decisions {
        let p99 = decision.counted.last().map_or_else(|| "-".to_owned(), |slice| show_bytes(slice.p99_bytes));
        table.row(vec![
            decision.number.to_string(),
            show_time(decision.time.as_ref()),
            outcome(decision).to_owned(),
            escaped(&decision.by),
            decision.counted.len().to_string(),
            p99,
            escaped(&decision.reason),
        ]);
    }
    table
}

fn outcome(decision: &TuningDecision) -> &'static str {
    match decision.outcome() {
        Became::Unspecified => "-",
        Became::Kept => "kept",
        Became::Proposed => "proposed",
        Became::Applied => "applied",
        Became::Rejected => "rejected",
        Became::Superseded => "superseded",
    }
}

fn print(session: &Session, decision: &TuningDecision) -> Outcome {
    let mut out = Out::new();
    match session.format {
        Format::Json => out.json(decision)?,
        Format::Jsonl => out.json_line(decision)?,
        Format::Table => {
            out.line(format!("{} (decision {})", outcome(decision), decision.number))?;
            out.line(escaped(&decision.reason))?;
            if let Some(reads) = &decision.reads {
                let (typical, longest) = (reads.typical_interval.as_ref(), reads.longest_interval.as_ref());
                out.line(format!(
                    "Reads: {} pages, half of them over at most {}, 99 of 100 over at most {}",
                    show_count(reads.reads),
                    show_wire_duration(typical),
                    show_wire_duration(longest)
                ))?;
            }
            if !decision.counted.is_empty() {
                out.line("")?;
                out.text(&evidence(decision).take_text(session.colors.stdout))?;
            }
            for slice in &decision.uncounted {
                out.line(format!("not counted: {}, {}", escaped(&slice.time_slice), escaped(&slice.reason)))?;
            }
        }
    }
    Ok(out.flush()?)
}

fn evidence(decision: &TuningDecision) -> Table {
    let mut table = Table::new(&["slice", "partitions", "p99"]).indented(2).align_right(&[1, 2]);
    for slice in &decision.counted {
        table.row(vec![escaped(&slice.time_slice), show_count(slice.partitions), show_bytes(slice.p99_bytes)]);
    }
    table
}
