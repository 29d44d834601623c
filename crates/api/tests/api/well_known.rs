//! `Timestamp` and `Duration`: nothing is lost between nanoseconds, JSON and the wire, and nothing wrong gets in.

use std::time;

use anabranch_api::wkt::{Duration, DurationError, Timestamp, TimestampError};
use proptest::prelude::*;
use prost::Message;

const FIRST_SECOND: i64 = -62_135_596_800;
const LAST_SECOND: i64 = 253_402_300_799;
const MOST_SECONDS: i64 = 315_576_000_000;

/// Nanoseconds with 0, 3, 6 and 9 digits alike often.
fn nanos() -> impl Strategy<Value = i32> {
    prop_oneof![
        Just(0),
        (0..1_000).prop_map(|n| n * 1_000_000),
        (0..1_000_000).prop_map(|n| n * 1_000),
        0..1_000_000_000,
    ]
}

fn timestamps() -> impl Strategy<Value = Timestamp> {
    (FIRST_SECOND..=LAST_SECOND, nanos()).prop_map(|(seconds, nanos)| Timestamp { seconds, nanos })
}

fn durations() -> impl Strategy<Value = Duration> {
    (0..=MOST_SECONDS, nanos(), prop_oneof![Just(1), Just(-1)])
        .prop_map(|(seconds, nanos, sign)| Duration { seconds: seconds * i64::from(sign), nanos: nanos * sign })
}

fn to_json(value: impl serde::Serialize) -> String {
    serde_json::to_string(&value).expect("has a JSON form")
}

/// Digits between the dot and the letter at the end.
fn fraction_digits(text: &str) -> usize {
    let after_dot = text.trim_matches('"').split_once('.').map_or("", |(_, after)| after);
    after_dot.trim_end_matches(['Z', 's']).len()
}

proptest! {
    #[test]
    fn nanoseconds_survive_every_form(nanos in any::<i64>()) {
        let time = Timestamp::from_nanos(nanos);
        prop_assert_eq!(time.to_nanos(), Ok(nanos));
        prop_assert_eq!(serde_json::from_str::<Timestamp>(&to_json(time)).unwrap().to_nanos(), Ok(nanos));
        prop_assert_eq!(Timestamp::decode(time.encode_to_vec().as_slice()).unwrap().to_nanos(), Ok(nanos));
    }

    #[test]
    fn timestamps_are_canonical_json(time in timestamps()) {
        let text = to_json(time);
        prop_assert!(text.ends_with("Z\""));
        prop_assert!([0, 3, 6, 9].contains(&fraction_digits(&text)), "{}", text);
        prop_assert_eq!(serde_json::from_str::<Timestamp>(&text).unwrap(), time);
    }

    #[test]
    fn timestamps_and_durations_are_protobuf_on_the_wire(time in timestamps(), duration in durations()) {
        let theirs = prost_types::Timestamp { seconds: time.seconds, nanos: time.nanos };
        prop_assert_eq!(time.encode_to_vec(), theirs.encode_to_vec());
        prop_assert_eq!(Timestamp::decode(theirs.encode_to_vec().as_slice()).unwrap(), time);
        let theirs = prost_types::Duration { seconds: duration.seconds, nanos: duration.nanos };
        prop_assert_eq!(duration.encode_to_vec(), theirs.encode_to_vec());
        prop_assert_eq!(Duration::decode(theirs.encode_to_vec().as_slice()).unwrap(), duration);
    }

    #[test]
    fn any_offset_names_the_same_instant(nanos in any::<i64>(), hours in -23_i64..24, minutes in 0_i64..60) {
        let (sign, east) = if hours < 0 { ('-', hours * 60 - minutes) } else { ('+', hours * 60 + minutes) };
        let local = jiff::Timestamp::from_nanosecond(i128::from(nanos)).unwrap();
        let local = local + jiff::SignedDuration::from_mins(east);
        let text = local.to_string().replace('Z', &format!("{sign}{:02}:{minutes:02}", hours.abs()));
        prop_assert_eq!(text.parse::<Timestamp>().unwrap().to_nanos(), Ok(nanos));
    }

    #[test]
    fn durations_are_canonical_json(duration in durations()) {
        let text = to_json(duration);
        prop_assert!(text.ends_with("s\""));
        prop_assert!([0, 3, 6, 9].contains(&fraction_digits(&text)), "{}", text);
        prop_assert_eq!(serde_json::from_str::<Duration>(&text).unwrap(), duration);
    }

    #[test]
    fn lengths_of_time_convert_both_ways(seconds in 0..=MOST_SECONDS.unsigned_abs(), nanos in 0_u32..1_000_000_000) {
        let length = time::Duration::new(seconds, nanos);
        let duration = Duration::try_from(length).unwrap();
        prop_assert_eq!(time::Duration::try_from(duration), Ok(length));
    }

    #[test]
    fn no_text_makes_a_parser_panic(text in "\\PC*", near in "[0-9TtZz:.+-]{0,40}s?") {
        for text in [text, near] {
            let _ = text.parse::<Timestamp>();
            let _ = text.parse::<Duration>();
        }
    }
}

