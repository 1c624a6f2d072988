//! pollux-tools
