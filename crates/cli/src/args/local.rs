//! Commands that need no server: `doctor`, `config`, `completions`.

use std::path::PathBuf;

use clap::Args;

use super::serve::ServerFlags;

const DOCTOR_EXAMPLES: &str = "\
Examples:
  anabranch doctor
  anabranch doctor --data /var/lib/anabranch --config /etc/anabranch.toml

Looks, and changes nothing; the server may be running. Ends with 1 when something must be mended.";

const CONFIG_EXAMPLES: &str = "\
Examples:
  anabranch config
  anabranch config --config /etc/anabranch.toml --output json
  anabranch config --data /var/lib/anabranch      # as `serve` has it with this flag
  anabranch config --reference                    # what can be set, in the server and in a namespace

Later ones win: default, file (--config, else ANABRANCH_CONFIG, else ./anabranch.toml if it is there), environment \
(`listen.grpc` is ANABRANCH_LISTEN_GRPC), flags of `serve`.";

const COMPLETIONS_EXAMPLES: &str = "\
Examples:
  anabranch completions bash > ~/.local/share/bash-completion/completions/anabranch
  anabranch completions zsh > ~/.zfunc/_anabranch
  anabranch completions fish > ~/.config/fish/completions/anabranch.fish";

/// Check the data directory and the configuration
#[derive(Clone, Debug, Args)]
#[command(after_help = DOCTOR_EXAMPLES)]
pub(crate) struct DoctorArgs {
    /// Settings (TOML) [default: ./anabranch.toml if it is there]
    #[arg(long, value_name = "FILE", env = "ANABRANCH_CONFIG", hide_env = true)]
    pub(crate) config: Option<PathBuf>,
    /// The data directory [default: the configured one]
    #[arg(long, value_name = "DIR")]
    pub(crate) data: Option<PathBuf>,
}

/// Print the server's configuration, and where each value came from
#[derive(Clone, Debug, Args)]
#[command(after_help = CONFIG_EXAMPLES)]
pub(crate) struct ConfigArgs {
    /// Print what can be set instead: every setting with its default, bounds and meaning, as a page in Markdown
    #[arg(long)]
    pub(crate) reference: bool,
    #[command(flatten)]
    pub(crate) server: ServerFlags,
}

/// Print a script that completes commands in your shell
#[derive(Clone, Debug, Args)]
#[command(after_help = COMPLETIONS_EXAMPLES)]
pub(crate) struct CompletionsArgs {
    /// Which shell
    pub(crate) shell: clap_complete::Shell,
}
