//! What partitions of a namespace look like, learnt from reads: how many rows they hold and how many rows make a record.
//! Only ever a guess that saves work; answers never depend on it.

use std::{
    collections::BTreeMap,
    sync::{Mutex, PoisonError},
};

use anabranch_model::NamespaceName;

/// How fast old reads are forgotten.
const WEIGHT: f64 = 0.2;

#[derive(Clone, Copy, Debug)]
pub(crate) struct Shape {
    /// Rows in a partition that has any.
    pub(crate) rows_per_partition: f64,
    /// Rows that make one record.
    pub(crate) rows_per_record: f64,
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
        let Some(shape) = shapes.get_mut(name) else {
            shapes.insert(name.clone(), seen);
            return;
        };
        shape.rows_per_partition += WEIGHT * (seen.rows_per_partition - shape.rows_per_partition);
        shape.rows_per_record += WEIGHT * (seen.rows_per_record - shape.rows_per_record);
    }
}
