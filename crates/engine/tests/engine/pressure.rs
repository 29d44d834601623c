//! Reads under pressure: whole histories don't hold up pages, and a flood is refused before queues grow.

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    time::Duration,
};

use anabranch_engine::{EngineOptions, ErrorKind, PartialReason, ReadRequest};
use anabranch_store::PermitOptions;

use crate::{
    fixture::{World, event, history},
    slow_store::{run_slow, run_slow_with},
};

const SCANS: usize = 16;

/// So many events in one partition, oldest last.
async fn write_history(world: &World, series: &str, events: i64) {
    let now = world.now() / 60_000_000_000 * 60_000_000_000;
    for first in (0..events).step_by(500) {
        let some = (first..(first + 500).min(events)).map(|at| event(series, now - at, "e", &[("k", "value")]));
        world.write(some.collect()).await.unwrap();
    }
}

/// Small pages of one series after the other; what the slowest hundredth took.
async fn p99_of_small_reads(world: &World, reads: usize) -> Duration {
    let mut took = Vec::with_capacity(reads);
    for at in 0..reads {
        let begun = world.env.monotonic();
        let request = ReadRequest { page_size: 10, ..history(&format!("small-{}", at % 8)) };
        assert_eq!(world.read(request).await.unwrap().records.len(), 10);
        took.push(world.env.monotonic() - begun);
        world.env.sleep(Duration::from_millis(2)).await;
    }
    took.sort();
    took[reads * 99 / 100]
}

/// Reads whole histories for ever; counts the records of each.
fn start_scans(world: &World, stop: &Arc<AtomicBool>) -> Vec<Arc<AtomicU64>> {
    let scan = |at: usize| {
        let read = Arc::new(AtomicU64::new(0));
        let (engine, stop, counted) = (world.engine.clone(), stop.clone(), read.clone());
        world.env.spawn(async move {
            while !stop.load(Ordering::Relaxed) {
                let mut bulk = engine.bulk_read(&history(&format!("wide-{at}"))).await.unwrap();
                while let Some(page) = bulk.next().await {
                    let page = page.expect("a history that was begun comes to its end");
                    counted.fetch_add(page.records.len() as u64, Ordering::Relaxed);
                }
            }
        });
        read
    };
    (0..SCANS).map(scan).collect()
}

fn sum(all: &[Arc<AtomicU64>]) -> u64 {
    all.iter().map(|one| one.load(Ordering::Relaxed)).sum()
}

/// The promise of the design, on a store with two cores: 16 whole-history scans at most double the p99 of small reads, go on with
/// a good part of their speed, and each makes progress.
#[test]
fn whole_histories_do_not_hold_up_small_reads_and_each_of_them_moves() {
    run_slow(|world, slow| async move {
        for at in 0..SCANS {
            write_history(&world, &format!("wide-{at}"), 3000).await;
        }
        for at in 0..8 {
            write_history(&world, &format!("small-{at}"), 20).await;
        }
        slow.row_micros.store(20, Ordering::Relaxed);
        let idle = p99_of_small_reads(&world, 500).await;
        let stop = Arc::new(AtomicBool::new(false));
        let scans = start_scans(&world, &stop);
        world.env.sleep(Duration::from_secs(5)).await;
        let begun = sum(&scans);
        world.env.sleep(Duration::from_secs(5)).await;
        let alone = (sum(&scans) - begun) as f64 / 5.0;

        let first: Vec<u64> = scans.iter().map(|read| read.load(Ordering::Relaxed)).collect();
        let begun = world.env.monotonic();
        let beside = p99_of_small_reads(&world, 4000).await;
        let each: Vec<u64> =
            scans.iter().zip(first).map(|(read, first)| read.load(Ordering::Relaxed) - first).collect();
        let took = (world.env.monotonic() - begun).as_secs_f64();
        stop.store(true, Ordering::Relaxed);
        let speed = each.iter().sum::<u64>() as f64 / took / alone;
        assert!(beside <= idle * 2, "p99 of small reads: {idle:?} alone, {beside:?} beside the scans");
        assert!(speed >= 0.45, "the scans go on with {speed:.2} of their speed; one of two cores is left to them");
        assert!(each.iter().all(|read| *read >= 1000), "{each:?}");
    });
}

