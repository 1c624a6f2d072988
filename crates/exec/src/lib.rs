//! pollux-exec
