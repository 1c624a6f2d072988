//! Integration tests with real hook scripts.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::disallowed_methods,
    reason = "tests fail by panicking, and write the files that the code under test must notice"
)]

#[path = "it/effects.rs"]
mod effects;
#[path = "it/endings.rs"]
mod endings;
#[path = "it/scene.rs"]
mod scene;
