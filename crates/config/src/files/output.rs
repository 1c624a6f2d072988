//! Files that the user named as output: a regular file is replaced, a pipe or device is written to.

use std::fs::{self, File, FileType, OpenOptions};
use std::io::{self, ErrorKind, Write};
use std::path::Path;

use super::{FileError, Mode, replace};

/// Writes a file that the user named as output. A regular file is replaced in one step; a pipe, a terminal or another
/// character device is written to, and never replaced. Never waits for a pipe without a reader.
pub fn write_output(path: &Path, bytes: &[u8], mode: Mode) -> Result<(), FileError> {
    match fs::metadata(path) {
        Ok(meta) if meta.is_file() && !special::is_descriptor(path) => replace(path, bytes, mode),
        Ok(meta) => special::write(path, meta.file_type(), bytes).map_err(|source| write_error(path, source)),
        Err(_) => replace(path, bytes, mode),
    }
}

/// Opens a file that the user named as output, for appending; a missing one is created. Never waits for a pipe without a
/// reader.
pub fn open_append(path: &Path, mode: Mode) -> Result<File, FileError> {
    let mut options = OpenOptions::new();
    options.append(true).create(true);
    special::open(&mut options, path, mode).map_err(|source| write_error(path, source))
}

/// Whether a path leads to something that [`replace`] must not replace.
pub(super) fn not_replaceable(path: &Path) -> Option<FileError> {
    let meta = fs::metadata(path).ok().filter(|meta| !meta.is_file())?;
    Some(write_error(path, unusable(meta.file_type())))
}

fn write_error(path: &Path, source: io::Error) -> FileError {
    FileError::Write { path: path.to_owned(), source }
}

fn unusable(kind: FileType) -> io::Error {
    if kind.is_dir() {
        return io::Error::from(ErrorKind::IsADirectory);
    }
    io::Error::other("not a regular file")
}

#[cfg(unix)]
mod special {
    use std::os::unix::fs::{FileTypeExt as _, OpenOptionsExt as _};
    use std::path::PathBuf;
    use std::time::Duration;

    use rustix::event::{PollFd, PollFlags, Timespec, poll};
    use rustix::fs::{OFlags, fcntl_getfl, fcntl_setfl};

    use super::*;

    /// How long a reader may leave a full pipe unread.
    const PATIENCE: Duration = Duration::from_secs(10);

    /// Links that are looked at.
    const MAX_LINKS: usize = 8;

    /// Whether a path names an open descriptor, such as `/dev/stdout`. The file behind it has an owner that continues to
    /// write to it.
    pub(super) fn is_descriptor(path: &Path) -> bool {
        let mut at = path.to_owned();
        for _ in 0..MAX_LINKS {
            if at.starts_with("/dev/fd") || at.starts_with("/proc") {
                return true;
            }
            let Ok(next) = fs::read_link(&at) else { return false };
            at = at.parent().map_or_else(|| PathBuf::from(&next), |folder| folder.join(&next));
        }
        false
    }

    pub(super) fn write(path: &Path, kind: FileType, bytes: &[u8]) -> io::Result<()> {
        if !(kind.is_file() || kind.is_fifo() || kind.is_char_device()) {
            return Err(unusable(kind));
        }
        let mut options = OpenOptions::new();
        options.append(true);
        let mut file = open_at_once(&mut options, path)?;
        // It may have been replaced in the meantime.
        if file.metadata()?.file_type() != kind {
            return Err(io::Error::other("it was replaced while it was opened"));
        }
        write_patiently(&mut file, bytes, PATIENCE)
    }

    pub(super) fn open(options: &mut OpenOptions, path: &Path, mode: Mode) -> io::Result<File> {
        if mode == Mode::Private {
            options.mode(0o600);
        }
        let file = open_at_once(options, path)?;
        fcntl_setfl(&file, fcntl_getfl(&file)?.difference(OFlags::NONBLOCK))?;
        Ok(file)
    }

    fn open_at_once(options: &mut OpenOptions, path: &Path) -> io::Result<File> {
        let flags = OFlags::NONBLOCK | OFlags::NOCTTY;
        options.custom_flags(flags.bits().cast_signed()).open(path).map_err(|error| {
            let is_pipe = || fs::metadata(path).is_ok_and(|meta| meta.file_type().is_fifo());
            if error.raw_os_error() == Some(rustix::io::Errno::NXIO.raw_os_error()) && is_pipe() {
                return io::Error::other("no process reads from this pipe");
            }
            error
        })
    }

    /// Writes everything; fails if the reader takes nothing for this long.
    pub(super) fn write_patiently(file: &mut File, bytes: &[u8], patience: Duration) -> io::Result<()> {
        let mut rest = bytes;
        while !rest.is_empty() {
            match file.write(rest) {
                Ok(0) => return Err(ErrorKind::WriteZero.into()),
                Ok(count) => rest = rest.get(count..).unwrap_or_default(),
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) if error.kind() == ErrorKind::WouldBlock => {
                    let within = Timespec::try_from(patience).map_err(io::Error::other)?;
                    let mut asked = [PollFd::new(&*file, PollFlags::OUT)];
                    if rustix::io::retry_on_intr(|| poll(&mut asked, Some(&within)))? == 0 {
                        return Err(io::Error::other("the reader of this pipe does not read"));
                    }
                }
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }
}

#[cfg(not(unix))]
mod special {
    use super::*;

