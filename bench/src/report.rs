//! What was measured: a table for people, JSON with every single run for programs.

use std::{io::Write, time::Duration};

use anyhow::{Context, Result};
use serde::Serialize;

use crate::{
    figures::Bench,
    latency,
    machine::{Machine, Ticks},
};

/// What a number counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Unit {
    Ratio,
    PerSecond,
    MegabytesPerSecond,
    Microseconds,
    Milliseconds,
    KiB,
    MiB,
    PercentOfACore,
    Count,
}

/// What a number should be.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Bound {
    AtLeast(f64),
    AtMost(f64),
}

/// One number of a figure, over all runs.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct Measure {
    what: &'static str,
    unit: Unit,
    /// The median of all runs.
    value: f64,
    #[serde(skip_serializing_if = "Option::is_none")]
    bound: Option<Bound>,
    #[serde(skip_serializing_if = "Option::is_none")]
    met: Option<bool>,
    runs: Vec<f64>,
}

/// Collects the numbers of a figure, run after run.
#[derive(Default)]
pub(crate) struct Sheet(Vec<Measure>);

impl Sheet {
    /// A number without a bound.
    pub(crate) fn note(&mut self, what: &'static str, unit: Unit, value: f64) {
        self.add(what, unit, None, value);
    }

    /// A number with a bound.
    pub(crate) fn bounded(&mut self, what: &'static str, unit: Unit, bound: Bound, value: f64) {
        self.add(what, unit, Some(bound), value);
    }

    fn add(&mut self, what: &'static str, unit: Unit, bound: Option<Bound>, value: f64) {
        match self.0.iter_mut().find(|measure| measure.what == what) {
            Some(measure) => measure.runs.push(value),
            None => self.0.push(Measure { what, unit, value, bound, met: None, runs: vec![value] }),
        }
    }

    pub(crate) fn measures(mut self) -> Vec<Measure> {
        for measure in &mut self.0 {
            measure.value = median(&measure.runs);
            measure.met = measure.bound.map(|bound| match bound {
                Bound::AtLeast(least) => measure.value >= least,
                Bound::AtMost(most) => measure.value <= most,
            });
        }
        self.0
    }
}

fn median(values: &[f64]) -> f64 {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    let middle = sorted.len() / 2;
    if sorted.len() % 2 == 1 { sorted[middle] } else { (sorted[middle - 1] + sorted[middle]) / 2.0 }
}

#[derive(Debug, Serialize)]
struct Figure {
    name: &'static str,
    seconds: f64,
    /// The share of the processors that the host kept for itself meanwhile.
    #[serde(skip_serializing_if = "Option::is_none")]
    stolen_percent: Option<f64>,
    /// The share of latencies that don't count, for the host took a processor away meanwhile.
    #[serde(skip_serializing_if = "Option::is_none")]
    left_out_percent: Option<f64>,
    measures: Vec<Measure>,
}

impl Figure {
    /// What was measured, a line each.
    fn rows(&self) -> String {
        let mut text = String::new();
        for (at, measure) in self.measures.iter().enumerate() {
            let name = if at == 0 { self.name } else { "" };
            let (bound, verdict) = measure.verdict();
            let value = written(measure.unit, measure.value);
            let line = format!("{name:<12}{:<46}{value:>14}  {bound:<12}{verdict}", measure.what);
            text.push_str(line.trim_end());
            text.push('\n');
        }
        for (what, percent) in [
            ("the host kept of the processors meanwhile", self.stolen_percent),
            ("latencies left out, for the host was busy", self.left_out_percent),
        ] {
            if let Some(percent) = percent {
                text.push_str(&format!("{:<12}  {what:<42}{percent:>14.1} %\n", ""));
            }
        }
        text
    }
}

/// Everything that was measured, and on what.
#[derive(Debug, Serialize)]
pub(crate) struct Report {
    machine: Machine,
    runs: u32,
    quick: bool,
    figures: Vec<Figure>,
    /// When the figure under way began.
    #[serde(skip)]
    since: Option<Ticks>,
}

