//! `anabranch namespace`.

use std::{path::PathBuf, time::Duration};

use clap::{Args, Subcommand};

use super::settings::SettingArgs;
use crate::times::parse_duration;

const EXAMPLES: &str = "\
Examples:
  anabranch namespace create plays
  anabranch namespace create plays --delete-after 90d --seconds-per-slice 1d --seconds-per-bucket 6h
  anabranch namespace create plays --plan plan.toml
  anabranch namespace show plays
  anabranch namespace update plays --accept-limit 48h
  anabranch namespace delete plays
  anabranch namespace list --deleted
  anabranch namespace restore plays";

const UPDATE_EXAMPLES: &str = "\
Examples:
  anabranch namespace update plays --accept-limit 48h
  anabranch namespace update plays --clear delete-after --clear close-after
  anabranch namespace update plays --tuner apply

What decides which events are accepted, and where they go, comes into force a moment later, everywhere at once.";

/// Create, list, show, change and delete namespaces
#[derive(Debug, Subcommand)]
#[command(after_help = EXAMPLES, disable_help_subcommand = true)]
pub(crate) enum NamespaceCommand {
    /// Create a namespace
    Create(Box<CreateArgs>),
    /// List all namespaces
    #[command(visible_alias = "ls")]
    List {
        /// Those that were deleted and can still be restored, instead
        #[arg(long)]
        deleted: bool,
    },
    /// Show a namespace: settings, slices, backfill windows
    Show {
        /// Which one
        name: String,
    },
    /// Change settings of a namespace
    Update(Box<UpdateArgs>),
    /// Delete a namespace and everything in it
    Delete(DeleteArgs),
    /// Bring back a deleted namespace, as long as its grace isn't over
    Restore {
        /// Which one
        name: String,
    },
}

/// Create a namespace
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct CreateArgs {
    /// Its name: a-z, 0-9 and _, beginning with a letter
    pub(crate) name: String,
    /// Take the settings of a plan, or plan for a description (`anabranch plan --help`); other flags win
    #[arg(long, value_name = "FILE")]
    pub(crate) plan: Option<PathBuf>,
    #[command(flatten)]
    pub(crate) settings: SettingArgs,
}

/// Change settings of a namespace
#[derive(Debug, Args)]
#[command(after_help = UPDATE_EXAMPLES)]
pub(crate) struct UpdateArgs {
    /// Which one
    pub(crate) name: String,
    #[command(flatten)]
    pub(crate) settings: SettingArgs,
    /// Set a setting back to its default (may be repeated): `delete-after`, `page-limits`, `block-list`
    #[arg(long, value_name = "SETTING")]
    pub(crate) clear: Vec<String>,
}

/// Delete a namespace and everything in it
#[derive(Debug, Args)]
pub(crate) struct DeleteArgs {
    /// Which one
    pub(crate) name: String,
    /// How long it can be restored, and everything in it is kept; 0s: not at all [default: the server's, 1d]
    #[arg(long, value_name = "TIME", value_parser = parse_duration)]
    pub(crate) grace: Option<Duration>,
    /// Don't ask: needed where there is no terminal to ask on
    #[arg(long)]
    pub(crate) yes: bool,
}
