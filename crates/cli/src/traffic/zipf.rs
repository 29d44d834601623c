//! Draws ranks by Zipf's law: rank r comes up in proportion to 1 / r^s.

use super::Dice;

/// Ranks from 1 to a number of ids.
#[derive(Clone, Debug)]
pub(crate) struct Zipf {
    /// Up to and with each rank, what part of all draws.
    up_to: Vec<f64>,
}

impl Zipf {
    /// `ids` must not be 0; each takes eight bytes.
    pub(crate) fn new(ids: usize, exponent: f64) -> Self {
        let mut total = 0.0;
        let mut up_to: Vec<f64> = (1..=ids)
            .map(|rank| {
                total += (rank as f64).powf(-exponent);
                total
            })
            .collect();
        up_to.iter_mut().for_each(|mass| *mass /= total);
        Zipf { up_to }
    }

    pub(crate) fn draw(&self, dice: &mut Dice) -> usize {
        let share = dice.share();
        let below = self.up_to.partition_point(|mass| *mass <= share);
        below.min(self.up_to.len() - 1) + 1
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranks_come_up_by_their_share() {
        let zipf = Zipf::new(100, 1.0);
        let mut dice = Dice::new(7);
        let mut counts = [0_u32; 101];
        for _ in 0..100_000 {
            counts[zipf.draw(&mut dice)] += 1;
        }
        // 1 / H(100) is 19.3 %, and the second rank gets half of it.
        assert!((18_800..19_800).contains(&counts[1]), "{}", counts[1]);
        assert!((9_200..10_100).contains(&counts[2]), "{}", counts[2]);
        assert_eq!(counts[0], 0);
        assert_eq!(Zipf::new(1, 1.2).draw(&mut dice), 1);
    }
}
