//! Language models behind the [`ModelClient`](pollux_domain::model::ModelClient) port.
//!
//! Owns: the Gemini API ([`gemini`]: wire format, streaming, retries, what errors mean), which model a
//! name means and how it is asked ([`catalogue`]), whose key is used ([`auth`]), replies from a file
//! ([`scripted`]) and into one ([`recording`]). Does not own: the turn loop, or whether a complete reply
//! is of any use (`agent`).
//! Start at [`gemini::GeminiClient`].

pub mod auth;
pub mod catalogue;
pub mod gemini;
pub mod recording;
pub mod scripted;
