//! Arguments of `anabranch bus`.

use std::path::PathBuf;

use clap::{Args, Subcommand};

const EXAMPLES: &str = "\
Examples:
  anabranch bus tail --bus kafka://10.0.0.3:9092
  anabranch bus tail --bus kafka://10.0.0.3:9092 --from-beginning --count 10 --output json

Nothing is taken from the workers: it reads beside them. Ctrl-C ends it.";

/// Look at the bus of detections
#[derive(Clone, Debug, Subcommand)]
pub(crate) enum BusCommand {
    /// Show detections of wide partitions as they pass on Kafka
    Tail(BusTailArgs),
}

/// Which bus, and from where on.
#[derive(Clone, Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct BusTailArgs {
    /// The bus: `kafka://HOST:PORT,HOST:PORT/TOPIC` [default: that of the configuration]
    #[arg(long, value_name = "URL")]
    pub(crate) bus: Option<String>,
    /// Settings (TOML) [default: ./anabranch.toml if it is there]
    #[arg(long, value_name = "FILE", env = "ANABRANCH_CONFIG", hide_env = true)]
    pub(crate) config: Option<PathBuf>,
    /// Begin with the oldest that the broker has
    #[arg(long)]
    pub(crate) from_beginning: bool,
    /// End after so many
    #[arg(long, value_name = "N")]
    pub(crate) count: Option<u64>,
}
