//! What the slice tuner of a namespace may do.

use std::{fmt, str::FromStr};

use serde::{Deserialize, Serialize};

use crate::split::words;

/// What the slice tuner may do.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum TunerMode {
    /// Nothing.
    Off,
    /// Propose other settings, and leave it at that.
    #[default]
    Propose,
    /// Give slices that no write can reach yet the settings that it proposes.
    Apply,
}

words!(TunerMode, "mode of the tuner": Off = "off", Propose = "propose", Apply = "apply");
