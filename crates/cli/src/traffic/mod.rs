//! Made-up traffic: which series, which event, what bytes. The same seed makes the same traffic.

mod dice;
mod zipf;

use anabranch_api::v1::{Event, EventItem};
use anabranch_model::Timestamp;
use bytes::Bytes;

pub(crate) use dice::Dice;
pub(crate) use zipf::Zipf;

use crate::times::to_wire;

const WORDS: [&str; 16] = [
    "river", "water", "bank", "stone", "bridge", "ferry", "reed", "island", "delta", "flood", "ebb", "mouth", "spring",
    "stream", "gravel", "mill",
];

/// The name of the series of this rank, from 1 on.
pub(crate) fn series(rank: usize) -> String {
    format!("profile:{rank}")
}

/// An event with one item of about this many bytes, which compress as well as text does.
pub(crate) fn event(dice: &mut Dice, series: String, time: Timestamp, number: u64, bytes: usize) -> Event {
    let mut text = String::with_capacity(bytes + 8);
    while text.len() < bytes {
        text.push_str(WORDS[dice.below(WORDS.len() as u64) as usize]);
        text.push(' ');
    }
    text.truncate(bytes);
    let item =
        EventItem { event_item_key: "note".to_owned(), event_item_value: Bytes::from(text), value_metadata: None };
    Event {
        time_series_id: series,
        event_time: Some(to_wire(time)),
        event_id: format!("e-{number:08}"),
        event_items: vec![item],
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_same_seed_makes_the_same_events() {
        let make = |seed| {
            let mut dice = Dice::new(seed);
            event(&mut dice, series(1), Timestamp::from_seconds(1), 7, 100)
        };
        assert_eq!(make(1), make(1));
        assert_ne!(make(1), make(2));
        assert_eq!(make(1).event_items[0].event_item_value.len(), 100);
    }
}