#[test]
fn the_ends_of_time_have_a_form() {
    let first = Timestamp { seconds: FIRST_SECOND, nanos: 0 };
    let last = Timestamp { seconds: LAST_SECOND, nanos: 999_999_999 };
    assert_eq!(to_json(first), "\"0001-01-01T00:00:00Z\"");
    assert_eq!(to_json(last), "\"9999-12-31T23:59:59.999999999Z\"");
    assert_eq!("9999-12-31T23:59:59.999999999Z".parse(), Ok(last));
    assert_eq!("0001-01-01T00:00:00Z".parse(), Ok(first));
    assert_eq!(to_json(Timestamp::from_nanos(i64::MIN)), "\"1677-09-21T00:12:43.145224192Z\"");
    assert_eq!(to_json(Timestamp::from_nanos(i64::MAX)), "\"2262-04-11T23:47:16.854775807Z\"");
}

#[test]
fn times_before_1970_count_their_nanoseconds_forward() {
    assert_eq!(Timestamp::from_nanos(-1), Timestamp { seconds: -1, nanos: 999_999_999 });
    assert_eq!(to_json(Timestamp::from_nanos(-1)), "\"1969-12-31T23:59:59.999999999Z\"");
}

#[test]
fn what_is_no_time_is_refused() {
    let texts = [
        "",
        "now",
        "2026-03-28",
        "2026-03-28T10:00:00",
        "2026-03-28T10:00Z",
        "2026-03-28 10:00:00Z",
        "20260328T100000Z",
        "2026-3-28T10:00:00Z",
        "2026-02-29T10:00:00Z",
        "2026-13-01T10:00:00Z",
        "2026-03-28T24:00:00Z",
        "2026-03-28T10:60:00Z",
        "2016-12-31T23:59:60Z",
        "2026-03-28T10:00:00.Z",
        "2026-03-28T10:00:00.1234567890Z",
        "2026-03-28T10:00:00,5Z",
        "2026-03-28T10:00:00+1:00",
        "2026-03-28T10:00:00+24:00",
        "2026-03-28T10:00:00+01:60",
        "2026-03-28T10:00:00+0100",
        "2026-03-28T10:00:00ZZ",
        "2026-03-28T10:00:00Z[UTC]",
        "2026-03-28-01T10:00:00Z",
        "+2026-03-28T10:00:00Z",
        " 2026-03-28T10:00:00Z",
        "2026-03-28T10:00:00Z ",
        "２026-03-28T10:00:00Z",
    ];
    for text in texts {
        assert_eq!(text.parse::<Timestamp>(), Err(TimestampError::Text(text.to_owned())), "{text}");
    }
    for text in ["0000-12-31T23:59:59Z", "0001-01-01T00:00:00+00:01", "9999-12-31T23:59:59-00:01"] {
        assert_eq!(text.parse::<Timestamp>(), Err(TimestampError::Year), "{text}");
    }
    assert!("2026-03-28t10:00:00.5z".parse::<Timestamp>().is_ok());
}

#[test]
fn times_outside_64_bits_of_nanoseconds_are_refused() {
    let over = Timestamp { seconds: 9_223_372_036, nanos: 854_775_808 };
    let under = Timestamp { seconds: -9_223_372_037, nanos: 145_224_191 };
    for time in [over, under, Timestamp { seconds: i64::MAX, nanos: 0 }, Timestamp { seconds: i64::MIN, nanos: 0 }] {
        assert_eq!(time.to_nanos(), Err(TimestampError::Range));
    }
    for nanos in [-1, 1_000_000_000, i32::MIN, i32::MAX] {
        assert_eq!(Timestamp { seconds: 0, nanos }.to_nanos(), Err(TimestampError::Nanos(nanos)));
        assert!(serde_json::to_string(&Timestamp { seconds: 0, nanos }).is_err());
    }
}

#[test]
fn what_is_no_duration_is_refused() {
    for text in ["", "s", "1", "1S", "1.s", ".5s", "1.1234567890s", "1e3s", "--1s", "1 s", " 1s", "1m", "-s", "1s s"] {
        assert_eq!(text.parse::<Duration>(), Err(DurationError::Text(text.to_owned())), "{text}");
    }
    for text in ["315576000001s", "-315576000001s"] {
        assert_eq!(text.parse::<Duration>(), Err(DurationError::Range), "{text}");
    }
    assert_eq!("+1.5s".parse(), Ok(Duration { seconds: 1, nanos: 500_000_000 }));
    assert_eq!("-0.5s".parse(), Ok(Duration { seconds: 0, nanos: -500_000_000 }));
}

#[test]
fn a_duration_that_is_no_length_of_time_is_refused() {
    let negative = Duration { seconds: 0, nanos: -1 };
    assert_eq!(time::Duration::try_from(negative), Err(DurationError::Negative(negative)));
    let mixed = Duration { seconds: 1, nanos: -1 };
    assert_eq!(time::Duration::try_from(mixed), Err(DurationError::Nanos(-1)));
    let much = Duration { seconds: i64::MIN, nanos: 0 };
    assert_eq!(time::Duration::try_from(much), Err(DurationError::Range));
    assert_eq!(Duration::try_from(time::Duration::MAX), Err(DurationError::Range));
    for nanos in [1_000_000_000, i32::MIN] {
        assert_eq!(time::Duration::try_from(Duration { seconds: 0, nanos }), Err(DurationError::Nanos(nanos)));
    }
}