    pub(super) fn is_descriptor(_path: &Path) -> bool {
        false
    }

    pub(super) fn write(_path: &Path, kind: FileType, _bytes: &[u8]) -> io::Result<()> {
        Err(unusable(kind))
    }

    pub(super) fn open(options: &mut OpenOptions, path: &Path, _mode: Mode) -> io::Result<File> {
        options.open(path)
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::{FileTypeExt as _, symlink};
    use std::process::{Command, Stdio};
    use std::time::Duration;

    use super::*;
    use crate::scratch::Scratch;

    fn pipe(scratch: &Scratch, name: &str) -> std::path::PathBuf {
        let path = scratch.path(name);
        assert!(Command::new("mkfifo").arg(&path).status().unwrap().success());
        path
    }

    fn is_pipe(path: &Path) -> bool {
        fs::metadata(path).unwrap().file_type().is_fifo()
    }

    #[test]
    fn state_files_never_replace_a_pipe_or_a_device() {
        let scratch = Scratch::new();
        let path = pipe(&scratch, "home/settings.json");
        let error = replace(&path, b"{}", Mode::Private).unwrap_err();
        assert!(error.to_string().ends_with("settings.json`: not a regular file"), "{error}");
        symlink(&path, scratch.path("home/link.json")).unwrap();
        assert!(replace(&scratch.path("home/link.json"), b"{}", Mode::Private).is_err());
        assert!(is_pipe(&path));
        assert_eq!(scratch.names("home"), ["link.json", "settings.json"]);
        assert!(replace(Path::new("/dev/null"), b"{}", Mode::Private).is_err());
    }

    #[test]
    fn output_is_written_into_a_pipe_that_stays_one() {
        let scratch = Scratch::new();
        let path = pipe(&scratch, "home/out");
        let copy = scratch.path("home/copy");
        let mut reader = Command::new("cat").arg(&path).stdout(File::create(&copy).unwrap()).spawn().unwrap();
        let text = vec![b'x'; 300_000];
        // The reader may not have opened it yet.
        while let Err(error) = write_output(&path, &text, Mode::Private) {
            assert!(error.to_string().ends_with("no process reads from this pipe"), "{error}");
            std::thread::yield_now();
        }
        reader.wait().unwrap();
        assert_eq!(fs::metadata(&copy).unwrap().len(), 300_000);
        assert!(is_pipe(&path));
    }

    #[test]
    fn output_into_a_pipe_without_a_reader_is_an_error_at_once() {
        let scratch = Scratch::new();
        let path = pipe(&scratch, "home/out");
        for error in [
            write_output(&path, b"x", Mode::Private).unwrap_err(),
            open_append(&path, Mode::Private).unwrap_err(),
        ] {
            assert!(error.to_string().ends_with("out`: no process reads from this pipe"), "{error}");
        }
    }

    #[test]
    fn a_reader_that_stops_reading_does_not_hold_up_the_writer() {
        let scratch = Scratch::new();
        let path = pipe(&scratch, "home/out");
        let reader = Command::new("sleep").arg("60").stdin(Stdio::from(read_and_write(&path))).spawn();
        let mut writer = read_and_write(&path);
        let error =
            special::write_patiently(&mut writer, &[0; 2_000_000], Duration::from_millis(10)).unwrap_err();
        assert_eq!(error.to_string(), "the reader of this pipe does not read");
        let mut reader = reader.unwrap();
        reader.kill().unwrap();
        reader.wait().unwrap();
    }

    fn read_and_write(path: &Path) -> File {
        use std::os::unix::fs::OpenOptionsExt as _;
        let flags = rustix::fs::OFlags::NONBLOCK.bits().cast_signed();
        OpenOptions::new().read(true).write(true).custom_flags(flags).open(path).unwrap()
    }

    #[test]
    fn output_into_a_device_reaches_the_device() {
        write_output(Path::new("/dev/null"), b"x", Mode::Shared).unwrap();
        assert!(fs::metadata("/dev/null").unwrap().file_type().is_char_device());
        #[cfg(target_os = "linux")]
        assert!(write_output(Path::new("/dev/full"), b"x", Mode::Shared).is_err());
        assert!(write_output(Path::new("/dev"), b"x", Mode::Shared).is_err());
    }

    #[test]
    fn output_into_a_descriptor_keeps_the_file_that_is_open() {
        use std::os::fd::AsRawFd as _;
        let scratch = Scratch::new();
        let mut open = OpenOptions::new().append(true).create(true).open(scratch.path("home/log")).unwrap();
        open.write_all(b"answer\n").unwrap();
        let named = format!("/dev/fd/{}", open.as_raw_fd());
        write_output(Path::new(&named), b"receipt\n", Mode::Private).unwrap();
        open.write_all(b"more\n").unwrap();
        assert_eq!(scratch.read("home/log"), "answer\nreceipt\nmore\n");
    }
}
