//! `anabranch tune`.

use clap::{Args, Subcommand};

const EXAMPLES: &str = "\
Examples:
  anabranch tune history plays
  anabranch tune propose plays
  anabranch tune apply plays
  anabranch tune reject plays --reason \"the next release writes more\"
  anabranch namespace update plays --tuner apply

Only slices that no write can reach yet get other settings. What the tuner may do by itself is the namespace's setting \
`tuner`: off, propose or apply.";

/// Show what the slice tuner decided; propose, apply and reject other settings for slices to come
#[derive(Debug, Subcommand)]
#[command(after_help = EXAMPLES, disable_help_subcommand = true)]
pub(crate) enum TuneCommand {
    /// List what was decided, from which evidence, and what became of it
    History {
        /// Of which namespace
        namespace: String,
    },
    /// Let the tuner decide now
    Propose {
        /// For which namespace
        namespace: String,
    },
    /// Give slices to come the proposed settings
    Apply(DecideArgs),
    /// Say no to a proposal; the same isn't made again
    Reject {
        #[command(flatten)]
        which: DecideArgs,
        /// Why, for those who look later
        #[arg(long, value_name = "TEXT", default_value = "", hide_default_value = true)]
        reason: String,
    },
}

/// A proposal, and who decides over it.
#[derive(Debug, Args)]
pub(crate) struct DecideArgs {
    /// Of which namespace
    pub(crate) namespace: String,
    /// Which decision, as `anabranch tune history` numbers them [default: the one that waits]
    pub(crate) number: Option<u64>,
    /// Who decides, for those who look later
    #[arg(
        long,
        value_name = "NAME",
        env = "USER",
        hide_env = true,
        default_value = "operator",
        hide_default_value = true
    )]
    pub(crate) by: String,
}
