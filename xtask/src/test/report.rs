//! What is printed at the end: minutes per tier, what failed, what was skipped and how to run it,
//! and the last line.

use std::fmt;
use std::time::Duration;

use super::count::Count;

/// How all tiers went.
#[derive(Debug)]
pub(crate) struct Report {
    pub(crate) tiers: Vec<TierReport>,
    /// Nobody reads a build server's list of what was skipped, so there it counts as failed.
    pub(crate) ci: bool,
}

/// How one tier went.
#[derive(Debug)]
pub(crate) struct TierReport {
    pub(crate) name: &'static str,
    pub(crate) elapsed: Duration,
    pub(crate) count: Count,
    pub(crate) skips: Vec<Skip>,
}

/// Something that wasn't run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Skip {
    /// How many tests or checks that were.
    pub(crate) count: u64,
    pub(crate) what: String,
    pub(crate) why: String,
    /// What to type so that it runs.
    pub(crate) line: String,
}

/// The numbers of the last line.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Totals {
    pub(crate) passed: u64,
    pub(crate) failed: u64,
    pub(crate) skipped: u64,
}

impl Report {
    pub(crate) fn totals(&self) -> Totals {
        let passed = self.tiers.iter().map(|tier| tier.count.passed).sum();
        let failed: u64 = self.tiers.iter().map(|tier| tier.count.failed).sum();
        let skipped = self.tiers.iter().map(TierReport::skipped).sum();
        let (failed, skipped) = match self.ci {
            true => (failed + skipped, 0),
            false => (failed, skipped),
        };
        Totals { passed, failed, skipped }
    }
}

impl TierReport {
    fn skipped(&self) -> u64 {
        self.skips.iter().map(|skip| skip.count).sum()
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "tier       minutes  passed  failed  skipped")?;
        for tier in &self.tiers {
            let (name, minutes) = (tier.name, tier.elapsed.as_secs_f64() / 60.0);
            let (passed, failed) = (tier.count.passed, tier.count.failed);
            let skipped = tier.skipped();
            writeln!(f, "{name:10} {minutes:7.1} {passed:7} {failed:7} {skipped:8}")?;
        }
        for tier in self.tiers.iter().filter(|tier| tier.count.failed > 0) {
            writeln!(f, "\nFAILED: {}", tier.name)?;
            for test in &tier.count.failures {
                writeln!(f, "  {test}")?;
            }
        }
        for tier in self.tiers.iter().filter(|tier| !tier.count.unsteady.is_empty()) {
            writeln!(f, "\nUNSTEADY: {}: failed, and passed when run again; what was wrong stands above", tier.name)?;
            for test in &tier.count.unsteady {
                writeln!(f, "  {test}")?;
            }
        }
        let counted = if self.ci { " (a failure: CI=true)" } else { "" };
        for skip in self.tiers.iter().flat_map(|tier| &tier.skips) {
            writeln!(f, "\nSKIPPED{counted}: {}, because {}", skip.what, skip.why)?;
            writeln!(f, "  to run it: {}", skip.line)?;
        }
        write!(f, "\n{}", self.totals())
    }
}

impl fmt::Display for Totals {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} passed, {} failed", self.passed, self.failed)?;
        if self.skipped > 0 {
            write!(f, ", {} skipped", self.skipped)?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn report(ci: bool, skips: Vec<Skip>) -> String {
        let mut count = Count::default();
        count.add_line("test page::tests::is_short ... FAILED");
        count.add_line("test result: FAILED. 7 passed; 1 failed; 0 ignored");
        let tests = TierReport { name: "tests", elapsed: Duration::from_secs(90), count, skips };
        let tiers = vec![tests];
        Report { tiers, ci }.to_string()
    }

    fn skip() -> Skip {
        Skip {
            count: 1,
            what: "fmt".to_owned(),
            why: "`rustfmt` is not installed".to_owned(),
            line: "rustup component add rustfmt".to_owned(),
        }
    }

    #[test]
    fn the_last_line_stands_alone_and_speaks_of_skips_only_when_there_are_some() {
        let none = report(false, vec![]);
        assert_eq!(none.lines().last(), Some("7 passed, 1 failed"));
        let one = report(false, vec![skip()]);
        assert_eq!(one.lines().last(), Some("7 passed, 1 failed, 1 skipped"));
    }

    #[test]
    fn on_a_build_server_a_skip_is_a_failure() {
        let text = report(true, vec![skip()]);
        assert_eq!(text.lines().last(), Some("7 passed, 2 failed"));
    }

    #[test]
    fn minutes_failed_tests_and_the_line_to_type_are_shown() {
        let text = report(false, vec![skip()]);
        assert!(text.contains("tests          1.5       7       1        1"), "{text}");
        assert!(text.contains("FAILED: tests\n  page::tests::is_short"), "{text}");
        assert!(text.contains("to run it: rustup component add rustfmt"), "{text}");
    }

    #[test]
    fn a_test_that_passed_only_when_run_again_is_named() {
        let mut count = Count::default();
        count.passed = 3;
        count.unsteady.push("on_kafka::is_late".to_owned());
        let tier = TierReport { name: "kafka", elapsed: Duration::ZERO, count, skips: vec![] };
        let text = Report { tiers: vec![tier], ci: true }.to_string();
        assert!(text.contains("UNSTEADY: kafka") && text.contains("\n  on_kafka::is_late\n"), "{text}");
        assert_eq!(text.lines().last(), Some("3 passed, 0 failed"));
    }
}
