//! The prompt that comes through stdin.

use std::io::{self, Read};
use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{self, RecvTimeoutError};
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::FileType;

/// How much is read; the number is upstream's.
pub(crate) const STDIN_LIMIT: usize = 8 * 1024 * 1024;

/// How long a pipe may stay silent before it counts as empty. Upstream's number; it keeps programs
/// that leave a pipe open behind us from hanging the run.
pub(crate) const SILENCE: Duration = Duration::from_millis(500);

/// How long a read may take that the system says does not wait; another program may have read the input first.
const READ_LIMIT: Duration = Duration::from_secs(5);

/// Upstream's words for a run without a prompt.
pub(crate) const NO_INPUT: &str = "No input provided via stdin. Input can be provided by piping data into gemini or using the --prompt option.";

/// What stdin gave.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Piped {
    pub(crate) text: String,
    /// Set when there was more than the limit.
    pub(crate) warning: Option<String>,
}

/// A pipe that is being read while the program prepares itself.
///
/// End of file, `/dev/null` and files answer at once; only an open and silent pipe costs the wait, and the
/// time that the program needs to start counts towards it.
pub(crate) enum Pipe {
    /// A source that never keeps anyone waiting.
    Prompt(Box<dyn Read + Send>),
    /// A thread reads it.
    Patient {
        chunks: mpsc::Receiver<Vec<u8>>,
        /// When silence counts as emptiness.
        deadline: Instant,
        /// Tells silence from a thread that has not got to read yet; `None` where the pipe cannot be asked.
        arrivals: Option<Arrivals>,
    },
}

/// Whether something is on its way to the reader.
pub(crate) struct Arrivals {
    pipe: OwnedFd,
    /// The thread has found something in the pipe and has not passed it on yet.
    is_reading: Arc<AtomicBool>,
}

impl Arrivals {
    fn of(source: impl AsFd) -> Option<Self> {
        let pipe = source.as_fd().try_clone_to_owned().ok()?;
        Some(Self { pipe, is_reading: Arc::default() })
    }

    /// Whether the pipe holds something, or is at its end, or the thread is passing something on. The pipe comes first:
    /// the thread says that it reads before it takes anything out.
    fn is_due(&self) -> bool {
        has_input(&self.pipe, Some(Duration::ZERO)) || self.is_reading.load(Ordering::SeqCst)
    }
}

impl Pipe {
    /// The process's stdin. A thread for a file or `/dev/null` would only cost time.
    pub(crate) fn of_process() -> Self {
        if answers_at_once(io::stdin()) {
            return Self::Prompt(Box::new(io::stdin()));
        }
        Self::open(io::stdin(), SILENCE)
    }

    /// Begins to read. The thread is left behind when the pipe stays silent: a blocked read cannot be
    /// called back, and it holds nothing but its buffer.
    pub(crate) fn open(source: impl Read + AsFd + Send + 'static, silence: Duration) -> Self {
        let (sender, chunks) = mpsc::sync_channel::<Vec<u8>>(4);
        let arrivals = Arrivals::of(&source);
        let is_reading = arrivals.as_ref().map(|arrivals| Arc::clone(&arrivals.is_reading));
        let is_reading = is_reading.unwrap_or_default();
        std::thread::spawn(move || pass_on(source, &sender, &is_reading));
        Self::Patient { chunks, deadline: Instant::now() + silence, arrivals }
    }

    /// Whether reading may have to wait for another program.
    pub(crate) fn may_wait(&self) -> bool {
        matches!(self, Self::Patient { .. })
    }

    /// Everything up to the end, or nothing if nothing at all came in time.
    pub(crate) fn read(self, limit: usize) -> Piped {
        let mut bytes = Vec::new();
        match self {
            Self::Prompt(source) => {
                // An unreadable stdin is an empty one.
                let _ = source.take(limit as u64 + 1).read_to_end(&mut bytes);
            }
            Self::Patient { chunks, deadline, arrivals } => {
                let Some(first) = first_chunk(&chunks, deadline, arrivals.as_ref()) else {
                    return Piped::default();
                };
                bytes = first;
                while bytes.len() <= limit {
                    match chunks.recv() {
                        Ok(more) => bytes.extend_from_slice(&more),
                        Err(mpsc::RecvError) => break,
                    }
                }
            }
        }
        let cut = bytes.len() > limit;
        if cut {
            bytes.truncate(limit);
            bytes.truncate(whole_characters(&bytes));
        }
        let warning = cut.then(|| format!("Warning: stdin input truncated to {limit} bytes."));
        Piped { text: into_text(bytes), warning }
    }
}

