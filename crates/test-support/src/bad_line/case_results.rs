//! What came of many cases, tried by several threads.

use std::collections::BTreeMap;
use std::sync::Mutex;

use super::{Case, Fault};
use crate::wires::Wire;

/// Counts outcomes and keeps what is wrong with them.
#[derive(Debug, Default)]
pub struct CaseResults {
    counts: Mutex<BTreeMap<(Fault, &'static str), usize>>,
    failed: Mutex<Vec<String>>,
}

impl CaseResults {
    /// Takes the kind of one outcome and what is wrong with it.
    #[allow(clippy::print_stderr, reason = "a long run reports to a person")]
    pub fn note(&self, case: Case, kind: &'static str, wrong: &[String]) {
        *self.counts.lock().unwrap().entry((case.fault, kind)).or_default() += 1;
        if !wrong.is_empty() {
            let again = format!("POLLUX_CHAOS_SEED={} POLLUX_CHAOS_CASE={}", case.seed, case.name());
            let problem = format!("{again}\n  {}", wrong.join("\n  "));
            eprintln!("FAILED {problem}");
            self.failed.lock().unwrap().push(problem);
        }
    }

    /// Prints the counts.
    ///
    /// # Panics
    /// If a case failed.
    #[allow(clippy::print_stderr, reason = "a long run reports to a person")]
    pub fn report(self, wire: Wire) {
        let counts = self.counts.into_inner().unwrap();
        for ((fault, kind), count) in &counts {
            eprintln!("{:<10} {fault:<14?} {kind:<12} {count:>6}", wire.name());
        }
        let failed = self.failed.into_inner().unwrap();
        let all: usize = counts.values().sum();
        assert!(failed.is_empty(), "{} of {all} cases failed:\n{}", failed.len(), failed.join("\n"));
    }
}
