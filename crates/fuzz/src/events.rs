//! Events and operations between front ends and the core.

use pollux_domain::event::{Event, Op};
use serde_json::Value;

/// What is read is written and read again without loss.
pub(crate) fn events(bytes: &[u8]) {
    let Ok(value) = serde_json::from_slice::<Value>(bytes) else { return };
    if let Ok(event) = Event::from_json(value.clone()) {
        let written = event.to_json();
        let again = Event::from_json(written.clone()).expect("a written event is read");
        assert_eq!(again.to_json(), written);
    }
    if let Ok(op) = Op::from_json(value) {
        let written = op.to_json();
        let again = Op::from_json(written.clone()).expect("a written operation is read");
        assert_eq!(again.to_json(), written);
    }
}
