//! `anabranch slice`.

use clap::Subcommand;

const EXAMPLES: &str = "\
Examples:
  anabranch slice list plays
  anabranch slice show plays data_20260328
  anabranch slice show plays data_20260328 --output json

Partitions are measured by sampling: slices that take events now and then, every slice once more when it is sealed.";

/// Show slices, and how big their partitions are
#[derive(Debug, Subcommand)]
#[command(after_help = EXAMPLES, disable_help_subcommand = true)]
pub(crate) enum SliceCommand {
    /// List the slices of a namespace with the sizes of their partitions
    #[command(visible_alias = "ls")]
    List {
        /// Of which namespace
        namespace: String,
        /// Only so many, the latest of those whose time has begun
        #[arg(long, value_name = "COUNT", value_parser = clap::value_parser!(u32).range(1..))]
        latest: Option<u32>,
    },
    /// Show the partitions of one slice: percentiles, a histogram, the heaviest ids
    Show {
        /// Of which namespace
        namespace: String,
        /// Which slice: `data_20260328`
        slice: String,
    },
}
