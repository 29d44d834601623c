//! The command line: what may be typed, and its help. What commands do is in `commands`.

mod advise;
mod backfill;
mod block;
mod bus;
mod count;
mod demo;
mod import;
mod load;
mod local;
mod namespace;
mod observe;
mod plan;
mod read;
mod retention;
mod serve;
mod settings;
mod slice;
mod split;
mod tune;
mod write;

use std::{path::PathBuf, time::Duration};

use clap::{Args, Parser, Subcommand, ValueEnum};

pub(crate) use advise::AdviseArgs;
pub(crate) use backfill::{BackfillCommand, OpenArgs};
pub(crate) use block::{AddArgs, BlockCommand};
pub(crate) use bus::{BusCommand, BusTailArgs};
pub(crate) use count::CountArgs;
pub(crate) use demo::DemoArgs;
pub(crate) use import::{FileFormat, ImportArgs};
pub(crate) use load::LoadArgs;
pub(crate) use local::{CompletionsArgs, ConfigArgs, DoctorArgs};
pub(crate) use namespace::{DeleteArgs, NamespaceCommand, UpdateArgs};
pub(crate) use observe::{HeatMapArgs, Measure, OverviewArgs, SeriesArgs, TopArgs};
pub(crate) use plan::PlanArgs;
pub(crate) use read::ReadArgs;
pub(crate) use retention::RetentionArgs;
pub(crate) use serve::{ServeArgs, ServerFlags, WorkerArgs};
pub(crate) use settings::SettingArgs;
pub(crate) use slice::SliceCommand;
pub(crate) use split::{ListArgs, ModeArgs, ShowArgs, SplitCommand, VerifyArgs, WhichArgs};
pub(crate) use tune::TuneCommand;
pub(crate) use write::{BatchArgs, FlagItem, ValueSource, WriteArgs};

use crate::times;

const EXAMPLES: &str = "\
Examples:
  anabranch demo                                # a wide partition splits itself, in a minute
  anabranch serve                               # data in ./anabranch-data
  anabranch namespace create plays
  anabranch write plays --series profile:123 --item title=Dark
  anabranch read plays profile:123
  anabranch import plays --file history.csv     # old events, too

Exit codes:
  0  done
  1  failed
  2  the command line is wrong
  3  not found: a namespace, a backfill window, a split, a file
  4  the input is wrong: refused by the server, or a file that can't be understood
  5  no answer from the server, or not in time; trying again may help
  6  something couldn't be compared (split verify): nothing is proven of it

Environment:
  ANABRANCH_SERVER      what --server says
  ANABRANCH_TLS_CA      what --tls-ca says
  ANABRANCH_CONFIG      what --config says (serve, worker, doctor, config)
  ANABRANCH_<SETTING>   settings of the server; `anabranch config` lists them
  NO_COLOR              no colours

Each command has its own --help, with examples.";

const TASKS_EXAMPLES: &str = "\
Examples:
  anabranch tasks
  anabranch tasks --output json

When each last ran, what it did, and what failed. They are those of the one server that is asked.";

/// A store for time-series events: every series has a history, read latest first.
#[derive(Debug, Parser)]
#[command(name = "anabranch", version, after_help = EXAMPLES, max_term_width = 120)]
#[command(arg_required_else_help = true, subcommand_required = true, disable_help_subcommand = true)]
pub(crate) struct Cli {
    #[command(flatten)]
    pub(crate) global: Global,
    #[command(subcommand)]
    pub(crate) command: Command,
}

/// What every command understands.
#[derive(Clone, Debug, Args)]
#[command(next_help_heading = "Global options")]
pub(crate) struct Global {
    /// The server to talk to, or several that share a store, separated by commas
    #[arg(long, global = true, value_name = "URL", env = "ANABRANCH_SERVER", hide_env = true)]
    #[arg(default_value = "http://127.0.0.1:7400")]
    pub(crate) server: String,
    /// Certificates to trust for an https:// server (PEM)
    #[arg(long, global = true, value_name = "FILE", env = "ANABRANCH_TLS_CA", hide_env = true)]
    pub(crate) tls_ca: Option<PathBuf>,
    /// How to print answers: `table` for people, `json` and `jsonl` for programs; `toml` for plans
    #[arg(long, short, global = true, value_name = "FORMAT", default_value = "table", hide_possible_values = true)]
    pub(crate) output: OutputChoice,
    /// When to use colours: `auto` (on a terminal), `always` or `never`
    #[arg(long, global = true, value_name = "WHEN", default_value = "auto", hide_possible_values = true)]
    pub(crate) color: ColorChoice,
    /// How long one request may take
    #[arg(long, global = true, value_name = "TIME", default_value = "30s", value_parser = times::parse_duration)]
    pub(crate) timeout: Duration,
}

/// How to print answers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum OutputChoice {
    #[value(alias = "text")]
    Table,
    Json,
    Jsonl,
    /// Only for plans, which are files to be edited.
    Toml,
}

/// When to use colours.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum ColorChoice {
    Auto,
    Always,
    Never,
}

/// Every command.
#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// See a wide partition split itself, in a minute
    Demo(DemoArgs),
    /// Run a server on a data directory, or on a cluster
    Serve(ServeArgs),
    /// Create, list, show, change and delete namespaces
    #[command(subcommand, visible_alias = "ns")]
    Namespace(NamespaceCommand),
    /// Work out the settings of a namespace from what is known of its workload
    Plan(Box<PlanArgs>),
    /// Look at a table of Cassandra that is already there, and say what splitting would make of it
    Advise(Box<AdviseArgs>),
    /// Write one event, or many from JSON lines
    Write(Box<WriteArgs>),
    /// Read a history, latest first
    Read(Box<ReadArgs>),
    /// Count what histories hold, by time, series or the value of an item
    Count(Box<CountArgs>),
    /// Import a history from CSV or JSON lines, however old
    Import(Box<ImportArgs>),
    /// Open, close and list windows for old events
    #[command(subcommand)]
    Backfill(BackfillCommand),
    /// Refuse writes, reads or both of single series
    #[command(subcommand)]
    Block(BlockCommand),
    /// Show or change how long events are kept, and say beforehand what that does
    Retention(RetentionArgs),
    /// Show, request, retry, give up and verify splits; set how far reads trust them
    #[command(subcommand)]
    Split(SplitCommand),
    /// Send made-up traffic to a server, and measure it
    Load(Box<LoadArgs>),
    /// Look at the bus of detections
    #[command(subcommand)]
    Bus(BusCommand),
    /// Show what needs a person, and how each namespace fares
    Overview(OverviewArgs),
    /// Watch rates, latencies, splits and tasks of a server
    Top(TopArgs),
    /// Show the partitions of a series, how big they are and which are split
    Series(SeriesArgs),
    /// Show where ids are read and written most
    #[command(name = "heatmap")]
    HeatMap(HeatMapArgs),
    /// Show slices, and how big their partitions are
    #[command(subcommand)]
    Slice(SliceCommand),
    /// Show what the slice tuner decided; propose, apply and reject other settings for slices to come
    #[command(subcommand)]
    Tune(TuneCommand),
    /// Show what the background tasks of a server do
    #[command(after_help = TASKS_EXAMPLES)]
    Tasks,
    /// Split wide partitions on a shared store, and serve nobody
    Worker(WorkerArgs),
    /// Check the data directory and the configuration
    Doctor(DoctorArgs),
    /// Print the server's configuration, and where each value came from
    Config(ConfigArgs),
    /// Print a script that completes commands in your shell
    Completions(CompletionsArgs),
}
