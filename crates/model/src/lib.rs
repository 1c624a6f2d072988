//! pollux-model
