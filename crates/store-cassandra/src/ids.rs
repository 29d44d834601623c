//! Which id a table of rows gets, agreed on before anybody makes it. Cassandra doesn't order the schema changes of several
//! coordinators: two servers that make a table at once, or one whose first attempt still lies with a node that stands still, would
//! make two of one name, and what was written into one of them would be lost (W1). Two of one id are one.

use anabranch_store::{CasOutcome, MetaKey, StoreError};
use bytes::Bytes;

use crate::{
    error::{corrupt, unavailable},
    names::Place,
    store::Inside,
};

/// Documents by the name of a table.
const SCOPE: &str = "table_ids";
/// How often it is tried while others change the same document.
const ATTEMPTS: usize = 8;

impl Inside {
    /// The id that whoever makes this table now gives it.
    pub(crate) async fn agree_on_id(&self, place: &Place) -> Result<u128, StoreError> {
        let key = key(place);
        let mut agreed = self.load(&key).await?;
        for _ in 0..ATTEMPTS {
            if let Some(document) = agreed {
                let id = document.value.as_ref().try_into().map(u128::from_be_bytes);
                return id.map_err(|_| corrupt("the id of a table", format!("{} bytes", document.value.len())));
            }
            let id = u128::from(self.env.random_u64()) << 64 | u128::from(self.env.random_u64());
            let proposed = Bytes::copy_from_slice(&id.to_be_bytes());
            match self.compare_and_set(&key, None, Some(&proposed)).await? {
                CasOutcome::Applied(_) => return Ok(id),
                CasOutcome::Conflict(there) => agreed = there,
            }
        }
        Err(contended(place))
    }

    /// Before a table is dropped: one made later under its name gets another id, for what is left of the old one must not be found in it.
    pub(crate) async fn forget_id(&self, place: &Place) -> Result<(), StoreError> {
        let key = key(place);
        let mut agreed = self.load(&key).await?;
        for _ in 0..ATTEMPTS {
            let Some(document) = agreed else { return Ok(()) };
            match self.compare_and_set(&key, Some(document.version), None).await? {
                CasOutcome::Applied(_) => return Ok(()),
                CasOutcome::Conflict(there) => agreed = there,
            }
        }
        Err(contended(place))
    }
}

fn key(place: &Place) -> MetaKey {
    MetaKey::new(SCOPE, place.to_string())
}

fn contended(place: &Place) -> StoreError {
    unavailable(format!("others make and drop {place} all the time"))
}
