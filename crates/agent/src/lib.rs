//! pollux-agent
