//! Small drawings that the server makes itself. Sizes and places are attributes, colours are classes: pages may not style in place.

use anabranch_api::v1::{DensityTarget, SizeClass, TrafficStep};
use maud::{Markup, html};

use super::show;

/// How wide and how high bars of sizes are drawn, before they are scaled.
const SIZE_WIDTH: f64 = 10.0;
const SIZE_HEIGHT: f64 = 36.0;

/// How many shades there are between little and much.
pub(super) const SHADES: u32 = 8;

/// The recent past as a line, without the step under way: it isn't full yet, and would look like a fall.
pub(super) fn traffic(recent: &[TrafficStep], value: fn(&TrafficStep) -> u64, about: &str) -> Markup {
    let full = recent.split_last().map_or(recent, |(_, full)| full);
    line(&full.iter().map(value).collect::<Vec<u64>>(), about)
}

/// Values as a filled line, scaled to the highest of them.
fn line(values: &[u64], about: &str) -> Markup {
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

/// One scale of sizes for several histograms, in doublings of a byte; the target is always on it.
pub(super) struct SizeScale {
    /// Where it begins.
    from: u32,
    /// Where it ends.
    until: u32,
}

impl SizeScale {
    pub(super) fn over<'a>(histograms: impl Iterator<Item = (&'a [SizeClass], DensityTarget)>) -> SizeScale {
        let ends = histograms.flat_map(|(classes, target)| {
            let sizes = classes.iter().map(|class| class.up_to_bytes).chain([target.low_bytes, target.high_bytes]);
            sizes.collect::<Vec<u64>>()
        });
        let ends: Vec<u32> = ends.map(|bytes| doublings(bytes).ceil() as u32).collect();
        // A class reaches down to half of its upper end.
        let from = ends.iter().min().map_or(0, |least| least.saturating_sub(1));
        let most = ends.iter().max().map_or(0, |most| most.saturating_sub(from)).max(2);
        // An even number of doublings has a middle.
        SizeScale { from, until: from + most.next_multiple_of(2) }
    }

    /// Where a size is.
    fn x(&self, bytes: u64) -> f64 {
        let (from, until) = (f64::from(self.from), f64::from(self.until));
        (doublings(bytes).clamp(from, until) - from) * SIZE_WIDTH
    }

    fn width(&self) -> f64 {
        f64::from(self.until - self.from) * SIZE_WIDTH
    }

    /// The sizes at both ends and in the middle.
    fn ticks(&self) -> [u64; 3] {
        [self.from, self.from.midpoint(self.until), self.until]
            .map(|power| 1_u64.checked_shl(power).unwrap_or(u64::MAX))
    }
}

fn doublings(bytes: u64) -> f64 {
    (bytes.max(1) as f64).log2()
}

/// How many partitions are how big, against the target.
pub(super) fn sizes(classes: &[SizeClass], p99: u64, target: DensityTarget, scale: &SizeScale) -> Markup {
    let all = classes.iter().map(|class| class.partitions).sum::<u64>();
    let most = classes.iter().map(|class| class.partitions).max().unwrap_or(0).max(1);
    let (from, until) = (show::bytes(target.low_bytes), show::bytes(target.high_bytes));
    let about = match all {
        0 => format!("no partitions; the target is {from} to {until}"),
        _ => format!(
            "{} by size; 99 of 100 are no bigger than {}, the target is {from} to {until}",
            show::counted(all, "partition"),
            show::bytes(p99)
        ),
    };
    let (low, high, p99) = (scale.x(target.low_bytes), scale.x(target.high_bytes), scale.x(p99));
    html! {
        svg.sizes viewBox=(format!("0 0 {:.0} {SIZE_HEIGHT:.0}", scale.width())) preserveAspectRatio="none" role="img" aria-label=(about) {
            rect.target x=(format!("{low:.1}")) y="0" width=(format!("{:.1}", high - low)) height=(SIZE_HEIGHT) {}
            @for class in classes {
                (size_bar(class, all, most, target, scale))
            }
            line.base x1="0" y1=(SIZE_HEIGHT) x2=(format!("{:.0}", scale.width())) y2=(SIZE_HEIGHT) {}
            @if all > 0 { line.p99 x1=(format!("{p99:.1}")) y1="0" x2=(format!("{p99:.1}")) y2=(SIZE_HEIGHT) {} }
        }
        p.scale aria-hidden="true" { @for tick in scale.ticks() { span { (show::bytes(tick)) } } }
    }
}

