//! `anabranch block`.

use std::time::Duration;

use clap::{Args, Subcommand};

use crate::times::parse_duration;

const EXAMPLES: &str = "\
Examples:
  anabranch block add plays profile:123 --reason \"runaway client\"
  anabranch block add plays profile:123 profile:124 --writes --for 2h
  anabranch block list plays
  anabranch block remove plays profile:123

Every server refuses a blocked series within a second, and says since when it is blocked and why.";

/// Refuse writes, reads or both of single series
#[derive(Debug, Subcommand)]
#[command(after_help = EXAMPLES, disable_help_subcommand = true)]
pub(crate) enum BlockCommand {
    /// Refuse series
    Add(AddArgs),
    /// Take series off the block list
    #[command(visible_alias = "rm")]
    Remove {
        /// In which namespace
        namespace: String,
        /// Which series
        #[arg(required = true)]
        series: Vec<String>,
    },
    /// List the series that are refused
    #[command(visible_alias = "ls")]
    List {
        /// Of which namespace
        namespace: String,
    },
}

/// Refuse series
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct AddArgs {
    /// In which namespace
    pub(crate) namespace: String,
    /// Which series
    #[arg(required = true)]
    pub(crate) series: Vec<String>,
    /// Refuse only writes
    #[arg(long, conflicts_with = "reads")]
    pub(crate) writes: bool,
    /// Refuse only reads
    #[arg(long)]
    pub(crate) reads: bool,
    /// Why, for whoever meets the refusal
    #[arg(long, value_name = "TEXT", default_value = "", hide_default_value = true)]
    pub(crate) reason: String,
    /// How long to refuse [default: until removed]
    #[arg(long = "for", value_name = "TIME", value_parser = parse_duration)]
    pub(crate) length: Option<Duration>,
}
