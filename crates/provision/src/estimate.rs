//! A number that is known, or known to lie somewhere: one value, or low, mid and high with a confidence, and the
//! distribution that fits them.

use std::{fmt, marker::PhantomData, str::FromStr};

use serde::{
    Deserialize, Deserializer, Serialize, Serializer,
    de::{self, MapAccess, Visitor},
    ser::SerializeStruct,
};

use crate::quantity::{Kind, Scale};

/// What a range without a confidence is taken to mean.
pub const DEFAULT_CONFIDENCE: f64 = 0.9;
/// How much wider than the given range a draw may fall, counted in deviations.
const MOST_DEVIATIONS: f64 = 3.0;

/// One value, or a range in which the truth lies with a given confidence, half of the rest on each side, and whose
/// `mid` is as likely too high as too low.
pub struct Estimate<K> {
    low: f64,
    mid: f64,
    high: f64,
    confidence: f64,
    kind: PhantomData<K>,
}

impl<K> Clone for Estimate<K> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<K> Copy for Estimate<K> {}

impl<K> PartialEq for Estimate<K> {
    fn eq(&self, other: &Self) -> bool {
        let parts = |estimate: &Self| (estimate.low, estimate.mid, estimate.high, estimate.confidence);
        parts(self) == parts(other)
    }
}

impl<K: Kind> fmt::Debug for Estimate<K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl<K> Estimate<K> {
    /// A number that is known.
    pub const fn one(value: f64) -> Self {
        Estimate { low: value, mid: value, high: value, confidence: 1.0, kind: PhantomData }
    }

    /// A number that lies between `low` and `high` with this confidence.
    pub const fn range(low: f64, mid: f64, high: f64, confidence: f64) -> Self {
        Estimate { low, mid, high, confidence, kind: PhantomData }
    }

    /// The least that it is said to be.
    pub fn low(&self) -> f64 {
        self.low
    }

    /// The value, or the middle of the range.
    pub fn mid(&self) -> f64 {
        self.mid
    }

    /// The most that it is said to be.
    pub fn high(&self) -> f64 {
        self.high
    }

    /// Whether one value was given.
    pub fn is_certain(&self) -> bool {
        self.low == self.high
    }
}

impl<K: Kind> Estimate<K> {
    /// What is wrong with it, in words that follow the name of the field.
    pub(crate) fn problem(&self, least: f64, most: f64) -> Option<String> {
        if !(self.low <= self.mid && self.mid <= self.high) {
            return Some(format!("has low, mid and high out of order: {self}"));
        }
        let is_confidence = self.confidence > 0.0 && self.confidence < 1.0;
        if !self.is_certain() && !is_confidence {
            return Some(format!(
                "has a confidence of {}: it must lie between 0 and 1, ends excluded",
                self.confidence
            ));
        }
        if self.low < least || self.high > most {
            return Some(format!("is {self}; it must lie between {} and {}", K::show(least), K::show(most)));
        }
        if !self.is_certain() && self.low <= 0.0 && K::SCALE != Scale::Linear {
            return Some(format!("is {self}; a range must begin above 0"));
        }
        None
    }

    /// The value below which it falls with probability `chance`. Each side is a normal distribution of its own on the
    /// kind's scale, so that low, mid and high are met exactly, however lopsided they are.
    pub(crate) fn quantile(&self, chance: f64) -> f64 {
        if self.is_certain() {
            return self.mid;
        }
        let edge = inverse_normal(0.5 + self.confidence / 2.0);
        let deviations = (inverse_normal(chance) / edge).clamp(-MOST_DEVIATIONS, MOST_DEVIATIONS);
        let [low, mid, high] = [self.low, self.mid, self.high].map(to_scale::<K>);
        let side = if deviations < 0.0 { mid - low } else { high - mid };
        from_scale::<K>(mid + deviations * side)
    }
}

fn to_scale<K: Kind>(value: f64) -> f64 {
    match K::SCALE {
        Scale::Logarithmic => value.ln(),
        Scale::Linear => value,
        Scale::Share => (value / (1.0 - value)).ln(),
    }
}

fn from_scale<K: Kind>(value: f64) -> f64 {
    match K::SCALE {
        Scale::Logarithmic => value.exp(),
        Scale::Linear => value.max(0.0),
        Scale::Share => 1.0 / (1.0 + (-value).exp()),
    }
}

