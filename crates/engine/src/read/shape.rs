//! What partitions of a namespace look like, learnt from reads: how many rows they hold and how many rows make a record.
//! Only ever a guess that saves work; answers never depend on it.

use std::{
    collections::BTreeMap,
    sync::{Mutex, PoisonError},
};

use anabranch_model::NamespaceName;

/// Rows after which what was seen before counts for little more than a third.
const MEMORY_ROWS: f64 = 16_384.0;

/// What reads have come across. A read that ends within a partition has seen rows of it, but not how many it has: only
/// ends tell, by how many rows lie between them.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Shape {
    pub(crate) rows: f64,
    pub(crate) records: f64,
    /// Partitions that had rows and were read to their end.
    pub(crate) ends: f64,
}

impl Shape {
    /// Rows that make one record.
    pub(crate) fn rows_per_record(&self) -> f64 {
        if self.records > 0.0 { (self.rows / self.records).max(1.0) } else { 1.0 }
    }

    /// Partitions that so many rows reach over.
    pub(crate) fn partitions(&self, rows: f64) -> usize {
        if self.rows > 0.0 { (rows * self.ends / self.rows).ceil() as usize } else { 1 }
    }

    fn learn(&mut self, seen: Shape) {
        let kept = (-seen.rows / MEMORY_ROWS).exp();
        self.rows = self.rows * kept + seen.rows;
        self.records = self.records * kept + seen.records;
        self.ends = self.ends * kept + seen.ends;
    }
}

/// One shape for each namespace.
#[derive(Default)]
pub(crate) struct Shapes(Mutex<BTreeMap<NamespaceName, Shape>>);

impl Shapes {
    pub(crate) fn get(&self, name: &NamespaceName) -> Option<Shape> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).get(name).copied()
    }

    pub(crate) fn learn(&self, name: &NamespaceName, seen: Shape) {
        let mut shapes = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        match shapes.get_mut(name) {
            Some(shape) => shape.learn(seen),
            None => {
                shapes.insert(name.clone(), seen);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pages(pages: &[(f64, f64)]) -> Shape {
        let mut shape = Shape::default();
        pages.iter().for_each(|(rows, ends)| shape.learn(Shape { rows: *rows, records: *rows, ends: *ends }));
        shape
    }

    #[test]
    fn a_page_that_crosses_from_one_big_partition_to_the_next_does_not_make_them_look_small() {
        assert_eq!(pages(&[(1000.0, 0.0), (1000.0, 0.0), (1000.0, 1.0)]).partitions(1000.0), 1);
        assert_eq!(pages(&[(10.0, 0.0); 100]).partitions(1000.0), 0);
    }

    #[test]
    fn sparse_partitions_are_known_from_the_first_page_on() {
        assert_eq!(pages(&[(10.0, 5.0)]).partitions(1000.0), 500);
    }

    #[test]
    fn what_has_changed_is_learnt_within_some_pages() {
        let mut seen = vec![(1000.0, 500.0); 100];
        seen.extend([(1000.0, 0.0); 100]);
        assert!(pages(&seen).partitions(1000.0) <= 2);
    }
}
