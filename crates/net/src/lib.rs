//! The way out of the machine: one HTTP client, when to try again, and stored keys.
//!
//! Owns: TLS, proxies and connection reuse ([`client`]), the retry schedule and the delays servers ask
//! for ([`backoff`]), what a failed transfer means ([`transport`]), reading credentials that gemini-cli
//! stored ([`credentials`]), and fetching pages from public servers only ([`guarded`], judged by
//! [`address`]). Does not own: any endpoint's JSON, nor the choice of credentials.
//! Start at [`client::client`].

pub mod address;
pub mod backoff;
pub mod client;
pub mod credentials;
pub mod guarded;
pub mod transport;
