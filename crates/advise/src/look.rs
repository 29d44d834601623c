//! One look at a table, from connecting to the report.

use anabranch_runtime::Env;
use anabranch_store_cassandra::{CassandraOptions, ForeignError, ForeignTable};

use crate::{
    Limits, Report, cost,
    limits::Budget,
    report,
    walk::{self, Walk},
};

/// Looks at a table. `time_column` names the clustering column that says when rows happened; without it the first that
/// can be one is taken.
pub async fn advise(
    options: &CassandraOptions,
    env: Env,
    keyspace: &str,
    table: &str,
    time_column: Option<&str>,
    limits: Limits,
) -> Result<Report, ForeignError> {
    let table = ForeignTable::open(options, env.clone(), keyspace, table, time_column, walk::HEAD_ROWS + 1).await?;
    let mut budget = Budget::new(env, limits);
    let mut walk = Walk::new(&table);
    walk.run(&mut budget).await?;
    walk.look_at_ends(&mut budget).await;
    walk.deepen(&mut budget).await;
    let spent_by = budget.spent_by();
    let findings = walk.finish(limits.widest);
    let stopped_by = spent_by.filter(|_| !findings.is_everything);
    let widest = cost::widest(&table, &findings, &mut budget).await;
    Ok(report::report(&table, &findings, widest, stopped_by, &budget))
}
