//! The few busiest of any number of ids, in a fixed space ("space-saving"): an id that finds no place takes that of the least
//! busy one, with its count. So whoever is really busy is here, and counts are at most too high. Old counts fade.

use std::time::Duration;

use anabranch_model::Timestamp;

const PLACES: usize = 4;
/// Counts are halved this often.
const HALF_LIFE: Duration = Duration::from_secs(600);

/// The busiest ids of one range.
#[derive(Clone, Default)]
pub(crate) struct Busiest {
    places: [Place; PLACES],
    faded: Option<Timestamp>,
}

#[derive(Clone, Default)]
struct Place {
    series: String,
    bytes: u64,
}

impl Busiest {
    pub(crate) fn add(&mut self, series: &str, bytes: u64, now: Timestamp) {
        self.fade(now);
        if let Some(place) = self.places.iter_mut().find(|place| place.series == series) {
            place.bytes = place.bytes.saturating_add(bytes);
            return;
        }
        let least = self.places.iter_mut().min_by_key(|place| place.bytes).expect("there are places");
        least.series.clear();
        least.series.push_str(series);
        least.bytes = least.bytes.saturating_add(bytes);
    }

    /// The busiest first.
    pub(crate) fn all(&mut self, now: Timestamp) -> Vec<(String, u64)> {
        self.fade(now);
        let taken = self.places.iter().filter(|place| place.bytes > 0);
        let mut all: Vec<(String, u64)> = taken.map(|place| (place.series.clone(), place.bytes)).collect();
        all.sort_by(|(left, more), (right, less)| less.cmp(more).then_with(|| left.cmp(right)));
        all
    }

    fn fade(&mut self, now: Timestamp) {
        let faded = *self.faded.get_or_insert(now);
        let times = now.since(faded).as_secs() / HALF_LIFE.as_secs();
        if times > 0 {
            self.places.iter_mut().for_each(|place| place.bytes = place.bytes.checked_shr(times as u32).unwrap_or(0));
            self.faded = Some(now);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_is_busy_stays_among_many_who_are_not() {
        let now = Timestamp::from_seconds(1_000_000);
        let mut busiest = Busiest::default();
        for id in 0..1000 {
            busiest.add(&format!("quiet:{id}"), 1, now);
            busiest.add("busy", 10, now);
        }
        let all = busiest.all(now);
        assert_eq!(all[0].0, "busy");
        assert!(all[0].1 >= 10_000, "{all:?}");
        assert_eq!(all.len(), PLACES);
    }

    #[test]
    fn what_is_long_past_is_forgotten() {
        let now = Timestamp::from_seconds(1_000_000);
        let mut busiest = Busiest::default();
        busiest.add("old", 1 << 20, now);
        assert_eq!(busiest.all(now.saturating_add(HALF_LIFE * 2)), [("old".to_owned(), 1 << 18)]);
        assert_eq!(busiest.all(now.saturating_add(HALF_LIFE * 40)), []);
    }
}
