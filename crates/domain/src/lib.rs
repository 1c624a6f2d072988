//! The shared types of Pollux and the ports of the agent.
//!
//! Owns: conversation content, tool and model ports, events, identifiers, exit codes, time, and how foreign
//! text is made harmless ([`terminal_text`], [`redact`]).
//! Does not own: any file format, network code, settings, or an async runtime.
//! Start at [`model::ModelClient`] and [`tool::Tool`]: the agent is written against these two traits,
//! and the crate `host` is the only place that joins them to real implementations.

pub mod address;
pub mod approval;
pub mod budget;
pub mod call_summary;
pub mod changes;
pub mod closed_names;
pub mod content;
pub mod editor;
pub mod embedding;
pub mod event;
pub mod exit;
pub mod failure;
pub mod file_view;
pub mod hex;
pub mod id;
pub mod json;
pub mod model;
pub mod panel;
pub mod path_display;
pub mod percent;
pub mod plural;
pub mod redact;
pub mod remote_agent;
pub mod sandbox;
pub mod secret_names;
pub mod session_observer;
pub mod session_title;
pub mod spelling;
pub mod sync;
pub mod terminal_screen;
pub mod terminal_text;
pub mod terminals;
pub mod text;
pub mod time;
pub mod tool;
pub mod untrusted;

use std::future::Future;
use std::pin::Pin;

/// A boxed future, so that ports stay object safe without a macro.
pub type BoxFuture<'a, T> = Pin<Box<dyn Future<Output = T> + Send + 'a>>;

/// A JSON object with its key order kept.
pub type JsonObject = serde_json::Map<String, serde_json::Value>;
