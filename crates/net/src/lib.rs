//! Networking: the HTTP client, retries, credentials and sign-in.
//!
//! Owns: TLS, proxies and connection reuse ([`client`]), the retry schedule and the delays servers ask
//! for ([`backoff`]), what a failed transfer means ([`transport`]), where keys and sign-ins are kept
//! ([`credentials`]), signing in to servers ([`oauth`]) and with Google's credentials ([`google`]), what of
//! it a request carries ([`server_access`]), the events of a stream ([`sse`]), and fetching pages from public
//! servers only ([`guarded`], judged by [`address`]), encrypted texts ([`sealed`]), signed documents ([`jws`]) and tokens that clients of a server
//! show ([`access_tokens`]). Does not own: any endpoint's JSON beyond those of
//! signing in, the choice of credentials for the model, asking people.
//! Start at [`client::client`] and [`credentials::CredentialStore`].

pub mod access_tokens;
pub mod address;
pub mod backoff;
mod bearer;
pub mod client;
pub mod credentials;
pub mod google;
pub mod google_accounts;
pub mod guarded;
pub mod jws;
mod jwt;
pub mod oauth;
mod random;
pub mod sealed;
pub mod server_access;
pub mod sse;
pub mod transport;
