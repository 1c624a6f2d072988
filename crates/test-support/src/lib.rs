//! Shared test support: a scripted Gemini server and a temporary home to run the program in.
//!
//! Owns: [`FakeGemini`] with its replies and request log, [`validate_request`], [`TestHome`], an MCP server
//! that misbehaves on demand ([`mcp`]), a terminal emulator that shows what a user sees ([`Screen`]) and its
//! [`picture`], [`plot`]s, a model that speaks every wire ([`any_wire`]), a remote agent ([`a2a`]), a line that
//! disturbs replies ([`bad_line`]), an object
//! store ([`FakeBlobs`]), an editor ([`FakeCompanion`]), and a reader of exported telemetry ([`otlp`]). Also what keeps
//! tests apart from each other and from the machine: [`executable`], [`ClosedPort`], [`Listening`], [`git()`],
//! [`processes_in`] and [`within_a_day`].
//! Does not own: any production code; this crate is only a dev-dependency.
//! Start at [`FakeGemini::start`] and [`reply`].
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    reason = "a test whose scaffolding fails should stop right there"
)]

pub mod a2a;
pub mod any_wire;
pub mod bad_line;
mod blobs;
pub mod chance;
pub mod chat;
mod companion;
mod day;
mod executable;
mod gemini;
mod git;
mod home;
mod http;
pub mod mcp;
mod messages;
pub mod otlp;
pub mod picture;
pub mod plot;
mod ports;
mod processes;
mod responses;
mod screen;
mod terminal;
mod tls;
mod validate;
pub mod wires;

pub use blobs::{BlobFault, BlobTraffic, FakeBlobs};
pub use companion::FakeCompanion;
pub use day::within_a_day;
pub use executable::executable;
pub use gemini::reply::{Reply, reply};
pub use gemini::request::Request;
pub use gemini::{Exhausted, FakeGemini};
pub use git::{git, with_own_git};
pub use home::running::Running;
pub use home::{Run, TestHome, TestRun, program};
pub use http::{FakeHttp, HttpAnswer, HttpRequest};
pub use messages::{FakeMessages, MessagesReply, MessagesRequest, extends, validate_messages};
pub use ports::{ClosedPort, Listening};
pub use processes::processes_in;
pub use responses::{FakeResponses, ResponsesReply, responses_reply, validate_responses_request};
pub use screen::Screen;
pub use terminal::Terminal;
pub use tls::{SelfSigned, client_hello};
pub use validate::validate_request;
/// A window as the emulator has it.
pub use vt100::Screen as Window;
