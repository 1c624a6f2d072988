//! Numbers about the server, in the text format that Prometheus reads.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::fmt::Write as _;

/// Counters, and values that are asked for when they are read.
#[derive(Debug, Default)]
pub(crate) struct Metrics(RefCell<BTreeMap<&'static str, u64>>);

impl Metrics {
    pub(crate) fn count(&self, name: &'static str, more: u64) {
        *self.0.borrow_mut().entry(name).or_default() += more;
    }

    /// All counters, and these values.
    pub(crate) fn text(&self, gauges: &[(&str, usize)]) -> String {
        let mut text = String::new();
        for (name, value) in self.0.borrow().iter() {
            let _ = writeln!(text, "# TYPE pollux_a2a_{name}_total counter\npollux_a2a_{name}_total {value}");
        }
        for (name, value) in gauges {
            let _ = writeln!(text, "# TYPE pollux_a2a_{name} gauge\npollux_a2a_{name} {value}");
        }
        text
    }
}
