//! Language models behind the [`ModelClient`](pollux_domain::model::ModelClient) port.
//!
//! Owns: the Gemini API ([`gemini`]: words, wire format, what errors mean), OpenAI's Chat Completions and the many
//! servers that speak it ([`chat`]), what providers over HTTP share (`http`: sending, retries, streams; [`shared`]:
//! what the wires other than Gemini's have in common), which providers there are and which of them a model's name leads to
//! ([`registry`]), which model a name means and how it is asked ([`catalogue`]), whose key is used ([`auth`]),
//! replies from a file ([`scripted`]) and into one ([`recording`]). Does not own: the turn loop, or whether a
//! complete reply is of any use (`agent`).
//! Start at [`registry::PROVIDERS`]; a provider is a module like [`gemini`] and a row in that table.

pub mod auth;
pub mod budget;
pub mod catalogue;
pub mod chat;
pub mod gemini;
mod http;
pub mod recording;
pub mod registry;
pub mod responses;
pub mod scripted;
pub mod shared;
