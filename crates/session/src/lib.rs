//! pollux-session
