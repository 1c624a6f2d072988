//! A disk that does not answer: no redo note is lost that may still be needed.

use std::fs::OpenOptions;

use super::*;
use crate::recorder::medium::SessionFile;
use crate::recorder::tests::faulty::FaultyFile;
use crate::recorder::unsynced::SyncedFile;
use crate::redo;

/// No sync succeeds until another file is written.
fn stall(syncing: &Syncing) {
    let file: Arc<dyn SyncedFile> = FaultyFile::failing(usize::MAX);
    syncing.write(&file, 0, b"bytes").unwrap();
}

#[test]
fn a_note_stays_until_its_write_is_on_the_disk() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("session-a.json");
    let (first, second, third) =
        (b"first-----".as_slice(), b"second____".as_slice(), b"third*****".as_slice());
    files::replace(&path, first, Mode::Private).unwrap();
    let file = OpenOptions::new().read(true).write(true).open(&path).unwrap();
    let mut medium = SessionFile::boxed(file, &path);
    let syncing = Syncing::default();
    medium.sync_with(&syncing);
    stall(&syncing);
    assert!(!syncing.wait());
    // Both writes are left to the disk, which does not answer.
    for (old, new) in [(first, second), (second, third)] {
        medium.keep_aside(0, &redo::encode(0, old, new));
        medium.drop_aside();
        assert!(!syncing.wait());
    }
    for (old, new) in [(first, second), (second, third)] {
        let mut torn = [&new[..4], &old[4..]].concat();
        assert_eq!(redo::finish(&path, &mut torn), Some(0));
        assert_eq!(torn, new);
    }
    // The disk answers again.
    medium.write_at(0, third).unwrap();
    assert!(syncing.wait());
    assert!(!redo::is_noted(&path));
    medium.keep_aside(0, &redo::encode(0, third, first));
    let mut torn = [&second[..4], &first[4..]].concat();
    assert_eq!(redo::finish(&path, &mut torn), None, "the older notes are gone");
}

#[test]
fn a_sync_that_ends_during_a_noted_write_leaves_its_note() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("session-a.json");
    files::replace(&path, b"old", Mode::Private).unwrap();
    let file = OpenOptions::new().read(true).write(true).open(&path).unwrap();
    let mut medium = SessionFile::boxed(file, &path);
    let syncing = Syncing::default();
    medium.sync_with(&syncing);
    stall(&syncing);
    assert!(!syncing.wait());
    medium.keep_aside(0, &redo::encode(0, b"old", b"new"));
    medium.drop_aside();
    assert!(!syncing.wait());
    medium.keep_aside(0, &redo::encode(0, b"new", b"now"));
    medium.write_at(0, b"now").unwrap();
    assert!(syncing.wait());
    assert!(redo::is_noted(&path), "the write is not finished yet");
    medium.drop_aside();
    assert!(syncing.wait());
    assert!(!redo::is_noted(&path));
}