/// The inverse of the normal distribution function, to nine digits (Acklam's rational approximation).
fn inverse_normal(chance: f64) -> f64 {
    const A: [f64; 6] = [
        -3.969683028665376e1,
        2.209460984245205e2,
        -2.759285104469687e2,
        1.38357751867269e2,
        -3.066479806614716e1,
        2.506628277459239,
    ];
    const B: [f64; 6] = [
        -5.447609879822406e1,
        1.615858368580409e2,
        -1.556989798598866e2,
        6.680131188771972e1,
        -1.328068155288572e1,
        1.0,
    ];
    const C: [f64; 6] = [
        -7.784894002430293e-3,
        -3.223964580411365e-1,
        -2.400758277161838,
        -2.549732539343734,
        4.374664141464968,
        2.938163982698783,
    ];
    const D: [f64; 5] = [7.784695709041462e-3, 3.224671290700398e-1, 2.445134137142996, 3.754408661907416, 1.0];
    let polynomial = |terms: &[f64], x: f64| terms.iter().fold(0.0, |sum, term| sum * x + term);
    let chance = chance.clamp(1e-12, 1.0 - 1e-12);
    if chance < 0.02425 {
        let x = (-2.0 * chance.ln()).sqrt();
        polynomial(&C, x) / polynomial(&D, x)
    } else if chance > 1.0 - 0.02425 {
        -inverse_normal(1.0 - chance)
    } else {
        let x = chance - 0.5;
        polynomial(&A, x * x) * x / polynomial(&B, x * x)
    }
}

/// `1000`, or `500..1000..4000@0.9`.
impl<K: Kind> fmt::Display for Estimate<K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.is_certain() {
            return f.write_str(&K::show(self.mid));
        }
        write!(f, "{}..{}..{}@{}", K::show(self.low), K::show(self.mid), K::show(self.high), self.confidence)
    }
}

impl<K: Kind> FromStr for Estimate<K> {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let value = |text: &str| {
            K::parse(text.trim()).ok_or_else(|| format!("`{text}` is not {}, or LOW..MID..HIGH@CONFIDENCE", K::EXAMPLE))
        };
        let (numbers, confidence) = match text.split_once('@') {
            Some((numbers, confidence)) => {
                let parsed = confidence.trim().parse::<f64>();
                (numbers, parsed.map_err(|_| format!("`{confidence}` is not a confidence such as 0.9"))?)
            }
            None => (text, DEFAULT_CONFIDENCE),
        };
        match numbers.split("..").collect::<Vec<_>>().as_slice() {
            [one] if !text.contains('@') => Ok(Estimate::one(value(one)?)),
            [low, mid, high] => Ok(Estimate::range(value(low)?, value(mid)?, value(high)?, confidence)),
            _ => Err(format!("`{text}` must be one value or LOW..MID..HIGH@CONFIDENCE")),
        }
    }
}

impl<K: Kind> Serialize for Estimate<K> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        if self.is_certain() {
            return Scalar::<K>::new(self.mid).serialize(serializer);
        }
        let mut range = serializer.serialize_struct("Estimate", 4)?;
        range.serialize_field("low", &Scalar::<K>::new(self.low))?;
        range.serialize_field("mid", &Scalar::<K>::new(self.mid))?;
        range.serialize_field("high", &Scalar::<K>::new(self.high))?;
        range.serialize_field("confidence", &self.confidence)?;
        range.end()
    }
}

impl<'de, K: Kind> Deserialize<'de> for Estimate<K> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(EstimateVisitor(PhantomData))
    }
}

struct EstimateVisitor<K>(PhantomData<K>);

impl<'de, K: Kind> Visitor<'de> for EstimateVisitor<K> {
    type Value = Estimate<K>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}, or a table with low, mid, high and confidence", K::EXAMPLE)
    }

    fn visit_f64<E: de::Error>(self, value: f64) -> Result<Estimate<K>, E> {
        if value.is_finite() { Ok(Estimate::one(value)) } else { Err(E::custom(format!("{value} is not a number"))) }
    }

    fn visit_i64<E: de::Error>(self, value: i64) -> Result<Estimate<K>, E> {
        Ok(Estimate::one(value as f64))
    }

    fn visit_u64<E: de::Error>(self, value: u64) -> Result<Estimate<K>, E> {
        Ok(Estimate::one(value as f64))
    }

    fn visit_str<E: de::Error>(self, text: &str) -> Result<Estimate<K>, E> {
        text.parse().map_err(E::custom)
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Estimate<K>, A::Error> {
        let (mut parts, mut confidence) = ([None; 3], DEFAULT_CONFIDENCE);
        while let Some(name) = map.next_key::<String>()? {
            match name.as_str() {
                "low" => parts[0] = Some(map.next_value::<Scalar<K>>()?.value),
                "mid" => parts[1] = Some(map.next_value::<Scalar<K>>()?.value),
                "high" => parts[2] = Some(map.next_value::<Scalar<K>>()?.value),
                "confidence" => confidence = map.next_value()?,
                other => return Err(de::Error::unknown_field(other, &["low", "mid", "high", "confidence"])),
            }
        }
        match parts {
            [Some(low), Some(mid), Some(high)] => Ok(Estimate::range(low, mid, high, confidence)),
            _ => Err(de::Error::custom("a range needs low, mid and high")),
        }
    }
}

