//! Language models behind the [`ModelClient`](pollux_domain::model::ModelClient) port.
//!
//! Owns: the wires ([`gemini`], [`chat`], [`messages`], [`responses`]), code that wires share (`http`, [`shared`]), the
//! table of wires ([`registry`]), provider configuration ([`providers`]), routing of requests by model name
//! ([`router`]), model aliases and facts ([`catalogue`]), Google credentials ([`auth`]), prompted tools ([`prompt_tools`]), scripted and recorded replies
//! ([`scripted`], [`recording`]). Does not own: the turn loop, or whether a complete reply can be used (`agent`).
//! Start at [`BUILT_IN_PROVIDERS`](pollux_domain::model::BUILT_IN_PROVIDERS) and [`registry::WIRES`]: a provider is a row of the first, a wire a row of the
//! second.

pub mod auth;
pub mod budget;
pub mod catalogue;
pub mod chat;
mod full_name;
#[doc(hidden)]
pub mod fuzzing;
pub mod gemini;
pub mod gguf;
mod http;
pub mod messages;
pub mod prompt_tools;
pub mod providers;
pub mod recording;
pub mod registry;
pub mod responses;
pub mod router;
pub mod scripted;
pub mod shared;