/// The first chunk; `None` if the pipe is empty. On a busy machine the time can be over before the thread has read what
/// is in the pipe.
fn first_chunk(
    chunks: &mpsc::Receiver<Vec<u8>>,
    deadline: Instant,
    arrivals: Option<&Arrivals>,
) -> Option<Vec<u8>> {
    match chunks.recv_timeout(deadline.saturating_duration_since(Instant::now())) {
        Ok(first) => Some(first),
        Err(RecvTimeoutError::Disconnected) => None,
        Err(RecvTimeoutError::Timeout) if arrivals.is_some_and(Arrivals::is_due) => {
            chunks.recv_timeout(READ_LIMIT).ok()
        }
        // It may have been passed on in the meantime.
        Err(RecvTimeoutError::Timeout) => chunks.try_recv().ok(),
    }
}

/// Waits until reading does not wait; false if that is not so within the time, or the system does not say.
fn has_input(source: impl AsFd, within: Option<Duration>) -> bool {
    let within = within.map(Timespec::try_from);
    let Ok(within) = within.transpose() else { return false };
    let mut asked = [PollFd::new(&source, PollFlags::IN)];
    let looked = rustix::io::retry_on_intr(|| poll(&mut asked, within.as_ref()));
    let [asked] = asked;
    looked.is_ok() && asked.revents().intersects(PollFlags::IN | PollFlags::HUP)
}

/// Whether reading never waits: a file, or `/dev/null`.
fn answers_at_once(source: impl AsFd) -> bool {
    let Ok(facts) = rustix::fs::fstat(source) else { return false };
    match FileType::from_raw_mode(facts.st_mode) {
        FileType::RegularFile => true,
        FileType::CharacterDevice => {
            rustix::fs::stat("/dev/null").is_ok_and(|null| null.st_rdev == facts.st_rdev)
        }
        _ => false,
    }
}

fn pass_on(mut source: impl Read + AsFd, sender: &mpsc::SyncSender<Vec<u8>>, is_reading: &AtomicBool) {
    let mut buffer = vec![0; 64 * 1024];
    loop {
        is_reading.store(false, Ordering::SeqCst);
        let has_input = has_input(&source, None);
        is_reading.store(has_input, Ordering::SeqCst);
        match source.read(&mut buffer) {
            Ok(0) => return,
            Ok(count) => {
                let chunk = buffer.get(..count).unwrap_or_default().to_vec();
                if sender.send(chunk).is_err() {
                    return;
                }
            }
            Err(error) if error.kind() == std::io::ErrorKind::Interrupted => {}
            // An unreadable stdin is an empty one; the run says that it has no input.
            Err(_) => return,
        }
    }
}

/// The length without a character cut in two at the end.
fn whole_characters(bytes: &[u8]) -> usize {
    match std::str::from_utf8(bytes) {
        Ok(_) => bytes.len(),
        // `error_len` is `None` exactly when the text stops inside a character.
        Err(error) if error.error_len().is_none() => error.valid_up_to(),
        Err(_) => {
            let tail = bytes.len().saturating_sub(4);
            let start = (tail..bytes.len()).rev().find(|&at| is_lead(bytes, at));
            match start.map(|at| (at, bytes.get(at..).map(std::str::from_utf8))) {
                Some((at, Some(Err(error)))) if error.error_len().is_none() => at,
                _ => bytes.len(),
            }
        }
    }
}

fn is_lead(bytes: &[u8], at: usize) -> bool {
    bytes.get(at).is_some_and(|byte| byte & 0xC0 != 0x80)
}

