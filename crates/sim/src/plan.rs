//! What a seed decides before anything runs: how many servers, how bad the weather, which namespaces and settings.

use std::time::Duration;

use anabranch_engine::{EngineOptions, SplitOptions, TuningOptions};
use anabranch_model::{
    NamespaceConfig, NamespaceName, Packing, PageLimits, Slo, SplitSettings, SplitStrategy, TimeSeriesId, Timestamp,
    WriteLimits,
};
use anabranch_split::{RouterOptions, WorkOptions};
use anabranch_store::PermitOptions;

use crate::dice::Dice;

/// How far clocks of servers may differ.
pub(crate) const MAX_CLOCK_SKEW: Duration = Duration::from_millis(500);

/// The world of one seed.
pub(crate) struct Plan {
    pub(crate) start: Timestamp,
    /// How long clients work, in virtual time.
    pub(crate) length: Duration,
    pub(crate) servers: usize,
    pub(crate) writers: usize,
    pub(crate) readers: usize,
    pub(crate) admins: usize,
    /// The longest pause between two requests of a client.
    pub(crate) pause: Duration,
    pub(crate) ordered_partitions: bool,
    pub(crate) sync_latency: Duration,
    pub(crate) weather: Weather,
    pub(crate) options: EngineOptions,
    pub(crate) namespaces: Vec<(NamespaceName, NamespaceConfig)>,
}

/// How often what goes wrong; chances are in 100,000 and count per store call where nothing else is said.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Weather {
    pub(crate) name: &'static str,
    /// Most calls take up to this long.
    pub(crate) latency: Duration,
    /// Changes of tables and metadata take up to this long on top.
    pub(crate) change_latency: Duration,
    pub(crate) slow: u64,
    pub(crate) slow_latency: Duration,
    pub(crate) unavailable: u64,
    /// The answer is lost; a change was made, or not, or is made later.
    pub(crate) lost: u64,
    pub(crate) hangs: u64,
    pub(crate) server_crash: u64,
    pub(crate) short_pages: u64,
    /// A page says that more may follow though nothing does.
    pub(crate) vain_more: u64,
    /// Of client requests: the answer doesn't arrive.
    pub(crate) unanswered: u64,
    /// Whether replicas of the store may differ.
    pub(crate) replicas: bool,
    /// Whether clocks go wrong, further than they may.
    pub(crate) clocks: bool,
    /// Of calls of the bus.
    pub(crate) bus: u64,
    /// The server stands still for a while.
    pub(crate) pauses: u64,
    pub(crate) longest_pause: Duration,
    /// How long a server lives at most before it is ended from outside.
    pub(crate) server_life: Duration,
    /// How often the store itself crashes.
    pub(crate) store_life: Option<Duration>,
}

impl Weather {
    /// Nothing goes wrong.
    pub(crate) const CALM: Weather = Weather {
        name: "calm",
        latency: Duration::from_millis(1),
        change_latency: Duration::ZERO,
        slow: 0,
        slow_latency: Duration::ZERO,
        unavailable: 0,
        lost: 0,
        hangs: 0,
        server_crash: 0,
        short_pages: 0,
        vain_more: 0,
        unanswered: 0,
        replicas: false,
        clocks: false,
        bus: 0,
        pauses: 0,
        longest_pause: Duration::ZERO,
        server_life: Duration::from_secs(100_000),
        store_life: None,
    };

    fn draw(dice: &Dice) -> Weather {
        let seconds = |least, most| Duration::from_secs(dice.between(least, most));
        let mild = Weather {
            name: "mild",
            latency: dice.millis(0, 8),
            change_latency: Duration::from_millis(dice.pick(&[0, 20, 300])),
            slow: 200,
            slow_latency: dice.millis(50, 1500),
            short_pages: dice.pick(&[0, 3000, 30_000]),
            server_life: seconds(100, 1000),
            ..Weather::CALM
        };
        match dice.below(10) {
            0 | 1 => mild,
            2..=6 => Weather {
                name: "windy",
                unavailable: dice.pick(&[0, 300, 1500]),
                lost: dice.pick(&[300, 2000]),
                hangs: dice.pick(&[0, 50]),
                server_crash: dice.pick(&[0, 20, 60]),
                vain_more: dice.pick(&[0, 2000]),
                unanswered: dice.pick(&[0, 1000]),
                replicas: dice.percent(50),
                clocks: dice.percent(30),
                bus: dice.pick(&[0, 20_000]),
                pauses: dice.pick(&[0, 5, 20]),
                longest_pause: seconds(3, 30),
                server_life: seconds(30, 300),
                store_life: dice.percent(60).then(|| seconds(20, 120)),
                ..mild
            },
            _ => Weather {
                name: "stormy",
                latency: dice.millis(1, 30),
                slow: 1000,
                slow_latency: dice.millis(500, 6000),
                unavailable: dice.pick(&[1000, 6000]),
                lost: dice.pick(&[1000, 8000]),
                hangs: dice.pick(&[0, 300]),
                server_crash: dice.pick(&[60, 250]),
                vain_more: dice.pick(&[0, 5000]),
                unanswered: dice.pick(&[500, 3000]),
                replicas: dice.percent(50),
                clocks: dice.percent(30),
                bus: dice.pick(&[10_000, 50_000]),
                pauses: dice.pick(&[0, 10, 30]),
                longest_pause: seconds(3, 30),
                server_life: seconds(15, 90),
                store_life: dice.percent(80).then(|| seconds(8, 60)),
                ..mild
            },
        }
    }
}

