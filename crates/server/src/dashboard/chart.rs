//! Small drawings that the server makes itself. Sizes and places are attributes, colours are classes: pages may not style in place.

use maud::{Markup, html};

/// How many shades there are between little and much.
pub(super) const SHADES: u32 = 8;

/// The recent past as a filled line, scaled to its own highest value.
pub(super) fn line(values: &[u64], about: &str) -> Markup {
    let highest = values.iter().copied().max().unwrap_or(0).max(1) as f64;
    let width = values.len().saturating_sub(1).max(1) as f64;
    let points =
        values.iter().enumerate().map(|(at, value)| (at as f64 * 120.0 / width, 26.0 - *value as f64 * 24.0 / highest));
    let path: String = points.map(|(x, y)| format!(" L{x:.1} {y:.1}")).collect();
    html! {
        svg.line viewBox="0 0 120 28" width="120" height="28" role="img" aria-label=(about) preserveAspectRatio="none" {
            path.area d=(format!("M0 27{path} L120 27 Z")) {}
            path.stroke d=(format!("M0 27{path}")) {}
        }
    }
}

/// A share of a whole.
pub(super) fn bar(part: u64, whole: u64, kind: &str, about: &str) -> Markup {
    let width = if whole == 0 { 0.0 } else { (part as f64 / whole as f64).min(1.0) * 100.0 };
    html! {
        svg.bar viewBox="0 0 100 8" preserveAspectRatio="none" role="img" aria-label=(about) {
            rect.ground x="0" y="0" width="100" height="8" {}
            rect class=(kind) x="0" y="0" width=(format!("{width:.2}")) height="8" {}
        }
    }
}

/// How dark something is: 0 for nothing, then by orders of magnitude up to [`SHADES`] at the highest.
pub(super) fn shade(value: u64, highest: u64) -> u32 {
    if value == 0 {
        return 0;
    }
    let share = (value as f64 + 1.0).ln() / (highest.max(value) as f64 + 1.0).ln().max(f64::MIN_POSITIVE);
    ((share * f64::from(SHADES)).ceil() as u32).clamp(1, SHADES)
}

/// How dark something is that fills a measure: 1 for next to nothing, [`SHADES`] where it is full.
pub(super) fn filled(value: u64, full: u64) -> u32 {
    let share = (value as f64 / full.max(1) as f64).sqrt();
    ((share * f64::from(SHADES)).ceil() as u32).clamp(1, SHADES)
}

/// What shades mean.
pub(super) fn shade_legend(least: &str, most: &str) -> Markup {
    html! {
        span.legend {
            (least) " "
            svg viewBox="0 0 72 10" width="72" height="10" aria-hidden="true" {
                @for shade in 1..=SHADES { rect class=(format!("shade-{shade}")) x=((shade - 1) * 9) y="0" width="9" height="10" {} }
            }
            " " (most)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn more_is_never_lighter_and_something_is_never_nothing() {
        assert_eq!((shade(0, 100), shade(100, 100), shade(1, 1)), (0, SHADES, SHADES));
        assert!(shade(1, u64::MAX) >= 1);
        let shades: Vec<u32> = (0..1000).map(|value| shade(value, 1000)).collect();
        assert!(shades.is_sorted());
        assert_eq!((filled(0, 64), filled(4, 64), filled(64, 64), filled(99, 64)), (1, 2, SHADES, SHADES));
    }
}
