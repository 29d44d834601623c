//! The rpcs that show how a server and its namespaces fare.

use std::time::Duration;

use anabranch_api::v1;
use anabranch_engine::NamespaceRecord;
use anabranch_model::SliceState;

use super::{Answer, Operations, warnings};
use crate::{
    convert::{
        duration,
        observe::{heat_map_message, partitions_message, partitions_request, summarized, traffic},
        timestamp,
    },
    failure::Failure,
};

/// Over how long rates are taken when nobody says so.
const DEFAULT_WINDOW: Duration = Duration::from_secs(60);
const SHORTEST_WINDOW: Duration = Duration::from_secs(10);
const LONGEST_WINDOW: Duration = Duration::from_secs(600);

impl Operations {
    pub(crate) fn get_overview(&self, message: &v1::GetOverviewRequest) -> Answer<v1::Overview> {
        let window = window(message)?;
        let now = self.engine.now();
        let namespaces = match message.namespace.as_str() {
            "" => self.engine.namespaces().into_iter().map(|(name, record)| (name.into(), record)).collect(),
            name => vec![(name.to_owned(), self.engine.namespace(name)?)],
        };
        let mut warnings = if message.namespace.is_empty() { self.server_warnings() } else { Vec::new() };
        let mut shown = Vec::new();
        for (name, record) in namespaces {
            // One that was deleted meanwhile isn't shown.
            let Ok(overview) = self.namespace_overview(name, &record, window) else { continue };
            let summary = self.engine.split_summary(&overview.name).ok().flatten();
            let (given_up, resting) = summary.map_or((0, 0), |summary| (summary.given_up, summary.resting));
            warnings.extend(warnings::of_namespace(&overview, &record, given_up, now));
            warnings.extend(warnings::resting(&overview.name, resting));
            shown.push(overview);
        }
        warnings.sort_by_key(|warning| !warning.urgent);
        let (waiting, running) = self.engine.split_work();
        Ok(v1::Overview {
            time: timestamp(now),
            version: env!("CARGO_PKG_VERSION").to_owned(),
            window: duration(window),
            warnings,
            namespaces: shown,
            queued_events: self.engine.queued_events() as u64,
            splits_waiting: waiting as u64,
            splits_running: running as u64,
        })
    }

    fn server_warnings(&self) -> Vec<v1::Warning> {
        let dropped = self.engine.metrics().dropped_events();
        warnings::of_server(self.check_ready().err(), &self.engine.tasks(), dropped)
    }

    fn namespace_overview(
        &self,
        name: String,
        record: &NamespaceRecord,
        window: Duration,
    ) -> Answer<v1::NamespaceOverview> {
        let summary = self.engine.split_summary(&name)?;
        let recent = self.engine.recent_traffic(&name, window)?;
        let open = record.slices.iter().filter(|slice| slice.state == SliceState::Open).count();
        let mut overview = v1::NamespaceOverview {
            read_mode: crate::convert::namespaces::read_mode_message(record.splits.mode).into(),
            read_mode_since: timestamp(record.splits.since),
            open_slices: open as u32,
            name,
            ..Default::default()
        };
        if let Some(recent) = recent {
            traffic(&mut overview, &recent);
        }
        if let Some(summary) = summary {
            summarized(&mut overview, &summary);
        }
        Ok(overview)
    }

    pub(crate) async fn get_series_partitions(
        &self,
        message: v1::GetSeriesPartitionsRequest,
    ) -> Answer<v1::SeriesPartitions> {
        let (namespace, which) = partitions_request(message)?;
        let found = self.engine.series_partitions(&namespace, &which).await?;
        Ok(partitions_message(found))
    }

    pub(crate) fn get_heat_map(&self, message: &v1::GetHeatMapRequest) -> Answer<v1::HeatMap> {
        let wide = self.engine.split_summary(&message.namespace)?.map(|summary| summary.wide).unwrap_or_default();
        let map = self.engine.heat_map(&message.namespace)?;
        Ok(map.map_or_else(v1::HeatMap::default, |map| heat_map_message(map, &wide)))
    }
}

fn window(message: &v1::GetOverviewRequest) -> Result<Duration, Failure> {
    let Some(window) = message.window else { return Ok(DEFAULT_WINDOW) };
    let window = Duration::try_from(window).map_err(|error| Failure::invalid("window", error.to_string()))?;
    if (SHORTEST_WINDOW..=LONGEST_WINDOW).contains(&window) {
        return Ok(window);
    }
    Err(Failure::invalid("window", "must be from 10 seconds to 10 minutes"))
}