fn into_text(bytes: Vec<u8>) -> String {
    String::from_utf8(bytes).unwrap_or_else(|error| String::from_utf8_lossy(error.as_bytes()).into_owned())
}

/// Puts piped text before the prompt; `None` when there is nothing at all.
pub(crate) fn combine(piped: &str, prompt: Option<&str>) -> Option<String> {
    let prompt = prompt.unwrap_or_default();
    let whole = match (piped.is_empty(), prompt.is_empty()) {
        (true, _) => prompt.to_owned(),
        (false, true) => piped.to_owned(),
        (false, false) => format!("{piped}\n\n{prompt}"),
    };
    (!whole.trim().is_empty()).then_some(whole)
}

#[cfg(test)]
mod tests {
    use std::io::Write as _;

    use super::*;

    fn read(bytes: &[u8], limit: usize) -> Piped {
        let (reader, mut writer) = io::pipe().unwrap();
        writer.write_all(bytes).unwrap();
        drop(writer);
        Pipe::open(reader, Duration::from_secs(60)).read(limit)
    }

    #[test]
    fn everything_up_to_the_end_is_read() {
        assert_eq!(read(b"hello\n", 100), Piped { text: "hello\n".into(), warning: None });
        assert_eq!(read(b"", 100), Piped::default());
        assert_eq!(read(b"12345", 5).warning, None);
    }

    #[test]
    fn files_are_read_without_a_thread_and_cut_like_pipes() {
        let file = tempfile::tempfile().unwrap();
        assert!(answers_at_once(&file));
        assert!(answers_at_once(std::fs::File::open("/dev/null").unwrap()));
        let (reader, _writer) = io::pipe().unwrap();
        assert!(!answers_at_once(reader));
        let prompt = |bytes: &'static [u8], limit| Pipe::Prompt(Box::new(bytes)).read(limit);
        assert_eq!(prompt(b"hello\n", 100), Piped { text: "hello\n".into(), warning: None });
        assert_eq!(prompt(b"12345", 5).warning, None);
        assert_eq!(prompt(b"123456", 5).text, "12345");
        assert!(prompt(b"123456", 5).warning.is_some());
    }

    #[test]
    fn an_open_pipe_that_says_nothing_counts_as_empty() {
        let (reader, writer) = io::pipe().unwrap();
        assert_eq!(Pipe::open(reader, Duration::from_millis(1)).read(100), Piped::default());
        drop(writer);
    }

    #[test]
    fn once_something_came_the_end_is_awaited() {
        let (reader, mut writer) = io::pipe().unwrap();
        writer.write_all(b"a").unwrap();
        let pipe = Pipe::open(reader, Duration::from_secs(60));
        writer.write_all(b"b").unwrap();
        drop(writer);
        assert_eq!(pipe.read(100).text, "ab");
    }

    #[test]
    fn what_is_in_the_pipe_is_read_even_if_the_time_is_over_before_the_thread_runs() {
        for _ in 0..200 {
            let (reader, mut writer) = io::pipe().unwrap();
            writer.write_all(b"a prompt").unwrap();
            drop(writer);
            assert_eq!(Pipe::open(reader, Duration::ZERO).read(100).text, "a prompt");
        }
    }

    #[test]
    fn too_much_is_cut_between_characters_and_said() {
        let piped = read("aé€x".as_bytes(), 4);
        assert_eq!(piped.text, "aé");
        assert_eq!(piped.warning.unwrap(), "Warning: stdin input truncated to 4 bytes.");
        assert_eq!(read(b"\xffab\xe2\x82\xac", 5).text, "\u{fffd}ab");
        assert_eq!(read(b"\xff\xff\xff", 2).text, "\u{fffd}\u{fffd}");
    }

    #[test]
    fn piped_text_comes_before_the_prompt() {
        assert_eq!(combine("from stdin", Some("from flag")).unwrap(), "from stdin\n\nfrom flag");
        assert_eq!(combine("", Some("p")).unwrap(), "p");
        assert_eq!(combine("in\n", None).unwrap(), "in\n");
        assert_eq!(combine("", None), None);
        assert_eq!(combine(" \n", Some("")), None);
    }
}
