//! `anabranch demo`.

use clap::Args;

const EXAMPLES: &str = "\
Examples:
  anabranch demo
  anabranch demo --stay                                   # then look at the dashboard
  anabranch demo --store cassandra://127.0.0.1            # the same on a cluster

Starts a server of its own on a temporary directory, lets one series grow wide, and tells what happens to it and what reads \
cost before and after. It takes about a minute; Ctrl-C ends it. What it made is removed: the directory, or on a cluster its \
namespace.";

/// See a wide partition split itself, in a minute
#[derive(Clone, Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct DemoArgs {
    /// Keep the server and some traffic after the story, until Ctrl-C
    #[arg(long)]
    pub(crate) stay: bool,
    /// The store: `embedded` in a temporary directory, or `cassandra://HOST:PORT,HOST:PORT/PREFIX`
    #[arg(long, value_name = "URL", default_value = "embedded")]
    pub(crate) store: String,
    /// Address of the dashboard; port 0 takes any free one
    #[arg(long, value_name = "ADDRESS", default_value = "127.0.0.1:0")]
    pub(crate) http: String,
    /// Another seed makes other traffic
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub(crate) seed: u64,
}
