//! A disk whose syncs fail, and what it then holds.

use std::mem;
use std::ops::Range;

use super::*;
use crate::recorder::medium::SessionFile;
use crate::recorder::unsynced::SyncedFile;
use crate::redo;
use crate::summary::append_synced;

/// A file as Linux treats it: what a failed sync could not write counts as written.
#[derive(Debug, Default)]
pub(in crate::recorder) struct FaultyFile(Mutex<Faulty>);

#[derive(Debug, Default)]
struct Faulty {
    /// What readers see.
    memory: Vec<u8>,
    disk: Vec<u8>,
    dirty: Vec<Range<usize>>,
    /// How many syncs fail.
    failures: usize,
}

impl FaultyFile {
    /// A file whose next syncs fail.
    pub(in crate::recorder) fn failing(failures: usize) -> Arc<Self> {
        let file = Self::default();
        file.fail(failures);
        Arc::new(file)
    }

    fn fail(&self, failures: usize) {
        self.0.locked().failures = failures;
    }

    fn is_on_disk(&self) -> bool {
        let file = self.0.locked();
        file.memory == file.disk
    }
}

impl SyncedFile for FaultyFile {
    fn write_all_at(&self, bytes: &[u8], at: u64) -> io::Result<()> {
        let mut file = self.0.locked();
        let at = usize::try_from(at).unwrap();
        let end = at + bytes.len();
        let length = file.memory.len().max(end);
        file.memory.resize(length, 0);
        file.memory[at..end].copy_from_slice(bytes);
        file.dirty.push(at..end);
        Ok(())
    }

    fn set_len(&self, length: u64) -> io::Result<()> {
        self.0.locked().memory.resize(usize::try_from(length).unwrap(), 0);
        Ok(())
    }

    fn len(&self) -> io::Result<u64> {
        Ok(self.0.locked().memory.len() as u64)
    }

    fn read_at(&self, _at: u64, _buffer: &mut [u8]) -> io::Result<usize> {
        Err(io::ErrorKind::Unsupported.into())
    }

    fn sync(&self) -> io::Result<()> {
        let file = &mut *self.0.locked();
        let dirty = mem::take(&mut file.dirty);
        file.disk.resize(file.memory.len(), 0);
        if file.failures > 0 {
            file.failures -= 1;
            return Err(io::Error::from_raw_os_error(5));
        }
        for range in dirty {
            let end = range.end.min(file.memory.len());
            file.disk[range.start..end].copy_from_slice(&file.memory[range.start..end]);
        }
        Ok(())
    }
}

fn medium(file: &Arc<FaultyFile>, path: &Path, syncing: &Syncing) -> Box<dyn Medium> {
    let mut medium = SessionFile::on(Arc::clone(file) as Arc<dyn SyncedFile>, path);
    medium.sync_with(syncing);
    Box::new(medium)
}

#[test]
fn what_a_failed_sync_dropped_is_on_the_disk_after_the_next_one() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("session-a.json");
    for at_the_end in [false, true] {
        let (file, syncing) = (FaultyFile::failing(0), Syncing::default());
        let mut medium = medium(&file, &path, &syncing);
        medium.write_at(0, b"first end").unwrap();
        assert!(syncing.wait() && file.is_on_disk());
        file.fail(1);
        medium.keep_aside(6, &redo::encode(6, b"end", b"second end"));
        medium.write_at(6, b"second end").unwrap();
        medium.drop_aside();
        medium.write_at(0, b"FIRST").unwrap();
        assert!(!syncing.wait() || file.is_on_disk());
        if at_the_end {
            assert!(syncing.finish());
        } else {
            medium.write_at(13, b"third end").unwrap();
            assert!(syncing.wait());
        }
        assert!(file.is_on_disk(), "{file:?}");
        assert!(!redo::is_noted(&path));
    }
}

#[test]
fn an_idle_session_is_synced_again_by_itself() {
    let (file, syncing) = (FaultyFile::failing(3), Syncing::default());
    let mut medium = medium(&file, Path::new("session-a.json"), &syncing);
    medium.write_at(0, b"text").unwrap();
    syncing.wait();
    while !syncing.is_synced() {
        std::thread::yield_now();
    }
    assert!(file.is_on_disk());
}

#[test]
fn a_note_stays_if_more_was_lost_than_can_be_written_again() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("session-a.json");
    let (file, syncing) = (FaultyFile::failing(1), Syncing::default());
    let mut medium = medium(&file, &path, &syncing);
    medium.keep_aside(0, &redo::encode(0, b"", b"text"));
    medium.write_at(0, &vec![b'x'; 20 << 20]).unwrap();
    medium.drop_aside();
    assert!(!syncing.finish());
    assert!(!syncing.finish(), "a sync without the lost bytes does not count");
    assert!(redo::is_noted(&path));
    assert!(syncing.take_failure().is_some());
    assert!(syncing.take_failure().is_none());
}

#[test]
fn restore_writes_back_what_a_failed_sync_dropped() {
    let (file, syncing) = (FaultyFile::failing(usize::MAX), Syncing::default());
    let mut medium = medium(&file, Path::new("session-a.json"), &syncing);
    medium.write_at(0, b"text").unwrap();
    assert!(!syncing.wait());
    // The system has dropped the page and reads what is on the disk.
    file.0.locked().memory = b"\0\0\0\0".to_vec();
    syncing.restore();
    assert_eq!(file.0.locked().memory, b"text");
}

/// A disk that is full after a few bytes.
#[derive(Debug, Default)]
struct FullFile(FaultyFile);

impl SyncedFile for FullFile {
    fn write_all_at(&self, bytes: &[u8], at: u64) -> io::Result<()> {
        self.0.write_all_at(&bytes[..bytes.len() / 2], at)?;
        Err(io::ErrorKind::StorageFull.into())
    }

    fn set_len(&self, length: u64) -> io::Result<()> {
        self.0.set_len(length)
    }

    fn len(&self) -> io::Result<u64> {
        self.0.len()
    }

    fn read_at(&self, at: u64, buffer: &mut [u8]) -> io::Result<usize> {
        self.0.read_at(at, buffer)
    }

    fn sync(&self) -> io::Result<()> {
        self.0.sync()
    }
}

#[test]
fn a_title_in_a_record_log_is_synced_or_cut_off_again() {
    let file = FaultyFile::failing(0);
    file.write_all_at(b"{}\n", 0).unwrap();
    append_synced(&*file, b"title\n").unwrap();
    assert!(file.is_on_disk());
    file.fail(1);
    append_synced(&*file, b"another\n").unwrap_err();
    assert_eq!(file.0.locked().memory, b"{}\ntitle\n");
    let full = FullFile::default();
    append_synced(&full, b"title\n").unwrap_err();
    assert_eq!(full.len().unwrap(), 0);
}

#[test]
fn a_folder_that_cannot_be_synced_is_reported_and_tried_again() {
    let dir = tempfile::tempdir().unwrap();
    let folder = dir.path().join("chats");
    let syncing = Syncing::default();
    syncing.named(&folder);
    assert!(!syncing.wait());
    assert!(syncing.take_failure().is_some());
    std::fs::create_dir(&folder).unwrap();
    while !syncing.is_synced() {
        std::thread::yield_now();
    }
    assert!(syncing.take_recovery());
}