impl Plan {
    pub(crate) fn draw(dice: &Dice, start: Timestamp) -> Plan {
        let namespaces = (0..dice.between(1, 3)).map(|at| {
            let name = NamespaceName::new(format!("n{at}")).expect("letters and digits");
            (name, draw_config(dice))
        });
        Plan {
            start,
            namespaces: namespaces.collect(),
            length: Duration::from_secs(dice.between(100, 300)),
            servers: dice.pick(&[1, 2, 2, 3, 3]),
            writers: dice.between(2, 4) as usize,
            readers: dice.between(2, 3) as usize,
            admins: dice.between(1, 3) as usize,
            pause: dice.millis(500, 5000),
            ordered_partitions: dice.percent(60),
            sync_latency: Duration::from_millis(dice.pick(&[0, 2, 20, 150])),
            weather: Weather::draw(dice),
            options: draw_options(dice),
        }
    }

    pub(crate) fn describe(&self) -> String {
        format!(
            "{} servers, {} writers, {} readers, {} weather, {}ordered partitions, sync up to {:?}, {} namespaces, {:?}",
            self.servers,
            self.writers,
            self.readers,
            self.weather.name,
            if self.ordered_partitions { "" } else { "un" },
            self.sync_latency,
            self.namespaces.len(),
            self.length,
        )
    }
}

fn draw_options(dice: &Dice) -> EngineOptions {
    EngineOptions {
        refresh_interval: dice.millis(500, 1000),
        max_clock_skew: MAX_CLOCK_SKEW,
        lease: Duration::from_secs(2), // slices are short, too
        lifecycle_interval: dice.millis(2000, 10_000),
        meta_timeout: dice.millis(500, 5000),
        table_timeout: dice.millis(1000, 10_000),
        max_write_bytes_in_flight: dice.pick(&[8 << 10, 64 << 20]),
        queue_events: dice.pick(&[10, 1000]),
        queue_bytes: dice.pick(&[4 << 10, 1 << 20]),
        drain_timeout: Duration::from_secs(30),
        max_reads_in_flight: dice.pick(&[1, 4, 256]),
        max_reads_waiting: dice.pick(&[2, 256]),
        permits: PermitOptions {
            in_flight: dice.pick(&[2, 16, 128]),
            heavy_in_flight: dice.pick(&[1, 8]),
            heavy_at_least: 1,
            heavy_bytes_beside: 2 << 10,
            waiting: dice.pick(&[200, 4096]),
        },
        max_fan_out: dice.pick(&[1, 2, 8, 64]),
        splits: draw_split_options(dice),
        bus_capacity: 0, // there is one for all servers
        orphans_after: Duration::ZERO,
        delete_grace: Duration::ZERO,
        tuning: TuningOptions::off(),
    }
}

/// Small steps, so that much can come between them.
fn draw_split_options(dice: &Dice) -> SplitOptions {
    let seconds = |of: &[u64]| Duration::from_secs(dice.pick(of));
    SplitOptions {
        concurrent: dice.pick(&[1, 2, 3]),
        bytes_per_second: dice.pick(&[32 << 10, 256 << 10, 64 << 20]),
        work: WorkOptions {
            checkpoint_bytes: dice.pick(&[2 << 10, 8 << 10, 32 << 10]),
            lease: seconds(&[3, 6, 15]),
            fetch_bytes: dice.pick(&[512, 2 << 10, 8 << 10]),
            batch_bytes: dice.pick(&[256, 2 << 10, 8 << 10]),
            call_timeout: dice.millis(500, 5000),
            max_attempts: dice.pick(&[3, 10, 50]),
            first_retry: dice.millis(100, 2000),
            longest_retry: seconds(&[2, 10]),
        },
        sweep_interval: dice.millis(2000, 8000),
        scrub_interval: seconds(&[20, 60, 1000]),
        extend_interval: seconds(&[5, 20, 60]),
        max_due: dice.pick(&[20, 1000]),
        max_doubts: dice.pick(&[2, 64]),
        router: RouterOptions {
            believe: dice.millis(0, 1000),
            max_records: dice.pick(&[2, 1000]),
            max_pieces: dice.pick(&[5, 10_000]),
            max_fallbacks: dice.pick(&[2, 10, 1000]),
            fallback_window: Duration::from_secs(10),
            rest: seconds(&[2, 20]),
        },
        block_cache_bytes: dice.pick(&[0, 4 << 10, 1 << 20]),
    }
}

