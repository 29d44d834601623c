//! What the permits promise, in virtual time.

use std::sync::atomic::{AtomicU64, Ordering};

use anabranch_model::Timestamp;
use anabranch_runtime::{Task, run_simulated};

use super::*;

const SECOND: Duration = Duration::from_secs(1);

fn run<F: Future<Output = ()>>(test: impl FnOnce(Env) -> F) {
    run_simulated(7, Timestamp::from_seconds(0), test);
}

fn permits(env: &Env, in_flight: usize, heavy_in_flight: usize, waiting: usize) -> Arc<Permits> {
    let options = PermitOptions { in_flight, heavy_in_flight, waiting, ..PermitOptions::default() };
    Arc::new(Permits::new(env.clone(), options))
}

fn count(permits: &Permits, class: ReadClass) -> ClassCount {
    permits.counts()[class as usize].1
}

/// Reads again and again until `until`; says what it has read.
fn reads(
    env: &Env,
    permits: &Arc<Permits>,
    class: ReadClass,
    flow: u64,
    (takes, bytes): (Duration, u64),
    until: Duration,
) -> (Task<()>, Arc<AtomicU64>) {
    let read = Arc::new(AtomicU64::new(0));
    let (inner, permits, total) = (env.clone(), permits.clone(), read.clone());
    let task = env.spawn(async move {
        while inner.monotonic() < until {
            let Ok(permit) = permits.acquire(class, flow, 600 * SECOND).await else { continue };
            inner.sleep(takes).await;
            permit.done(bytes);
            total.fetch_add(bytes, Ordering::Relaxed);
        }
    });
    (task, read)
}

#[test]
fn sixteen_scans_do_not_hold_up_a_small_read_and_each_of_them_moves() {
    run(|env| async move {
        let permits = permits(&env, 4, 3, 1000);
        let heavy = (Duration::from_millis(20), 2 << 20);
        let scans: Vec<_> =
            (0..16).map(|at| reads(&env, &permits, ReadClass::Bulk, at, heavy, 20 * SECOND).1).collect();
        env.sleep(SECOND).await;
        for _ in 0..500 {
            let asked = env.monotonic();
            let permit = permits.acquire(ReadClass::Small, 99, SECOND).await.unwrap();
            assert!(env.monotonic() - asked < Duration::from_millis(1), "there is always room for a small read");
            env.sleep(Duration::from_millis(1)).await;
            permit.done(1000);
        }
        env.sleep(15 * SECOND).await;
        let read: Vec<u64> = scans.iter().map(|read| read.load(Ordering::Relaxed)).collect();
        let (least, most) = (*read.iter().min().unwrap(), *read.iter().max().unwrap());
        assert!(least > 0 && most <= least + 2 * (2 << 20), "{read:?}");
    });
}

#[test]
fn series_share_by_bytes_and_not_by_the_number_of_their_reads() {
    run(|env| async move {
        let permits = permits(&env, 1, 1, 1000);
        let takes = (Duration::from_millis(1), 64 << 10);
        let crowd: Vec<_> = (0..20).map(|_| reads(&env, &permits, ReadClass::Small, 1, takes, 20 * SECOND).1).collect();
        let single = reads(&env, &permits, ReadClass::Small, 2, takes, 20 * SECOND).1;
        env.sleep(10 * SECOND).await;
        let crowd: u64 = crowd.iter().map(|read| read.load(Ordering::Relaxed)).sum();
        let ratio = crowd as f64 / single.load(Ordering::Relaxed) as f64;
        assert!((0.9..1.2).contains(&ratio), "{ratio}");
    });
}

#[test]
fn bulk_keeps_a_fifth_and_background_a_twentieth_of_the_bytes_when_small_reads_take_all_they_can() {
    run(|env| async move {
        let permits = permits(&env, 2, 2, 1000);
        let takes = (Duration::from_millis(1), 64 << 10);
        let of = |class, base: u64| -> Vec<_> {
            (0..8).map(|at| reads(&env, &permits, class, base + at, takes, 30 * SECOND).1).collect()
        };
        let (small, bulk) = (of(ReadClass::Small, 0), of(ReadClass::Bulk, 100));
        let background = of(ReadClass::Background, 200);
        env.sleep(20 * SECOND).await;
        let sum = |all: &[Arc<AtomicU64>]| all.iter().map(|read| read.load(Ordering::Relaxed)).sum::<u64>() as f64;
        let all = sum(&small) + sum(&bulk) + sum(&background);
        assert!((0.19..0.30).contains(&(sum(&bulk) / all)), "bulk {}", sum(&bulk) / all);
        assert!((0.045..0.09).contains(&(sum(&background) / all)), "background {}", sum(&background) / all);
    });
}

