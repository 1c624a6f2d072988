//! The egress proxy of the sandbox: the only way out for commands without a network of their own.
//!
//! Owns: the grammar of hosts and patterns ([`host`], [`pattern`]), rules and decisions ([`rules`]), the check of
//! resolved addresses ([`resolve`]), the proxy itself ([`server`], [`proxy`]), questions about unlisted hosts
//! ([`question`]), the log and the denials ([`journal`]), the user's `sandbox.toml` ([`stored`]), package downloads
//! ([`preset`]) and the environment of commands ([`variables`]).
//! Does not own: namespaces, the listener inside them, dialogs, settings. Start at [`server::Server::start`].
//!
//! # How it is used
//!
//! The host, once per set of rights:
//!
//! 1. builds a [`rules::RuleSet`] from [`stored::StoredRules::parse`] (the user's file),
//!    [`stored::StoredRules::parse_project`] (denials only), settings and flags, and [`preset::rules`] if the user
//!    chose package downloads, and puts it into a [`rules::RuleBook`];
//! 2. fills [`proxy::ProxyOptions`]: an [`question::Asker`] that shows dialogs (none in a headless run), a
//!    [`stored::FileStore`] for "always", [`upstream::UpstreamProxies`] from the user's own `HTTPS_PROXY`, a
//!    [`journal::Journal`] with the session's log file, and a [`proxy::Identify`] that names commands by process id;
//! 3. starts a [`server::Server`]: on a Unix socket in a private folder where there are namespaces, otherwise on
//!    loopback with a token. It runs on a thread of its own and ends when it is dropped;
//! 4. calls [`server::Server::replace_rules`] when settings change, and reads [`journal::Journal::denials`] after each
//!    command. A grant takes effect at once; taking it back also ends open connections.
//!
//! The holder inside a namespace mounts the socket at `/run/pollux/net.sock`, listens on `127.0.0.1:3128` and copies
//! bytes both ways, one connection to the socket for each connection inside. It needs to understand nothing. Commands
//! get [`variables::variables`] for that port; at levels without namespaces, for [`variables::Endpoint::of`] the
//! server's address. If the proxy ends, the socket is closed and there is no other route.
//!
//! # What a connection goes through
//!
//! SOCKS 5 or HTTP, told apart by the first byte → host and port in canonical form → decision by the snapshot →
//! question if no rule matches → one look-up, all addresses checked → connection to a checked address → first bytes
//! checked: TLS must name the host, HTTP must name it in every request → bytes are copied. TLS is never opened, so two
//! things remain possible and are documented: fronting inside one provider, and sending data to an allowed host.

pub mod hello;
pub mod host;
pub mod http;
pub mod journal;
pub mod pattern;
pub mod preset;
pub mod proxy;
pub mod question;
pub mod resolve;
pub mod rules;
pub mod server;
pub mod socks;
pub mod stored;
pub mod upstream;
pub mod variables;
