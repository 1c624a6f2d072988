//! Fuzz targets: one function per reader of hostile input, with the property that must hold for any bytes.
//!
//! The test `it` runs every file of `corpus/` and a fixed number of mutations of them. `scripts/fuzz.sh` runs a target
//! with coverage for as long as you like. A target panics when its property does not hold.

#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a target that cannot go on has a finding")]

mod a2a;
mod archives;
#[cfg(feature = "clients")]
mod clients;
mod config;
mod events;
mod hooks;
mod hosts;
mod markup;
pub mod mutation;
mod painting;
mod pieces;
mod policy;
mod scratch;
mod servers;
mod session;
mod streams;

/// One reader and its property.
pub struct Target {
    pub name: &'static str,
    pub run: fn(&[u8]),
    /// How many mutations a test run tries; fewer where a case starts a process or writes many files.
    pub cases: u32,
}

const fn target(name: &'static str, cases: u32, run: fn(&[u8])) -> Target {
    Target { name, run, cases }
}

/// All targets. README.md states the property of each.
pub const TARGETS: &[Target] = &[
    target("a2a", 2000, a2a::updates),
    target("archive", 300, archives::unpack_any),
    target("chat", 1000, streams::chat),
    target("dotenv", 1000, config::dotenv),
    target("events", 2000, events::events),
    target("frontmatter", 1000, markup::front_matter),
    target("gemini", 1000, streams::gemini),
    target("hooks", 2000, hooks::answers),
    target("host", 3000, hosts::host),
    target("http", 3000, hosts::http),
    target("mcp", 1000, servers::mcp),
    target("messages", 1000, streams::messages),
    target("painting", 150, painting::screen),
    target("pattern", 100, policy::pattern),
    target("responses", 1000, streams::responses),
    #[cfg(feature = "clients")]
    target("rpc", 2000, clients::rpc),
    target("rules", 200, policy::rules),
    target("session", 150, session::files),
    target("settings", 150, config::settings),
    target("shell", 60, policy::shell),
    target("socks", 3000, hosts::socks),
    target("sse", 3000, streams::sse),
];

/// The target of this name.
pub fn find(name: &str) -> Option<&'static Target> {
    TARGETS.iter().find(|target| target.name == name)
}
