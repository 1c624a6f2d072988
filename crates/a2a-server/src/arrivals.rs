//! Messages that are being taken, by owner.

use std::cell::{Cell, RefCell};
use std::collections::HashMap;
use std::rc::Rc;

/// How many messages of each owner are being taken.
#[derive(Debug, Default)]
pub(crate) struct Arrivals(RefCell<HashMap<String, Rc<Cell<usize>>>>);

/// One message that is being taken.
#[derive(Debug)]
pub(crate) struct ArrivalPlace(Rc<Cell<usize>>);

impl Arrivals {
    pub(crate) fn take(&self, owner: &str) -> ArrivalPlace {
        let count = Rc::clone(self.0.borrow_mut().entry(owner.to_owned()).or_default());
        count.set(count.get() + 1);
        ArrivalPlace(count)
    }
}

impl ArrivalPlace {
    /// How many there are of the owner, with this one.
    pub(crate) fn count(&self) -> usize {
        self.0.get()
    }
}

impl Drop for ArrivalPlace {
    fn drop(&mut self) {
        self.0.set(self.0.get().saturating_sub(1));
    }
}
