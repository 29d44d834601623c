//! Clients that search the histories of several series, one after the other.

use std::sync::Arc;

use anabranch_engine::{ErrorKind, Filter, Page, PartialReason, Query, SearchPage, SearchRequest};
use anabranch_model::TimeSeriesId;

use crate::{
    dice::Dice,
    oracle::Violation,
    plan::{SERIES, series_id},
    scan_check::{Asked, Limits, ScanCheck, check_limits},
    scans::{ScanSpec, acceptable, draw_asked},
    world::{Server, World},
};

/// A search under way.
struct Search {
    namespace: usize,
    series: Vec<TimeSeriesId>,
    checks: Vec<ScanCheck>,
    specs: Vec<ScanSpec>,
    /// The history that the token stands in.
    at: usize,
    token: String,
    pages: u64,
}

/// A client loses patience after so many failures.
const PATIENCE: u32 = 15;

/// One search from its first page to its last.
pub(crate) async fn search(world: &Arc<World>, name: &str, dice: &Dice, namespace: usize) {
    let mut search = begin(world, dice, namespace);
    let hurry = dice.percent(20);
    let mut failures = 0;
    while failures < PATIENCE {
        let Some(server) = world.any_server(dice) else {
            failures += 1;
            world.env.sleep(dice.millis(100, 1500)).await;
            continue;
        };
        let mut asked = draw_asked(dice, hurry);
        asked.timeout = asked.timeout.map(|timeout| timeout * (1 + failures));
        let request = search.request(world, &asked);
        let began = (world.oracle().tick(), world.env.now());
        let answer = server.call(|engine| async move { engine.search(&request).await }).await;
        let words = crate::trace::words(answer.as_ref());
        world.trace.log(name, format_args!("searches {:?} at {}: {words}", search.series, server.index));
        let page = match answer {
            Some(Ok(page)) if !dice.chance(world.sky.weather().unanswered) => page,
            Some(Err(error)) => {
                let spec = &search.specs[search.at];
                let blocked = error.kind() == ErrorKind::PermissionDenied;
                let some = search.series.iter().any(|series| world.oracle().may_be_blocked(namespace, series));
                let fine = (blocked && some) || world.check(name, acceptable(world, spec, &error));
                if !fine || blocked {
                    return;
                }
                failures += 1;
                continue;
            }
            _ => {
                failures += 1;
                continue;
            }
        };
        failures = 0;
        let verdict = search.take(world, &page, &asked, began, &server);
        if !world.check(name, verdict) {
            return;
        }
        let Some(token) = page.next_page_token else {
            if search.pages > 1 {
                world.tally.count(|reached| reached.long_searches += 1);
            }
            return;
        };
        search.token = token;
        if world.is_over() && world.oracle().violation().is_some() {
            return;
        }
    }
}

fn begin(world: &World, dice: &Dice, namespace: usize) -> Search {
    let first = dice.below(SERIES as u64) as usize;
    let count = dice.between(1, 4) as usize;
    let series: Vec<TimeSeriesId> = (0..count).map(|at| series_id((first + at) % SERIES)).collect();
    let mut one = ScanSpec::draw(world, dice, (namespace, series[0].clone()));
    one.total_record_limit = 0;
    let specs: Vec<ScanSpec> =
        series.iter().map(|series| ScanSpec { key: (namespace, series.clone()), ..one.clone() }).collect();
    let mut oracle = world.oracle();
    let checks = specs.iter().map(|spec| {
        let mut check = ScanCheck::begin(&mut oracle, spec.clone());
        check.streamed = true;
        check
    });
    Search { namespace, series, checks: checks.collect(), specs, at: 0, token: String::new(), pages: 0 }
}

impl Search {
    fn request(&self, world: &World, asked: &Asked) -> SearchRequest {
        let spec = &self.specs[0];
        let items = spec
            .filters
            .iter()
            .map(|Filter { key, value }| Query::Item(Filter { key: key.clone(), value: value.clone() }));
        SearchRequest {
            namespace: world.namespace(self.namespace).as_str().to_owned(),
            series: self.series.iter().map(|series| series.as_str().to_owned()).collect(),
            start: spec.start,
            end: spec.end,
            order: spec.order,
            query: (!spec.filters.is_empty()).then(|| Query::All(items.collect())),
            page_size: asked.page_size,
            page_bytes: asked.page_bytes,
            page_token: self.token.clone(),
            timeout: asked.timeout,
        }
    }

    fn take(
        &mut self,
        world: &World,
        page: &SearchPage,
        asked: &Asked,
        began: (u64, anabranch_model::Timestamp),
        server: &Server,
    ) -> Result<(), Violation> {
        self.pages += 1;
        world.tally.count(|reached| reached.search_pages += 1);
        let Ok(record) = server.engine.namespace(world.namespace(self.namespace).as_str()) else { return Ok(()) };
        let mut oracle = world.oracle();
        let limits: Vec<Limits> =
            oracle.wanted(self.namespace).iter().map(|config| asked.limits(config.page_limits)).collect();
        let mut all = Page::default();
        all.records = page.records.iter().map(|(_, record)| record.clone()).collect();
        check_limits(&all, &limits)?;
        let next = match &page.next_page_token {
            Some(token) => token.split('.').next().and_then(|at| at.parse().ok()).unwrap_or(usize::MAX),
            None => self.series.len(),
        };
        if next < self.at || next > self.series.len() || page.next_page_token.as_ref() == Some(&self.token) {
            return Err(Violation::new("R2", format!("a search goes from history {} to {next}", self.at)));
        }
        let mut rest = page.records.iter().peekable();
        for at in self.at..self.series.len().min(next + 1) {
            let mut part = Page::default();
            while let Some((_, record)) = rest.next_if(|(series, _)| series == self.series[at].as_str()) {
                part.records.push(record.clone());
            }
            let stands = at == next;
            part.next_page_token = page.next_page_token.clone().filter(|_| stands);
            part.partial = page.partial.filter(|partial| stands && partial.reason == PartialReason::Slo);
            if let Some(partial) = page.partial.filter(|partial| partial.reason == PartialReason::Retention) {
                self.checks[at].retention_until(partial.complete_until);
            }
            self.checks[at].page(&mut oracle, &part, &limits, began, record.closed_until)?;
            if !stands {
                self.checks[at].end(&oracle)?;
            }
        }
        self.at = next;
        match rest.next() {
            Some((series, _)) => {
                Err(Violation::new("R1", format!("a search answers a record of {series} that wasn't its turn")))
            }
            None => Ok(()),
        }
    }
}
