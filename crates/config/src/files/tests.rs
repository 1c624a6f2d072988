use std::sync::mpsc;
use std::time::Duration;

use super::*;
use crate::scratch::Scratch;

#[test]
fn a_missing_file_reads_as_none_and_a_folder_is_an_error() {
    let scratch = Scratch::new();
    assert_eq!(read_text(&scratch.path("none")).unwrap(), None);
    let file = scratch.write("file", "x");
    assert_eq!(read_text(&file.join("below")).unwrap(), None);
    let error = read_text(&scratch.path("home")).unwrap_err();
    assert_eq!(error.path(), scratch.path("home"));
    scratch.path("bytes");
    std::io::Write::write_all(&mut File::create(scratch.path("bytes")).unwrap(), b"\xff").unwrap();
    assert!(matches!(read_text(&scratch.path("bytes")), Err(FileError::NotUtf8 { .. })));
}

#[test]
fn replacing_creates_folders_and_leaves_no_other_file() {
    let scratch = Scratch::new();
    replace(&scratch.path("a/b/c.json"), b"one", Mode::Private).unwrap();
    replace(&scratch.path("a/b/c.json"), b"two", Mode::Private).unwrap();
    assert_eq!(scratch.read("a/b/c.json"), "two");
    assert_eq!(scratch.names("a/b"), ["c.json"]);
}

#[test]
fn a_failed_write_names_the_file_and_leaves_it() {
    let scratch = Scratch::new();
    let file = scratch.write("file", "x");
    let error = replace(&file.join("below"), b"", Mode::Shared).unwrap_err();
    assert!(error.to_string().contains("file"), "{error}");
    assert_eq!(scratch.read("file"), "x");
}

#[test]
fn what_cannot_be_replaced_is_written_in_place_with_its_whole_new_content() {
    let scratch = Scratch::new();
    let target = scratch.write("mounted", "a longer old text");
    let new = scratch.write("new", "short");
    write_in_place(&target, &File::open(&new).unwrap()).unwrap();
    assert_eq!(scratch.read("mounted"), "short");
    // A folder cannot be read as the new content, so that the write fails half-way.
    assert!(write_in_place(&target, &File::open(scratch.path("home")).unwrap()).is_err());
    assert_eq!(scratch.read("mounted"), "short");
}

#[cfg(unix)]
mod unix {
    use std::os::unix::fs::{PermissionsExt, symlink};

    use super::*;

    #[test]
    fn a_pipe_in_place_of_a_lock_is_an_error_at_once() {
        let scratch = Scratch::new();
        let lock = scratch.path("home/file.lock");
        assert!(std::process::Command::new("mkfifo").arg(&lock).status().unwrap().success());
        let error = FileLock::acquire(&scratch.path("home/file")).unwrap_err();
        assert_eq!(error.to_string(), format!("could not lock `{}`: not a regular file", lock.display()));
    }

    fn mode(path: &Path) -> u32 {
        fs::metadata(path).unwrap().permissions().mode() & 0o777
    }

    #[test]
    fn new_private_files_are_the_users_alone_and_existing_ones_keep_their_mode() {
        let scratch = Scratch::new();
        let file = scratch.path("state/deep/id");
        replace(&file, b"1", Mode::Private).unwrap();
        assert_eq!(
            (mode(&file), mode(&scratch.path("state")), mode(&scratch.path("state/deep"))),
            (0o600, 0o700, 0o700)
        );
        fs::set_permissions(&file, fs::Permissions::from_mode(0o640)).unwrap();
        replace(&file, b"2", Mode::Private).unwrap();
        assert_eq!(mode(&file), 0o640);
    }

    #[test]
    fn a_link_keeps_leading_to_the_file_that_is_replaced() {
        let scratch = Scratch::new();
        scratch.write("dotfiles/real.json", "old");
        symlink("../dotfiles/real.json", scratch.path("home/link.json")).unwrap();
        replace(&scratch.path("home/link.json"), b"new", Mode::Shared).unwrap();
        assert_eq!(scratch.read("dotfiles/real.json"), "new");
        assert!(fs::symlink_metadata(scratch.path("home/link.json")).unwrap().is_symlink());

        symlink("../dotfiles/absent.json", scratch.path("home/dangling.json")).unwrap();
        replace(&scratch.path("home/dangling.json"), b"made", Mode::Shared).unwrap();
        assert_eq!(scratch.read("dotfiles/absent.json"), "made");

        symlink("loop", scratch.path("home/loop")).unwrap();
        let looped = replace(&scratch.path("home/loop"), b"", Mode::Shared);
        assert!(matches!(looped, Err(FileError::LinkLoop { .. })));
    }
}

#[test]
fn a_held_lock_makes_others_wait_and_then_give_up_with_its_name() {
    let scratch = Scratch::new();
    let file = scratch.path("work/f.json");
    let held = FileLock::acquire(&file).unwrap();
    let error = FileLock::acquire_within(&file, Duration::from_millis(5)).unwrap_err();
    assert!(matches!(&error, LockError::TimedOut { path, .. } if path.ends_with("f.json.lock")), "{error}");
    assert!(error.hint().is_some());

    let (sent, received) = mpsc::channel();
    let waiting = {
        let file = file.clone();
        std::thread::spawn(move || {
            let lock = FileLock::acquire(&file).unwrap();
            sent.send(()).unwrap();
            drop(lock);
        })
    };
    assert!(received.try_recv().is_err(), "the lock was still held");
    drop(held);
    received.recv().unwrap();
    waiting.join().unwrap();
    assert!(scratch.names("work").is_empty(), "no lock file stays behind");
}

#[test]
fn a_lock_folder_of_upstream_counts_as_held() {
    let scratch = Scratch::new();
    fs::create_dir(scratch.path("work/f.json.lock")).unwrap();
    let error = FileLock::acquire_within(&scratch.path("work/f.json"), Duration::ZERO).unwrap_err();
    assert!(matches!(error, LockError::TimedOut { .. }), "{error}");
}
