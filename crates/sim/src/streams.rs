//! Clients that read whole histories as one stream of pages. It may break off anywhere; the token of the last page that came goes on
//! with it, as another stream or page by page.

use std::sync::Arc;

use anabranch_engine::{EngineError, ErrorKind, Page};

use crate::{
    dice::Dice,
    oracle::Violation,
    scan_check::{Asked, Limits, ScanCheck},
    scans::{ScanSpec, Step, acceptable, shown},
    world::{Server, World},
};

/// Streams from a token on until the end, or until it breaks off.
#[allow(clippy::too_many_arguments)] // the state of a scan, which lives in one place
pub(crate) async fn read_stream(
    world: &Arc<World>,
    name: &str,
    dice: &Dice,
    spec: &ScanSpec,
    check: &mut ScanCheck,
    server: &Server,
    token: &str,
    asked: Asked,
) -> Step {
    let most = if dice.percent(50) { usize::MAX } else { dice.between(1, 12) as usize };
    let request = spec.request(world, token, &asked);
    let began = (world.oracle().tick(), world.env.now());
    let pages = server
        .call(move |engine| async move {
            let mut pages: Vec<Result<Page, EngineError>> = Vec::new();
            match engine.bulk_read(&request).await {
                Ok(mut stream) => {
                    while pages.len() < most
                        && let Some(page) = stream.next().await
                    {
                        pages.push(page);
                    }
                }
                Err(error) => pages.push(Err(error)),
            }
            pages
        })
        .await;
    let count = pages.as_ref().map(Vec::len);
    world.trace.log(name, format_args!("streams {} at {}: {count:?} pages", shown(spec, &asked), server.index));
    let mut last = token.to_owned();
    for page in pages.unwrap_or_default() {
        let page = match page {
            Ok(page) => page,
            Err(error) => {
                let fine = world.check(name, acceptable(world, spec, &error));
                return match error.kind() {
                    _ if !fine => Step::Failed,
                    ErrorKind::PermissionDenied => Step::Failed,
                    _ => go_on(world, token, last),
                };
            }
        };
        world.tally.count(|reached| reached.bulk_pages += 1);
        let verdict = take(world, check, &page, &asked, began, server);
        if !world.check(name, verdict) {
            return Step::Failed;
        }
        let Some(next) = page.next_page_token else {
            let verdict = check.end(&world.oracle());
            return if world.check(name, verdict) { Step::End } else { Step::Failed };
        };
        last = next;
    }
    go_on(world, token, last)
}

/// Goes on from the last page that came, if any did.
fn go_on(world: &World, token: &str, last: String) -> Step {
    if last == token {
        return Step::Again;
    }
    world.tally.count(|reached| reached.bulk_broken_off += 1);
    Step::Next(last)
}

fn take(
    world: &World,
    check: &mut ScanCheck,
    page: &Page,
    asked: &Asked,
    began: (u64, anabranch_model::Timestamp),
    server: &Server,
) -> Result<(), Violation> {
    let namespace = world.namespace(check.namespace());
    let Ok(record) = server.engine.namespace(namespace.as_str()) else { return Ok(()) };
    let mut oracle = world.oracle();
    // Settings may have changed while it ran.
    let limits: Vec<Limits> =
        oracle.wanted(check.namespace()).iter().map(|config| asked.limits(config.page_limits)).collect();
    check.page(&mut oracle, page, &limits, began, record.closed_until)
}
