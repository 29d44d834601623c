//! Namespaces are deleted in two steps: hidden at once, and dropped when nobody has wanted them back for a while. The lifecycle does
//! the second.

use std::time::Duration;

use anabranch_model::{Timestamp, time::describe};

use crate::{EngineError, NamespaceRecord, engine::Engine, error::no_such_namespace};

/// The longest that a deleted namespace may wait to be dropped.
pub const MAX_DELETE_GRACE: Duration = Duration::from_secs(30 * 86_400);

impl Engine {
    /// Deletes a namespace. It isn't there any more at once; everything in it goes after `grace` (by default, that of the server), and
    /// until then it can be restored. `confirm` must repeat the name. Answers when it goes.
    pub async fn delete_namespace(
        &self,
        name: &str,
        confirm: &str,
        grace: Option<Duration>,
    ) -> Result<Timestamp, EngineError> {
        // By a clock that is behind its grace would be over at once.
        self.check_ready()?;
        let namespace = self.registry.get(name)?;
        if confirm != name {
            let reason = format!("type the name `{name}` once more to delete it with everything in it");
            return Err(EngineError::invalid("confirm", reason));
        }
        let grace = grace.unwrap_or(self.options.delete_grace);
        if grace > MAX_DELETE_GRACE {
            let reason = format!("{} is more than {}", describe(grace), describe(MAX_DELETE_GRACE));
            return Err(EngineError::invalid("grace", reason));
        }
        let drop_at = self.env.now().saturating_add(grace);
        let mark = |record: &mut NamespaceRecord| {
            record.deleting = true;
            record.drop_at = (!grace.is_zero()).then_some(drop_at);
            Ok(())
        };
        self.registry.change(&namespace.name, mark).await?;
        if grace.is_zero() {
            self.lifecycle.finish_delete(&namespace.name).await?;
        }
        Ok(drop_at)
    }

    /// Brings back a namespace that was deleted, with everything in it, as long as its grace isn't over.
    pub async fn restore_namespace(&self, name: &str) -> Result<NamespaceRecord, EngineError> {
        self.check_ready()?;
        let known = self.registry.snapshot().get(name).cloned();
        let Some(known) = known else { return Err(no_such_namespace(name)) };
        let now = self.env.now();
        let skew = self.options.max_clock_skew;
        let restore = |record: &mut NamespaceRecord| {
            if record.deleting && !record.can_be_restored(now.saturating_add(skew)) {
                return Err(no_such_namespace(name));
            }
            (record.deleting, record.drop_at) = (false, None);
            Ok(())
        };
        self.registry.change(&known.name, restore).await?;
        self.wake_lifecycle.notify_one();
        self.namespace(name)
    }
}
