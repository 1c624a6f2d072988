//! Detects changed notes by polling their timestamps. Works on every file system, is cheap for
//! each note, and needs no system limits raised.

use std::collections::BTreeMap;

use crate::source::Stamp;
use crate::source::notes::NotePlaces;

pub(super) struct Watch {
    places: NotePlaces,
    /// As they were when they were last indexed.
    indexed: Option<Notes>,
    /// As they were at the last look.
    seen: Option<Notes>,
}

type Notes = BTreeMap<String, (i64, i64)>;

impl Watch {
    pub(super) fn new(places: NotePlaces) -> Self {
        Self { places, indexed: None, seen: None }
    }

    /// Whether notes changed and have been stable since the previous check. Changes before the first
    /// check are unknown.
    pub(super) fn look(&mut self) -> bool {
        let of = |stamp: Stamp| (stamp.modified_ns, stamp.size);
        let now: Notes = self.places.list().into_iter().map(|file| (file.path, of(file.stamp))).collect();
        let changed = self.seen.as_ref() == Some(&now) && self.indexed.as_ref() != Some(&now);
        if changed {
            self.indexed = Some(now.clone());
        }
        self.seen = Some(now);
        changed
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use pollux_config::files::{Mode, replace};

    #[test]
    fn a_change_is_reported_once_after_it_is_complete() {
        let folder = tempfile::tempdir().unwrap();
        let note = folder.path().join("memory/a.md");
        let places = NotePlaces {
            workspace: folder.path().to_owned(),
            extra: Vec::new(),
            learnings: folder.path().join("none"),
            has_notes: true,
        };
        let write = |text: &str| replace(&note, text.as_bytes(), Mode::Private).unwrap();
        write("one");
        let mut watch = Watch::new(places);
        assert_eq!([watch.look(), watch.look(), watch.look()], [false, true, false]);
        write("longer");
        assert!(!watch.look(), "it may not be over");
        write("longer still");
        assert!(!watch.look());
        assert!(watch.look());
        assert!(!watch.look());
        std::fs::remove_file(&note).unwrap();
        assert_eq!([watch.look(), watch.look(), watch.look()], [false, true, false]);
    }
}
