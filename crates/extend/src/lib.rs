//! pollux-extend
