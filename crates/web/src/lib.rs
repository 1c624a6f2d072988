//! The page for browsers: shows the sessions of the resident core, and lets a user prompt, answer and stop.
//!
//! [`WebPages`] is what the core gets. It listens on loopback addresses from the first link on (`server.rs`), serves the
//! page and its interface (`site.rs`), and is one more front end of each session that a page shows (`stream.rs`). Who may
//! ask is decided in `rules.rs` and `access.rs`. It keeps no sessions (`resident`) and knows no HTTP below requests and
//! responses (`serve`).

mod access;
mod limits;
mod question;
mod rules;
mod server;
mod site;
mod stream;
mod view;

#[cfg(test)]
mod tests;

pub use server::WebPages;
