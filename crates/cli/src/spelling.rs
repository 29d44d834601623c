//! What somebody may have meant who made a slip of the pen.

/// The candidate that a few keystrokes would turn `text` into.
pub(crate) fn closest<'a>(text: &str, candidates: impl Iterator<Item = &'a str>) -> Option<&'a str> {
    let length = text.chars().count();
    let limit = if length < 4 { 1 } else { (length / 3).max(2) };
    let best = candidates.map(|candidate| (distance(text, candidate), candidate)).min()?;
    (best.0 <= limit).then_some(best.1)
}

/// How many characters must be added, removed or changed.
fn distance(left: &str, right: &str) -> usize {
    let right: Vec<char> = right.chars().collect();
    let mut row: Vec<usize> = (0..=right.len()).collect();
    for (i, a) in left.chars().enumerate() {
        let mut diagonal = row[0];
        row[0] = i + 1;
        for (j, b) in right.iter().enumerate() {
            let changed = diagonal + usize::from(a != *b);
            diagonal = row[j + 1];
            row[j + 1] = changed.min(row[j] + 1).min(diagonal + 1);
        }
    }
    row[right.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slips_are_recognised_and_other_words_are_not() {
        let words = || ["time", "series", "listen.grpc"].into_iter();
        assert_eq!(closest("tiem", words()), Some("time"));
        assert_eq!(closest("serie", words()), Some("series"));
        assert_eq!(closest("listen.gprc", words()), Some("listen.grpc"));
        assert_eq!(closest("xyz", words()), None);
        assert_eq!(closest("colour", words()), None);
    }
}
