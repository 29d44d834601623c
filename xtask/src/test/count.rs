//! Counting tests from what the test harness prints.

/// How many tests or checks passed and failed.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Count {
    pub(crate) passed: u64,
    pub(crate) failed: u64,
    pub(crate) ignored: u64,
    /// How many test binaries told their result.
    results: u64,
    /// The names of the passed tests.
    passes: Vec<String>,
    /// The names of the failed tests.
    pub(crate) failures: Vec<String>,
    /// The names of those that failed, were run again, and passed.
    pub(crate) unsteady: Vec<String>,
}

impl Count {
    /// The count of something that passes or fails as a whole.
    pub(crate) fn check(success: bool) -> Self {
        Self { passed: u64::from(success), failed: u64::from(!success), ..Self::default() }
    }

    /// Takes in one line of output, whether or not it counts something.
    pub(crate) fn add_line(&mut self, line: &str) {
        if let Some(result) = line.strip_prefix("test result: ") {
            self.results += 1;
            self.passed += number_before(result, " passed");
            self.failed += number_before(result, " failed");
            self.ignored += number_before(result, " ignored");
        } else if let Some(test) = line.strip_prefix("test ") {
            if let Some(name) = test.strip_suffix(" ... FAILED") {
                self.failures.push(name.to_owned());
            } else if let Some(name) = test.strip_suffix(" ... ok") {
                self.passes.push(name.to_owned());
            }
        }
    }

    /// Takes in how the command ended. One that failed without a failed test (it didn't compile, or
    /// a test ended its process) is a failure, and so is one in which nothing was tested.
    pub(crate) fn finish(&mut self, success: bool) {
        if self.failed == 0 && (!success || self.results == 0) {
            self.failed = 1;
        }
    }

    /// Whether some tests failed, each known by its name, and no more than these.
    pub(crate) fn failed_by_name(&self, at_most: usize) -> bool {
        !self.failures.is_empty() && self.failures.len() <= at_most && self.failures.len() as u64 == self.failed
    }

    /// Takes in how another run of the failed tests went. One that isn't seen to pass has failed.
    pub(crate) fn run_again(&mut self, again: &Count) {
        let passes = |test: &String| again.passes.contains(test) && !again.failures.contains(test);
        (self.unsteady, self.failures) = self.failures.drain(..).partition(passes);
        self.passed += self.unsteady.len() as u64;
        self.failed = self.failures.len() as u64;
    }
}

fn number_before(text: &str, word: &str) -> u64 {
    let Some(end) = text.find(word) else { return 0 };
    let digits = text[..end].rsplit(|c: char| !c.is_ascii_digit()).next();
    digits.and_then(|digits| digits.parse().ok()).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn count(lines: &[&str]) -> Count {
        let mut count = Count::default();
        lines.iter().for_each(|line| count.add_line(line));
        count
    }

    #[test]
    fn the_results_of_all_test_binaries_add_up() {
        let count = count(&[
            "running 12 tests",
            "test merge::tests::keeps_order ... ok",
            "test result: ok. 12 passed; 0 failed; 1 ignored; 0 measured; 0 filtered out; finished in 0.02s",
            "test page::tests::is_short ... FAILED",
            "test result: FAILED. 3 passed; 1 failed; 0 ignored; 0 measured; 0 filtered out; finished in 1.20s",
        ]);
        let expected = Count {
            passed: 15,
            failed: 1,
            ignored: 1,
            results: 2,
            passes: vec!["merge::tests::keeps_order".to_owned()],
            failures: vec!["page::tests::is_short".to_owned()],
            ..Count::default()
        };
        assert_eq!(count, expected);
    }

    #[test]
    fn a_test_binary_that_dies_without_a_result_is_a_failure() {
        let mut count = count(&["test result: ok. 2 passed; 0 failed; 0 ignored"]);
        count.finish(false);
        assert_eq!((count.passed, count.failed), (2, 1));
    }

    #[test]
    fn a_command_that_tested_nothing_is_a_failure() {
        let mut count = count(&["Finished in 0.1s"]);
        count.finish(true);
        assert_eq!(count.failed, 1);
    }

    #[test]
    fn a_failed_test_is_not_counted_again_for_the_failed_command() {
        let mut count = count(&["test result: FAILED. 2 passed; 3 failed; 0 ignored"]);
        count.finish(false);
        assert_eq!(count.failed, 3);
    }

    #[test]
    fn a_test_that_passes_when_it_is_run_again_is_told_apart() {
        let first = ["test a ... FAILED", "test b ... FAILED", "test result: FAILED. 5 passed; 2 failed; 0 ignored"];
        let again = ["test a ... ok", "test b ... FAILED", "test result: FAILED. 1 passed; 1 failed; 0 ignored"];
        let mut first = count(&first);
        assert!(first.failed_by_name(2) && !first.failed_by_name(1));
        first.run_again(&count(&again));
        assert_eq!((first.passed, first.failed), (6, 1));
        assert_eq!((first.failures, first.unsteady), (vec!["b".to_owned()], vec!["a".to_owned()]));
    }

    #[test]
    fn a_binary_that_died_or_a_run_that_tested_nothing_does_not_make_up_for_a_failure() {
        let mut died = count(&["test result: ok. 2 passed; 0 failed; 0 ignored"]);
        died.finish(false);
        assert!(!died.failed_by_name(3), "there is no test to run again");
        let mut failed = count(&["test a ... FAILED", "test result: FAILED. 5 passed; 1 failed; 0 ignored"]);
        let mut nothing = count(&["test result: ok. 0 passed; 0 failed; 0 ignored"]);
        nothing.finish(true);
        failed.run_again(&nothing);
        assert_eq!((failed.failed, &failed.failures[..], failed.unsteady.len()), (1, &["a".to_owned()][..], 0));
        // The same name in another binary doesn't make up for it.
        failed.run_again(&count(&["test a ... ok", "test a ... FAILED", "test result: FAILED. 1 passed; 1 failed"]));
        assert_eq!((failed.failed, failed.unsteady.len()), (1, 0));
    }
}
