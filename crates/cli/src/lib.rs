//! pollux-cli
