//! A compare-and-set on its way into the shared store, where the witness looks at every change of a split record and of
//! a namespace's slices.

use std::sync::Arc;

use anabranch_engine::NamespaceRecord;
use anabranch_split::WideRow;
use anabranch_store::{CasOutcome, MemoryStore, MetaKey, Store, StoreError, Version};
use bytes::Bytes;

use crate::{
    faults::AsyncChange,
    witness::{Life, Witness},
};

/// A compare-and-set that can be made now or later.
pub(crate) struct CompareAndSet {
    pub(crate) key: MetaKey,
    pub(crate) expected: Option<Version>,
    pub(crate) value: Option<Bytes>,
    /// Whether it compares, as it should.
    pub(crate) compares: bool,
    pub(crate) witness: Arc<Witness>,
    pub(crate) life: Life,
}

const NAMESPACES: &str = "namespaces";

fn namespace_of(value: Option<&Bytes>) -> Option<NamespaceRecord> {
    serde_json::from_slice(value?).ok()
}

/// Whether a document is a split record.
pub(crate) fn is_split_record(key: &MetaKey) -> bool {
    key.scope.starts_with("wide_row/")
}

/// A split record, if these bytes are one.
pub(crate) fn split_record(value: Option<&Bytes>) -> Option<WideRow> {
    serde_json::from_slice(value?).ok()
}

impl AsyncChange<CasOutcome> for CompareAndSet {
    async fn run(self, store: Arc<MemoryStore>) -> Result<CasOutcome, StoreError> {
        let there = store.load(&self.key).await?;
        let version = there.as_ref().map(|document| document.version);
        let expected = if self.compares { self.expected } else { version };
        let after = split_record(self.value.as_ref()).filter(|_| is_split_record(&self.key) && expected == version);
        if let Some(after) = &after {
            let before = split_record(there.as_ref().map(|document| &document.value));
            self.witness.changes(&store, before.as_ref(), after, self.life).await;
        }
        let namespace =
            namespace_of(self.value.as_ref()).filter(|_| self.key.scope == NAMESPACES && expected == version);
        if let (Some(after), Some(before)) = (&namespace, namespace_of(there.as_ref().map(|document| &document.value)))
        {
            self.witness.changes_slices(&self.key.name, &before, after);
            self.witness.seals(&self.key.name, &before, after);
        }
        let outcome = store.compare_and_set(&self.key, expected, self.value).await?;
        if let (CasOutcome::Applied(_), Some(after)) = (&outcome, &after) {
            self.witness.changed(after);
        }
        Ok(outcome)
    }
}
