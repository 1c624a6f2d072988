//! The fuzz targets' checks, with proptest in place of a fuzzer.

use proptest::prelude::*;

use crate::grammar::{self, command, expression_agrees};

/// How many cases; `POLLUX_FUZZ_CASES` overrides it.
#[expect(clippy::disallowed_methods, reason = "how long to search is up to who runs the tests")]
fn cases() -> u32 {
    std::env::var("POLLUX_FUZZ_CASES").ok().and_then(|text| text.parse().ok()).unwrap_or(256)
}

fn config() -> ProptestConfig {
    ProptestConfig {
        cases: cases(),
        failure_persistence: None,
        max_shrink_iters: 400,
        ..ProptestConfig::default()
    }
}

proptest! {
    #![proptest_config(config())]

    #[test]
    fn when_the_engine_allows_only_allowed_commands_run(bytes in prop::collection::vec(any::<u8>(), 2..40)) {
        let command = command(&bytes);
        if let Err(finding) = grammar::nothing_else_runs(&command) {
            prop_assert!(false, "{command:?}: {finding}");
        }
    }

    #[test]
    fn a_regex_matches_what_backtracking_matches(bytes in prop::collection::vec(any::<u8>(), 2..40)) {
        if let Err(finding) = expression_agrees(&bytes) {
            prop_assert!(false, "{finding}");
        }
    }
}
