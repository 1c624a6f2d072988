//! pollux-net
