//! The way out of the machine: one HTTP client, when to try again, and stored keys.
//!
//! Owns: TLS, proxies and connection reuse ([`client`]), the retry schedule and the delays servers ask
//! for ([`backoff`]), what a failed transfer means ([`transport`]), and reading credentials that
//! gemini-cli stored ([`credentials`]). Does not own: any endpoint's JSON, nor the choice of credentials.
//! Start at [`client::client`].

pub mod backoff;
pub mod client;
pub mod credentials;
pub mod transport;
