//! Tests of what is counted per day.

use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::time::{SystemTime, UNIX_EPOCH};

/// Runs a test whose counters start again at midnight (UTC), and once more if that was meanwhile.
pub fn within_a_day(test: impl Fn()) {
    within(today, test);
}

fn within(today: impl Fn() -> u64, test: impl Fn()) {
    let began = today();
    let result = catch_unwind(AssertUnwindSafe(&test));
    match result {
        _ if today() != began => test(),
        Ok(()) => {}
        Err(panic) => resume_unwind(panic),
    }
}

fn today() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_secs() / (24 * 60 * 60)
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use super::*;

    #[test]
    fn a_test_is_repeated_once_if_the_day_ended_meanwhile() {
        for (days, runs) in [([1, 1], 1), ([1, 2], 2)] {
            let (looks, ran) = (Cell::new(0), Cell::new(0));
            let today = || days[looks.replace(looks.get() + 1)];
            within(today, || {
                ran.set(ran.get() + 1);
                assert!(ran.get() == runs, "the counters started again");
            });
            assert_eq!(ran.get(), runs);
        }
    }
}