fn size_bar(class: &SizeClass, all: u64, most: u64, target: DensityTarget, scale: &SizeScale) -> Markup {
    // What is there, but too little for its bar, is still seen.
    let height = (class.partitions as f64 / most as f64 * (SIZE_HEIGHT - 2.0)).max(1.5);
    let (left, right) = (scale.x(class.up_to_bytes / 2), scale.x(class.up_to_bytes));
    let kind = match class.up_to_bytes {
        up_to if up_to / 2 >= target.high_bytes => "above",
        up_to if up_to > target.low_bytes => "within",
        _ => "below",
    };
    let share = class.partitions as f64 * 100.0 / all as f64;
    html! {
        rect class=(kind) x=(format!("{:.1}", left + 0.5)) y=(format!("{:.1}", SIZE_HEIGHT - height))
            width=(format!("{:.1}", (right - left - 1.0).max(1.0))) height=(format!("{height:.1}")) {
            title { "up to " (show::bytes(class.up_to_bytes)) ": " (show::counted(class.partitions, "partition")) ", " (format!("{share:.1}\u{a0}%")) }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_and_their_target_are_on_one_scale() {
        let classes = [SizeClass { up_to_bytes: 1024, partitions: 3 }, SizeClass { up_to_bytes: 4096, partitions: 1 }];
        let target = DensityTarget { low_bytes: 2 << 20, high_bytes: 10 << 20 };
        let scale = SizeScale::over([(classes.as_slice(), target)].into_iter());
        assert_eq!(scale.ticks(), [512, 128 << 10, 32 << 20]);
        assert_eq!(scale.ticks().map(|tick| scale.x(tick)), [0.0, scale.width() / 2.0, scale.width()]);
        assert_eq!(scale.x(1024), SIZE_WIDTH);
        assert!((0.0..=scale.width()).contains(&scale.x(u64::MAX)));
        let nothing = SizeScale::over(std::iter::empty());
        assert!(nothing.width() > 0.0);
        let drawn = sizes(&classes, 4000, target, &scale).into_string();
        assert_eq!(drawn.matches("<rect class=\"below\"").count(), 2, "{drawn}");
        assert!(drawn.contains("class=\"p99\""), "{drawn}");
    }

    #[test]
    fn a_slice_without_partitions_has_no_line_for_them() {
        let target = DensityTarget { low_bytes: 2 << 20, high_bytes: 10 << 20 };
        let drawn = sizes(&[], 0, target, &SizeScale::over([([].as_slice(), target)].into_iter())).into_string();
        assert!(drawn.contains("no partitions; the target is") && !drawn.contains("p99"), "{drawn}");
    }

    #[test]
    fn the_step_under_way_is_not_drawn_as_a_fall() {
        let steps = [40, 40, 40, 3].map(|events| TrafficStep { events, ..Default::default() });
        let drawn = traffic(&steps, |step| step.events, "Events").into_string();
        assert_eq!(drawn, line(&[40, 40, 40], "Events").into_string());
    }

    #[test]
    fn more_is_never_lighter_and_something_is_never_nothing() {
        assert_eq!((shade(0, 100), shade(100, 100), shade(1, 1)), (0, SHADES, SHADES));
        assert!(shade(1, u64::MAX) >= 1);
        let shades: Vec<u32> = (0..1000).map(|value| shade(value, 1000)).collect();
        assert!(shades.is_sorted());
        assert_eq!((filled(0, 64), filled(4, 64), filled(64, 64), filled(99, 64)), (1, 2, SHADES, SHADES));
    }
}
