//! Charts of shares: a bar for each row, drawn with eighths of a character.

const WIDTH: f64 = 40.0;
const EIGHTHS: [&str; 8] = ["", "▏", "▎", "▍", "▌", "▋", "▊", "▉"];

/// One line for each `(label, share, mark)`; the longest bar has the greatest share.
pub(crate) fn bars(rows: &[(String, f64, &str)]) -> String {
    let most = rows.iter().map(|(_, share, _)| *share).fold(f64::MIN_POSITIVE, f64::max);
    let widest = rows.iter().map(|(label, _, _)| label.chars().count()).max().unwrap_or(0);
    let mut text = String::new();
    for (label, share, mark) in rows {
        let eighths = (share / most * WIDTH * 8.0).round() as usize;
        let bar = format!("{}{}", "█".repeat(eighths / 8), EIGHTHS[eighths % 8]);
        // What is there, but too little for its bar, is still seen.
        let bar = if bar.is_empty() && *share > 0.0 { EIGHTHS[1].to_owned() } else { bar };
        let line = format!("  {label:<widest$}  {:>5.1} %  {bar} {mark}", share * 100.0);
        text.push_str(line.trim_end());
        text.push('\n');
    }
    text
}

#[cfg(test)]
mod tests {
    use super::bars;

    #[test]
    fn bars_are_as_long_as_their_shares() {
        let rows = [("a".to_owned(), 0.8, ""), ("long".to_owned(), 0.21, "target"), ("b".to_owned(), 0.0001, "")];
        let expected = "  a      80.0 %  ████████████████████████████████████████\n  \
                        long   21.0 %  ██████████▌ target\n  b       0.0 %  ▏\n";
        assert_eq!(bars(&rows), expected);
        assert_eq!(bars(&[]), "");
    }
}
