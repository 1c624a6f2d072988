//! How many streams are open.

use std::cell::{Cell, RefCell};
use std::collections::HashMap;
use std::rc::Rc;

use crate::error::{A2aError, ErrorKind};

/// Streams that an owner may have open.
const MAX_STREAMS: usize = 64;

/// Open streams by owner.
#[derive(Debug, Default)]
pub(crate) struct OpenStreams(RefCell<HashMap<String, Rc<Cell<usize>>>>);

/// One open stream.
pub(crate) struct Slot(Rc<Cell<usize>>);

impl OpenStreams {
    pub(crate) fn take(&self, owner: &str) -> Result<Slot, A2aError> {
        let count = Rc::clone(self.0.borrow_mut().entry(owner.to_owned()).or_default());
        if count.get() >= MAX_STREAMS {
            let text = format!("limit of {MAX_STREAMS} open streams reached");
            return Err(A2aError::new(ErrorKind::TooMany, text));
        }
        count.set(count.get() + 1);
        Ok(Slot(count))
    }

    /// All open streams.
    pub(crate) fn count(&self) -> usize {
        self.0.borrow().values().map(|count| count.get()).sum()
    }
}

impl Drop for Slot {
    fn drop(&mut self) {
        self.0.set(self.0.get().saturating_sub(1));
    }
}
