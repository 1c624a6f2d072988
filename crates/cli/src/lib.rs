//! pollux-cli
#![allow(dead_code, reason = "`wire.rs` joins these")]
mod launch; mod report; mod input; mod signals;
