//! The connection to a companion, with one that checks requests as the one of VS Code does.

#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test may panic: that is how it fails")]

mod it {
    mod connection;
    mod real_sdk;
}
