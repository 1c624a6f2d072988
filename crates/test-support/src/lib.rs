//! pollux-test-support