fn draw_split_settings(dice: &Dice) -> SplitSettings {
    SplitSettings {
        threshold_bytes: dice.pick(&[4 << 10, 4 << 10, 8 << 10]),
        target_piece_bytes: dice.pick(&[1 << 10, 2 << 10, 4 << 10]),
        detect: dice.percent(90),
        strategy: if dice.percent(25) { SplitStrategy::EventBucket } else { SplitStrategy::TimeRange },
        packing: dice.pick(&[Packing::Rows, Packing::Plain, Packing::Lz4, Packing::Lz4, Packing::Zstd]),
        block_bytes: dice.pick(&[256, 1 << 10, 4 << 10]),
        compare_percent: dice.pick(&[0, 30, 100]),
        promote: dice.percent(70),
        promote_comparisons: dice.pick(&[1, 5, 50]),
        promote_over: Duration::from_secs(dice.pick(&[0, 20])),
        must_pay: dice.percent(20),
    }
}

/// Settings as small as they may be, so that much happens in minutes. They always obey the rules.
pub(crate) fn draw_config(dice: &Dice) -> NamespaceConfig {
    let seconds = |of: &[u64]| Duration::from_secs(dice.pick(of));
    // Most have long buckets that are sealed soon, so that some partitions become wide.
    let wide = dice.percent(70);
    let seconds_per_slice = if wide { dice.pick(&[180, 300, 300, 600]) } else { dice.pick(&[60, 120, 180, 300]) };
    let accept_limit = if wide { seconds(&[5, 10, 20, 40]) } else { seconds(&[20, 45, 90, 150]) };
    let write_max = Duration::from_millis(dice.pick(&[700, 2500, 4000]));
    let read_max = Duration::from_millis(dice.pick(&[400, 2000, 5000]));
    let seal_margin = write_max + MAX_CLOCK_SKEW + seconds(&[0, 3]);
    let closes = dice.percent(if wide { 30 } else { 60 });
    let close_after = closes.then(|| accept_limit + seal_margin + seconds(&[0, 0, 10, 40]));
    let gap = read_max.max(write_max) + Duration::from_secs(5);
    let delete_after = close_after.filter(|_| dice.percent(70)).map(|close| close + gap + seconds(&[0, 0, 20]));
    let max_page_bytes = dice.pick(&[1024, 3000, 20_000]);
    let max_page_size = dice.pick(&[3, 20, 100]);
    NamespaceConfig {
        seconds_per_slice,
        seconds_per_bucket: if wide { dice.pick(&[30, 60, 120, 180]) } else { dice.pick(&[3, 7, 10, 30, 60]) },
        event_buckets: if wide { dice.pick(&[1, 1, 2]) } else { dice.pick(&[1, 1, 2, 3, 5]) },
        accept_limit,
        drift_limit: seconds(&[0, 2, 15, 70]),
        close_after,
        delete_after,
        seal_margin,
        slices_ahead: dice.pick(&[1, 2]),
        read_slo: Slo { target: read_max / 2, max: read_max },
        write_slo: Slo { target: write_max / 2, max: write_max },
        page_limits: PageLimits {
            default_page_size: dice.between(1, u64::from(max_page_size)) as u32,
            max_page_size,
            default_page_bytes: dice.between(1024, max_page_bytes),
            max_page_bytes,
            max_record_bytes: dice.pick(&[1024, 1024, 1500, 4000]),
            partial_at_target: dice.percent(30),
        },
        write_limits: WriteLimits {
            max_events_per_request: 12,
            max_request_bytes: 64 << 10,
            max_items_per_event: 20,
            max_item_bytes: 900,
            max_id_bytes: 32,
        },
        split: draw_split_settings(dice),
        ..NamespaceConfig::default()
    }
}

/// Series of a namespace: a few hot ones, many cold ones, and one that is blocked now and then.
pub(crate) const SERIES: usize = 10;
pub(crate) const HOT_SERIES: usize = 2;
pub(crate) const BLOCKABLE: usize = SERIES - 1;

/// The name of a series. Some begin with the name of another, which must not confuse anybody.
pub(crate) fn series_id(at: usize) -> TimeSeriesId {
    const NAMES: [&str; SERIES] = ["s", "s1", "s11", "profile:7", "profile:77", "é", "a b", "~", "S", "blocked"];
    TimeSeriesId::new(NAMES[at]).expect("plain texts")
}

/// A series, hot ones more often.
pub(crate) fn draw_series(dice: &Dice) -> TimeSeriesId {
    let hot = dice.percent(70);
    series_id(dice.below(if hot { HOT_SERIES } else { SERIES } as u64) as usize)
}
