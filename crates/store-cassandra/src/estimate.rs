//! What the nodes themselves know of a table: each estimates, now and then, how many partitions it has in its own part of the
//! ring and how big they are, from the files that it has written.

use anabranch_model::TableName;
use anabranch_store::{StoreError, TableEstimate};
use futures_util::future::try_join_all;
use scylla::{
    cluster::Node,
    policies::load_balancing::{NodeIdentifier, SingleTargetLoadBalancingPolicy},
    statement::{Consistency, unprepared::Statement},
};

use crate::{
    error::{corrupt, unavailable},
    store::Inside,
};

const ESTIMATES: &str = "SELECT partitions_count, mean_partition_size FROM system.size_estimates WHERE keyspace_name = ? AND table_name = ?";

impl Inside {
    /// What all nodes say of a table, together. A node that doesn't answer fails it: a sum without it would be wrong.
    pub(crate) async fn estimate(&self, name: &TableName) -> Result<TableEstimate, StoreError> {
        let table = self.table(name)?;
        let deadline = self.env.monotonic().saturating_add(self.options.metadata_timeout);
        if self.is_gone(&table, deadline).await {
            return Err(self.no_such_table(name));
        }
        let (keyspace, name) = (table.place.keyspace.as_str(), table.place.table.as_str());
        let state = self.session.get_cluster_state();
        let nodes = state.get_nodes_info().iter();
        let told = try_join_all(nodes.map(|node| self.estimate_of(node, keyspace, name))).await?;
        let partitions = told.iter().map(|(partitions, _)| partitions).sum();
        let bytes = told.iter().map(|(_, bytes)| bytes).sum();
        Ok(TableEstimate { partitions, bytes })
    }

    /// Partitions and bytes in one node's own part of the ring.
    async fn estimate_of(
        &self,
        node: &std::sync::Arc<Node>,
        keyspace: &str,
        table: &str,
    ) -> Result<(u64, u64), StoreError> {
        let mut statement = Statement::new(ESTIMATES);
        statement.set_consistency(Consistency::One);
        statement.set_request_timeout(Some(self.options.metadata_timeout));
        let target = NodeIdentifier::Node(node.clone());
        statement.set_load_balancing_policy(Some(SingleTargetLoadBalancingPolicy::new(target, None)));
        let answer = self.session.query_unpaged(statement, (keyspace, table)).await;
        let answer = answer.map_err(|error| unavailable(format!("{}: {error}", node.address)))?;
        let rows = answer.into_rows_result().map_err(|error| corrupt("size estimates", error))?;
        let (mut partitions, mut bytes) = (0, 0);
        for row in rows.rows::<(i64, i64)>().map_err(|error| corrupt("size estimates", error))? {
            let (count, mean) = row.map_err(|error| corrupt("size estimates", error))?;
            let count = u64::try_from(count).unwrap_or(0);
            partitions += count;
            bytes += count.saturating_mul(u64::try_from(mean).unwrap_or(0));
        }
        Ok((partitions, bytes))
    }
}
