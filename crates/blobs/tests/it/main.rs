//! The contract of object stores, against every store we have and servers of others.
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a failed step is a failed test")]

mod contract;
mod faults;
mod folder;
mod peers;
mod scene;