impl Report {
    pub(crate) fn begin(bench: &Bench) -> Result<Report> {
        let machine = Machine::look(&bench.launcher.binary, &bench.data, bench.cluster)?;
        Ok(Report { machine, runs: bench.sizes.runs, quick: bench.quick, figures: Vec::new(), since: Ticks::now() })
    }

    pub(crate) fn add(&mut self, name: &'static str, measures: Vec<Measure>, took: Duration) {
        let now = Ticks::now();
        let stolen_percent = now.zip(self.since).map(|(now, since)| now.stolen_since(since));
        self.since = now;
        let (seconds, left_out_percent) = (took.as_secs_f64(), latency::left_out_percent());
        let figure = Figure { name, seconds, stolen_percent, left_out_percent, measures };
        // A run that is cut off has told what it measured.
        eprint!("{}", figure.rows());
        self.figures.push(figure);
    }

    pub(crate) fn all_met(&self) -> bool {
        self.figures.iter().flat_map(|figure| &figure.measures).all(|measure| measure.met != Some(false))
    }

    /// Prints the table, and writes the JSON where it is wanted.
    pub(crate) fn publish(&self, json: Option<&str>) -> Result<()> {
        let table = self.table();
        match json {
            None => print!("{table}"),
            Some("-") => {
                eprint!("{table}");
                serde_json::to_writer_pretty(std::io::stdout().lock(), self)?;
                println!();
            }
            Some(file) => {
                print!("{table}");
                let mut text = serde_json::to_vec_pretty(self)?;
                text.push(b'\n');
                std::fs::write(file, text).with_context(|| format!("cannot write {file}"))?;
            }
        }
        Ok(std::io::stdout().flush()?)
    }

    fn table(&self) -> String {
        let mut text = format!("\n{}\nmedian of {} runs", self.machine, self.runs);
        text.push_str(if self.quick { "; --quick: too small for the bounds to mean much\n\n" } else { "\n\n" });
        text.push_str(&format!("{:<12}{:<46}{:>14}  {:<12}\n", "figure", "measured", "value", "bound"));
        text.extend(self.figures.iter().map(Figure::rows));
        text
    }
}

impl Measure {
    fn verdict(&self) -> (String, &'static str) {
        let bound = match self.bound {
            None => return (String::new(), ""),
            Some(Bound::AtLeast(least)) => format!("≥ {}", written(self.unit, least)),
            Some(Bound::AtMost(most)) => format!("≤ {}", written(self.unit, most)),
        };
        (bound, if self.met == Some(false) { "OVER" } else { "ok" })
    }
}

fn written(unit: Unit, value: f64) -> String {
    match unit {
        Unit::Ratio => format!("{value:.2}"),
        Unit::PerSecond => format!("{} /s", thousands(value)),
        Unit::MegabytesPerSecond => format!("{value:.1} MB/s"),
        Unit::Microseconds => format!("{value:.2} µs"),
        Unit::Milliseconds => format!("{value:.2} ms"),
        Unit::KiB => format!("{value:.0} KiB"),
        Unit::MiB => format!("{value:.0} MiB"),
        Unit::PercentOfACore => format!("{value:.2} %"),
        Unit::Count => thousands(value),
    }
}

/// `1234567` as `1,234,567`.
fn thousands(value: f64) -> String {
    let digits = format!("{value:.0}");
    let mut text = String::new();
    for (at, digit) in digits.chars().enumerate() {
        if at > 0 && (digits.len() - at).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bound_is_judged_by_the_median() {
        let mut sheet = Sheet::default();
        for value in [0.9, 3.0, 1.0] {
            sheet.bounded("ratio", Unit::Ratio, Bound::AtMost(1.5), value);
        }
        sheet.bounded("rate", Unit::Ratio, Bound::AtLeast(0.6), 0.5);
        let measures = sheet.measures();
        assert_eq!((measures[0].value, measures[0].met), (1.0, Some(true)));
        assert_eq!(measures[1].met, Some(false));
    }

    #[test]
    fn big_numbers_can_be_read() {
        assert_eq!(thousands(1_234_567.2), "1,234,567");
        assert_eq!(thousands(999.0), "999");
    }
}
