//! Output of a run: folds of a session's events for people and programs.
//!
//! Owns: `text`, `json` and `stream-json` in both dialects, the statistics of a session, telemetry,
//! and [`Console`], which joins them to stdout and stderr.
//! Use it wherever a front end prints or counts what happens in a session. It never asks a question, reads no
//! settings and no environment, and does not run anything: events come in, bytes and exit codes go out.

mod console;
mod headless;
mod receipt;
mod stats;
pub mod telemetry;

pub use console::Console;
pub use headless::Style;
pub use receipt::{PriceOf, Receipt, digest};
pub use stats::{ApiCounts, Decisions, ModelStats, Stats, ToolTotals, millis};
