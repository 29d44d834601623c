//! Whoever reads a history: through the server, or by the driver alone.

use std::{
    net::SocketAddr,
    time::{Duration, Instant},
};

use anyhow::{Result, ensure};
use prost::Message;

use super::{bare::BareReader, wide::Wide};
use crate::{
    figures::PAGE_SIZE,
    wire::{self, Connection, PageOutline},
};

/// Whom to ask.
#[derive(Clone, Debug)]
pub(crate) enum Side {
    /// The server that listens here.
    Server(SocketAddr),
    /// The node that listens here, by the driver alone.
    Bare(SocketAddr),
}

impl Side {
    /// A client with connections of its own, for histories of the same table as this one.
    pub(crate) async fn open(&self, history: &Wide) -> Result<Client> {
        Ok(match self {
            Side::Server(address) => Client::Server(Connection::open(*address).await?),
            Side::Bare(node) => Client::Bare(Box::new(BareReader::open(*node, &history.table).await?)),
        })
    }
}

/// A client.
pub(crate) enum Client {
    Server(Connection),
    Bare(Box<BareReader>),
}

impl Client {
    /// Reads the page right before an event; how long it took until all of it had come.
    pub(crate) async fn page(&mut self, history: &Wide, place: u64, size: u32) -> Result<Duration> {
        let server = match self {
            Client::Server(server) => server,
            Client::Bare(bare) => return bare.page(history, place, size).await,
        };
        let request = history.page_before(place, size);
        let began = Instant::now();
        let answer = server.call(wire::READ, request).await?;
        let took = began.elapsed();
        let records = PageOutline::decode(answer.message()?)?.records.len();
        ensure!(records == size as usize, "a page held {records} records");
        Ok(took)
    }

    /// Reads all of a history, as one stream or page after page; how long it took. Tells how many events each page has.
    pub(crate) async fn whole(&mut self, history: &Wide, mut each: impl FnMut(u64)) -> Result<Duration> {
        let mut found = 0;
        let count = |events| {
            found += events;
            each(events);
        };
        let began = Instant::now();
        match self {
            Client::Server(server) => stream(server, history, count).await?,
            Client::Bare(bare) => bare.whole(history, PAGE_SIZE, count).await?,
        }
        let took = began.elapsed();
        ensure!(found == history.events, "{found} of {} events were found", history.events);
        Ok(took)
    }
}

async fn stream(server: &mut Connection, history: &Wide, mut each: impl FnMut(u64)) -> Result<()> {
    let mut pages = server.stream(wire::STREAM, history.all(PAGE_SIZE)).await?;
    while let Some(page) = pages.next().await? {
        each(PageOutline::decode(page)?.records.len() as u64);
    }
    Ok(())
}