/// One number of a kind, in a file.
struct Scalar<K> {
    value: f64,
    kind: PhantomData<K>,
}

impl<K> Scalar<K> {
    fn new(value: f64) -> Self {
        Scalar { value, kind: PhantomData }
    }
}

impl<K: Kind> Serialize for Scalar<K> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let text = K::show(self.value);
        if text.parse::<f64>().is_err() {
            return serializer.serialize_str(&text);
        }
        // Whole numbers stay whole in files.
        if self.value.fract() == 0.0 && self.value.abs() < 9e15 {
            serializer.serialize_i64(self.value as i64)
        } else {
            serializer.serialize_f64(self.value)
        }
    }
}

impl<'de, K: Kind> Deserialize<'de> for Scalar<K> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let estimate = Estimate::<K>::deserialize(deserializer)?;
        if estimate.is_certain() {
            Ok(Scalar::new(estimate.mid))
        } else {
            Err(de::Error::custom("a range inside of a range"))
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::quantity::{Bytes, Count, Exponent, Seconds, Share};

    #[test]
    fn a_range_is_met_at_its_confidence() {
        let estimate = Estimate::<Count>::range(100.0, 1000.0, 2000.0, 0.8);
        for (chance, expected) in [(0.1, 100.0), (0.5, 1000.0), (0.9, 2000.0)] {
            let found = estimate.quantile(chance);
            assert!((found / expected - 1.0).abs() < 1e-6, "{chance}: {found}");
        }
        let share = Estimate::<Share>::range(0.2, 0.5, 0.95, 0.9);
        assert!((share.quantile(0.95) - 0.95).abs() < 1e-6);
        assert!(share.quantile(0.999_999) < 1.0);
        assert_eq!(Estimate::<Exponent>::range(0.0, 0.1, 0.2, 0.5).quantile(1e-9), 0.0);
    }

    #[test]
    fn the_inverse_normal_is_the_one_of_the_tables() {
        for (chance, expected) in [(0.5, 0.0), (0.975, 1.959964), (0.99, 2.326348), (0.001, -3.090232)] {
            assert!((inverse_normal(chance) - expected).abs() < 1e-6, "{chance}");
        }
    }

    #[test]
    fn contradictory_ranges_are_named() {
        let problem = |text: &str| text.parse::<Estimate<Count>>().unwrap().problem(1.0, 1e9);
        assert_eq!(problem("5..10..20"), None);
        assert!(problem("20..10..5").unwrap().contains("out of order"));
        assert!(problem("5..10..20@1.5").unwrap().contains("confidence of 1.5"));
        assert!(problem("0").unwrap().contains("between 1 and"));
    }

    #[test]
    fn estimates_are_read_as_text_as_numbers_and_as_tables() {
        #[derive(Deserialize, Serialize, PartialEq, Debug)]
        struct File {
            a: Estimate<Count>,
            b: Estimate<Seconds>,
            c: Estimate<Bytes>,
        }
        let text = "a = 5\nb = '1d..7d..30d@0.8'\nc = { low = '1KiB', mid = 2048, high = 4e3 }\n";
        let file: File = toml::from_str(text).unwrap();
        assert_eq!(file.a, Estimate::one(5.0));
        assert_eq!(file.b, Estimate::range(86_400.0, 604_800.0, 2_592_000.0, 0.8));
        assert_eq!(file.c, Estimate::range(1024.0, 2048.0, 4000.0, DEFAULT_CONFIDENCE));
        let written = toml::to_string(&file).unwrap();
        assert_eq!(toml::from_str::<File>(&written).unwrap(), file, "{written}");
        for bad in ["1..2", "1@0.5", "a..b..c", "1..2..3@x", "30d"] {
            assert!(bad.parse::<Estimate<Count>>().is_err(), "{bad}");
        }
    }

    proptest! {
        #[test]
        fn a_higher_chance_never_gives_a_lower_value(
            low in 0.001_f64..1e6, up in 1.0_f64..1e3, more in 1.0_f64..1e3, confidence in 0.01_f64..0.99,
            a in 0.0_f64..1.0, b in 0.0_f64..1.0,
        ) {
            let estimate = Estimate::<Count>::range(low, low * up, low * up * more, confidence);
            prop_assert!(estimate.quantile(a.min(b)) <= estimate.quantile(a.max(b)));
            prop_assert!(estimate.quantile(a) > 0.0);
        }
    }
}
