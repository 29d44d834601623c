//! Long histories, each one partition, written through the server.

use std::{net::SocketAddr, time::Duration};

use anabranch_api::{v1, wkt};
use anabranch_model::Timestamp;
use anyhow::{Context, Result};
use bytes::Bytes;
use tokio::task::JoinSet;

use crate::{
    events::{Event, Random},
    wire::{self, Connection},
};

/// The same in every history, so that a bigger one is longer, not denser.
pub(crate) const STEP: Duration = Duration::from_millis(10);
const EVENTS_PER_REQUEST: u64 = 1000;
const WRITERS: u64 = 8;

/// One series with events at equal steps of time.
#[derive(Clone, Debug)]
pub(crate) struct Wide {
    pub(crate) namespace: String,
    pub(crate) series: String,
    /// Its original's, with the keyspace.
    pub(crate) table: String,
    pub(crate) events: u64,
    pub(crate) end: Timestamp,
}

impl Wide {
    /// When the event of this number happened.
    pub(crate) fn time(&self, number: u64) -> Timestamp {
        let before_end = (self.events - number) as i64 * STEP.as_nanos() as i64;
        Timestamp::from_nanos(self.end.nanos() - before_end)
    }

    /// The number of an event such that a whole page lies before it.
    pub(crate) fn random_place(&self, page: u32, random: &mut Random) -> u64 {
        u64::from(page) + random.below(self.events - u64::from(page))
    }

    /// The events in the order of their time, some at once.
    pub(crate) fn batches(&self) -> impl Iterator<Item = Vec<Event>> + use<> {
        let history = self.clone();
        (0..self.events).step_by(EVENTS_PER_REQUEST as usize).map(move |first| {
            let mut random = Random::new(first);
            let numbers = first..(first + EVENTS_PER_REQUEST).min(history.events);
            let event = |number| Event::new(history.series.clone(), history.time(number), number, &mut random);
            numbers.map(event).collect()
        })
    }

    /// Asks for the page that ends right before an event.
    pub(crate) fn page_before(&self, place: u64, page_size: u32) -> Bytes {
        let end = wkt::Timestamp::from_nanos(self.time(place).nanos());
        let time_interval = Some(v1::TimeInterval { start: None, end: Some(end) });
        wire::encoded(&v1::ReadEventRecordsRequest { time_interval, page_size, ..self.request() })
    }

    /// Asks for everything.
    pub(crate) fn all(&self, page_size: u32) -> Bytes {
        wire::encoded(&v1::ReadEventRecordsRequest { page_size, ..self.request() })
    }

    fn request(&self) -> v1::ReadEventRecordsRequest {
        v1::ReadEventRecordsRequest {
            namespace: self.namespace.clone(),
            time_series_id: self.series.clone(),
            ..v1::ReadEventRecordsRequest::default()
        }
    }

    /// Writes it through a server.
    pub(crate) async fn write(&self, server: SocketAddr) -> Result<()> {
        let mut writers = JoinSet::new();
        for writer in 0..WRITERS {
            let (history, mut connection) = (self.clone(), Connection::open(server).await?);
            writers.spawn(async move {
                for events in history.batches().skip(writer as usize).step_by(WRITERS as usize) {
                    let events = events.into_iter().map(Event::into_message).collect();
                    let request = v1::WriteEventRecordsRequest { namespace: history.namespace.clone(), events };
                    connection.write(wire::encoded(&request)).await?;
                }
                Ok(())
            });
        }
        writers.join_all().await.into_iter().collect::<Result<()>>().context("a history could not be written")
    }
}
