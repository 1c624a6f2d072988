//! Which objects of the store hold the session of a task.

use std::collections::HashSet;

use serde_json::{Map, Value, json};

use super::kept::read_texts;

/// More levels of lists than any session needs.
pub(crate) const MAX_DEPTH: usize = 8;

/// The pieces of a session; of a long one, the pieces of the list of its pieces.
#[derive(Debug, Clone, Default)]
pub(crate) struct SessionPieces {
    /// What the record names.
    pub(crate) names: Vec<String>,
    /// How many levels of lists lead from these names to the session.
    pub(crate) depth: usize,
    /// All of the objects, if they are known; lists are read only when that is needed.
    known: Option<HashSet<String>>,
}

impl PartialEq for SessionPieces {
    fn eq(&self, other: &Self) -> bool {
        self.names == other.names && self.depth == other.depth
    }
}

impl SessionPieces {
    pub(crate) fn new(names: Vec<String>, depth: usize, known: HashSet<String>) -> Self {
        Self { names, depth, known: Some(known) }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.names.is_empty()
    }

    /// All objects; `None` if lists must be read first.
    pub(crate) fn objects(&self) -> Option<HashSet<String>> {
        match &self.known {
            None if self.depth == 0 => Some(self.names.iter().cloned().collect()),
            known => known.clone(),
        }
    }

    /// Remembers what lists name.
    pub(crate) fn set_known(&mut self, of: &Self, known: HashSet<String>) {
        if self == of {
            self.known = Some(known);
        }
    }

    pub(super) fn keep_read(&mut self, earlier: &Self) {
        if self == earlier && self.known.is_none() {
            self.known.clone_from(&earlier.known);
        }
    }

    /// A server that knows no lists reads of a long session that it has none.
    pub(crate) fn write(&self, fields: &mut Map<String, Value>) {
        let (pieces, lists) = match self.depth {
            0 => (json!(self.names), Value::Null),
            depth => (json!([]), json!({"names": self.names, "depth": depth})),
        };
        fields.insert("sessionPieces".to_owned(), pieces);
        fields.insert("sessionLists".to_owned(), lists);
    }

    pub(crate) fn read(fields: &Value) -> Self {
        let lists = fields.get("sessionLists");
        let depth = lists.and_then(|lists| lists.get("depth")).and_then(Value::as_u64).unwrap_or_default();
        match usize::try_from(depth).unwrap_or(MAX_DEPTH).min(MAX_DEPTH) {
            0 => Self { names: read_texts(fields.get("sessionPieces")).collect(), ..Self::default() },
            depth => {
                let names = read_texts(lists.and_then(|lists| lists.get("names"))).collect();
                Self { names, depth, known: None }
            }
        }
    }
}