#[test]
fn the_queue_is_bounded_and_a_refusal_is_counted() {
    run(|env| async move {
        let permits = permits(&env, 1, 1, 10);
        let held = permits.acquire(ReadClass::Small, 0, SECOND).await.unwrap();
        let waiting: Vec<_> = (0..10)
            .map(|at| {
                let permits = permits.clone();
                env.spawn(async move { permits.acquire(ReadClass::Small, at, 100 * SECOND).await.map(|_| ()) })
            })
            .collect();
        env.sleep(Duration::from_millis(1)).await;
        let refused = permits.acquire(ReadClass::Small, 1, SECOND).await.map(|_| ());
        assert!(matches!(refused, Err(StoreError::Overloaded { .. })), "{refused:?}");
        assert_eq!(count(&permits, ReadClass::Small).refused, 1);
        assert_eq!(count(&permits, ReadClass::Small).waiting, 10);
        drop(held);
        for waiting in waiting {
            assert_eq!(waiting.await, Some(Ok(())));
        }
        assert_eq!(count(&permits, ReadClass::Small).in_flight, 0);
    });
}

#[test]
fn who_gives_up_leaves_nothing_behind() {
    run(|env| async move {
        let permits = permits(&env, 1, 1, 10);
        let held = permits.acquire(ReadClass::Bulk, 0, SECOND).await.unwrap();
        let late = permits.acquire(ReadClass::Bulk, 1, Duration::from_millis(5)).await.map(|_| ());
        assert!(matches!(late, Err(StoreError::Overloaded { .. })), "{late:?}");
        let dropped = env.timeout(Duration::from_millis(5), permits.acquire(ReadClass::Bulk, 2, SECOND)).await;
        assert!(dropped.is_err());
        assert_eq!(count(&permits, ReadClass::Bulk).waiting, 0);
        // Given in the very moment in which nobody wants it any more, a permit isn't lost.
        let inner = permits.clone();
        let waiting = env.spawn(async move { inner.acquire(ReadClass::Bulk, 3, SECOND).await.map(|_| ()) });
        env.sleep(Duration::from_millis(1)).await;
        drop(held);
        waiting.abort();
        waiting.await;
        assert_eq!(count(&permits, ReadClass::Bulk).in_flight, 0);
        assert!(permits.acquire(ReadClass::Bulk, 4, Duration::ZERO).await.is_ok());
    });
}

#[test]
fn heavy_reads_give_way_while_small_ones_are_slow_and_come_back_after() {
    run(|env| async move {
        let permits = permits(&env, 100, 16, 1000);
        // A store on two cores: every heavy read in flight beyond one costs a small one a millisecond.
        let small = |env: Env, permits: Arc<Permits>| async move {
            let permit = permits.acquire(ReadClass::Small, 99, SECOND).await.unwrap();
            let beside = count(&permits, ReadClass::Bulk).in_flight as u32;
            env.sleep(Duration::from_millis(1) * beside.max(1)).await;
            permit.done(1000);
        };
        for _ in 0..100 {
            small(env.clone(), permits.clone()).await;
        }
        let takes = (Duration::from_millis(10), 2 << 20);
        for at in 0..16 {
            drop(reads(&env, &permits, ReadClass::Bulk, at, takes, 60 * SECOND));
        }
        env.sleep(Duration::from_millis(100)).await;
        assert_eq!(count(&permits, ReadClass::Bulk).in_flight, 16, "while nobody else reads");
        let mut beside = Vec::new();
        for _ in 0..2000 {
            small(env.clone(), permits.clone()).await;
            beside.push(count(&permits, ReadClass::Bulk).in_flight);
        }
        let late = &beside[500..];
        let mean = late.iter().sum::<usize>() as f64 / late.len() as f64;
        assert!((1.0..2.5).contains(&mean) && late.iter().all(|heavy| *heavy >= 1), "{mean}");
        env.sleep(3 * SECOND).await;
        assert_eq!(count(&permits, ReadClass::Bulk).in_flight, 16, "once they are gone");
    });
}

#[test]
fn heavy_reads_are_short_as_long_as_there_are_small_ones() {
    run(|env| async move {
        let permits = permits(&env, 100, 16, 1000);
        let short = PermitOptions::default().heavy_bytes_beside;
        let heavy = [ReadClass::Bulk, ReadClass::Background];
        for (waited, expected) in [(None, usize::MAX), (Some(SECOND / 2), short), (Some(2 * SECOND), usize::MAX)] {
            if let Some(waited) = waited {
                let permit = permits.acquire(ReadClass::Small, 1, SECOND).await.unwrap();
                assert_eq!(permit.max_bytes(), usize::MAX, "small reads bring what they ask for");
                permit.done(1000);
                env.sleep(waited).await;
            }
            for class in heavy {
                let permit = permits.acquire(class, 2, SECOND).await.unwrap();
                assert_eq!(permit.max_bytes(), expected, "{class:?} {waited:?} after a small read");
            }
        }
    });
}
