//! The dashboard in a real Chromium, on a real server with real data.
#![allow(clippy::unwrap_used)] // a test that can't go on has failed

mod in_chromium;