/// One who has read half of a history isn't turned away because others read theirs: each comes to its end, later than a page on its own
/// would wait.
#[test]
fn whole_histories_wait_for_each_other_as_long_as_it_takes() {
    let permits = PermitOptions { heavy_in_flight: 1, ..PermitOptions::default() };
    let options = EngineOptions { permits, ..EngineOptions::default() };
    run_slow_with(options, |world, slow| async move {
        for at in 0..SCANS {
            write_history(&world, &format!("wide-{at}"), 300).await;
        }
        slow.scan_millis.store(200, Ordering::Relaxed);
        let begun = world.env.monotonic();
        let scans: Vec<_> = (0..SCANS)
            .map(|at| {
                let engine = world.engine.clone();
                world.env.spawn(async move {
                    let request = ReadRequest { page_size: 100, ..history(&format!("wide-{at}")) };
                    let mut bulk = engine.bulk_read(&request).await.unwrap();
                    let mut read = 0;
                    while let Some(page) = bulk.next().await {
                        read += page.unwrap().records.len();
                    }
                    read
                })
            })
            .collect();
        for scan in scans {
            assert_eq!(scan.await.unwrap(), 300);
        }
        let took = world.env.monotonic() - begun;
        assert!(took > Duration::from_secs(5), "{took:?}: nobody had to wait longer than a page may take");
    });
}

/// A flood gets a clear answer at once: those beyond what may be read and may wait are refused, and nobody else is hurt.
#[test]
fn a_flood_is_refused_before_queues_grow() {
    let options = EngineOptions { max_reads_in_flight: 4, max_reads_waiting: 8, ..EngineOptions::default() };
    run_slow_with(options, |world, slow| async move {
        write_history(&world, "a", 10).await;
        slow.scan_millis.store(50, Ordering::Relaxed);
        let flood: Vec<_> = (0..500)
            .map(|_| {
                let (engine, env) = (world.engine.clone(), world.env.clone());
                let begun = env.monotonic();
                world.env.spawn(async move {
                    let outcome = engine.read(history("a")).await.map(|page| page.records.len());
                    (outcome, env.monotonic() - begun)
                })
            })
            .collect();
        let (mut served, mut refused) = (0, 0);
        for read in flood {
            match read.await.unwrap() {
                (Ok(records), _) => {
                    assert_eq!(records, 10);
                    served += 1;
                }
                (Err(error), took) => {
                    assert_eq!(error.kind(), ErrorKind::ResourceExhausted, "{error}");
                    assert!(took < Duration::from_millis(1), "a refusal comes at once, not after {took:?}");
                    refused += 1;
                }
            }
        }
        assert_eq!((served, refused), (12, 488));
        assert_eq!(world.engine.metrics().reads_shed.with_label_values(&["plays"]).get(), 488);
        assert_eq!(world.read(history("a")).await.unwrap().records.len(), 10, "the flood is over");
    });
}

/// R2: the same where the store's own queue is full. A page that has something says that it is short.
#[test]
fn a_read_that_finds_no_room_at_the_store_is_refused_or_short_and_counted() {
    let permits = PermitOptions { in_flight: 2, heavy_in_flight: 1, waiting: 4, ..PermitOptions::default() };
    run_slow_with(EngineOptions { permits, ..EngineOptions::default() }, |world, slow| async move {
        let now = world.now();
        let spread = (0..300).map(|at| event("a", now - at * 60_000_000_000, "e", &[("k", "v")])).collect();
        world.write(spread).await.unwrap();
        slow.scan_millis.store(20, Ordering::Relaxed);
        let reads: Vec<_> = (0..8)
            .map(|_| {
                let engine = world.engine.clone();
                world.env.spawn(async move { engine.read(ReadRequest { page_size: 300, ..history("a") }).await })
            })
            .collect();
        let (mut refused, mut short) = (0, 0);
        for read in reads {
            match read.await.unwrap() {
                Err(error) => {
                    assert_eq!(error.kind(), ErrorKind::ResourceExhausted, "{error}");
                    refused += 1;
                }
                Ok(page) => {
                    let partial = page.partial.expect("300 partitions do not fit");
                    assert_eq!(partial.reason, PartialReason::Slo);
                    assert!(page.next_page_token.is_some());
                    short += 1;
                }
            }
        }
        assert!(refused > 0, "{refused} refused, {short} short");
        let families = world.engine.metrics().registry.gather();
        let refusals = families.iter().find(|family| family.name() == "anabranch_permits_refused_total").unwrap();
        let counted: f64 = refusals.get_metric().iter().map(|metric| metric.get_counter().get_value()).sum();
        assert!(counted >= f64::from(refused), "{counted} counted");
    });
}
