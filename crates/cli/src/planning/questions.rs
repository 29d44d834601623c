//! Asks on a terminal for what a description lacks.

use std::io::{self, BufRead, Write};

use anabranch_provision::{
    Estimate,
    quantity::{Bytes, Count, Kind, Seconds, Share},
};

use super::description::Description;
use crate::failure::{Failure, Outcome};

struct Question {
    field: &'static str,
    text: &'static str,
    /// What an empty answer means; `None` where there must be one.
    usual: Option<&'static str>,
    check: fn(&str) -> Result<(), String>,
}

fn is<K: Kind>(text: &str) -> Result<(), String> {
    text.parse::<Estimate<K>>().map(|_| ())
}

const QUESTIONS: [Question; 11] = [
    question("writes_per_second", "Events written in a second", None, is::<Count>),
    question("event_bytes", "Bytes of an event, all items together", None, is::<Bytes>),
    question("ids", "Series that are written to", None, is::<Count>),
    question("items_per_event", "Items of an event", Some("1"), is::<Count>),
    question("top_one_percent", "Share of the events of the busiest 1 % of the series", Some("unknown"), is::<Share>),
    question("retention", "How long events are kept", Some("for ever"), is::<Seconds>),
    question("reads_per_second", "Reads in a second", Some("a tenth of the writes"), is::<Count>),
    question("typical_interval", "How much time a usual read covers", Some("1d"), is::<Seconds>),
    question("longest_interval", "How much time the longest reads cover", Some("all"), is::<Seconds>),
    question("accept_limit", "How old an event may be when it is written", Some("36h"), is::<Seconds>),
    question("read_target", "What reads should take", Some("500ms"), is::<Seconds>),
];

const fn question(
    field: &'static str,
    text: &'static str,
    usual: Option<&'static str>,
    check: fn(&str) -> Result<(), String>,
) -> Question {
    Question { field, text, usual, check }
}

/// Asks one question after the other.
pub(crate) fn ask(description: &mut Description, input: &mut impl BufRead, output: &mut impl Write) -> Outcome {
    writeln!(output, "One value each, or LOW..MID..HIGH@CONFIDENCE; Enter takes what stands in brackets.")
        .map_err(|error| broken(&error))?;
    for question in &QUESTIONS {
        if description.has(question.field) {
            continue;
        }
        if let Some(answer) = question.answer(input, output)? {
            description.set(question.field, answer);
        }
    }
    Ok(())
}

fn broken(error: &io::Error) -> Failure {
    Failure::other(format!("can't ask on the terminal: {error}"))
}

impl Question {
    /// Asks until the answer can be understood; `None` is what is usual.
    fn answer(&self, input: &mut impl BufRead, output: &mut impl Write) -> Outcome<Option<String>> {
        let prompt = self.usual.map_or_else(|| self.text.to_owned(), |usual| format!("{} [{usual}]", self.text));
        loop {
            write!(output, "{prompt}: ").and_then(|()| output.flush()).map_err(|error| broken(&error))?;
            let mut answer = String::new();
            if input.read_line(&mut answer).map_err(|error| broken(&error))? == 0 {
                return Err(Failure::other("the answers ended before the questions"));
            }
            let answer = answer.trim();
            if self.usual.is_some() && (answer.is_empty() || self.usual == Some(answer)) {
                return Ok(None);
            }
            match (self.check)(answer) {
                Ok(()) => return Ok(Some(answer.to_owned())),
                Err(reason) => writeln!(output, "  {reason}").map_err(|error| broken(&error))?,
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn answers_become_a_description_and_wrong_ones_are_asked_again() {
        let mut description = Description::default();
        description.set("event_bytes", "500".to_owned());
        let mut output = Vec::new();
        let answers = "many\n500..1000..4000\n\n1M\n\n40%\n30d\n\n7d\n\n\n\n";
        ask(&mut description, &mut answers.as_bytes(), &mut output).unwrap();
        let asked = String::from_utf8(output).unwrap();
        assert_eq!(asked.matches("Events written in a second: ").count(), 2, "{asked}");
        assert_eq!(asked.matches("Series that are written to: ").count(), 2, "{asked}");
        assert!(!asked.contains("Bytes of an event"), "{asked}");
        assert!(asked.contains("`many` is not a number"), "{asked}");
        let workload = description.to_workload().unwrap();
        assert_eq!(workload.writes_per_second.high(), 4000.0);
        assert_eq!(workload.typical_interval.unwrap().mid(), 604_800.0);
        assert_eq!(workload.reads_per_second, None);
        assert!(ask(&mut Description::default(), &mut "5\n".as_bytes(), &mut Vec::new()).is_err());
    }
}
