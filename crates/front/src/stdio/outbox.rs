//! Lines to a client, written by a thread of their own.
//!
//! A client that does not read delays nothing but this thread. States that replace each other, such as the output of a
//! running call so far, are kept only once, so that the queue stays short.

use std::collections::VecDeque;
use std::io::Write;
use std::sync::{Arc, Condvar, Mutex};
use std::time::{Duration, Instant};

use pollux_domain::sync::Locked as _;
use tokio::sync::Notify;

/// The queue of lines to the client. Cheap to clone.
#[derive(Clone)]
pub struct Outbox(Arc<Shared>);

struct Shared {
    queue: Mutex<Queue>,
    /// The queue changed.
    changed: Condvar,
    /// The same, for tasks.
    news: Notify,
    /// The client's end is closed.
    gone: Notify,
}

#[derive(Default)]
struct Queue {
    lines: VecDeque<Entry>,
    /// The size of `lines`.
    bytes: usize,
    /// A line is being written.
    writing: bool,
    broken: bool,
}

struct Entry {
    /// Names a state; a newer one takes its place.
    state: Option<String>,
    line: String,
}

impl Outbox {
    /// Lines that nothing writes; [`Self::next_line`] takes them.
    pub fn unwritten() -> Self {
        let (changed, news, gone) = (Condvar::new(), Notify::new(), Notify::new());
        Self(Arc::new(Shared { queue: Mutex::default(), changed, news, gone }))
    }

    /// Starts the thread that writes to `out`.
    pub fn start(mut out: impl Write + Send + 'static) -> Self {
        let Self(shared) = Self::unwritten();
        let own = Arc::clone(&shared);
        std::thread::spawn(move || {
            while let Some(mut line) = own.next() {
                line.push('\n');
                let written = out.write_all(line.as_bytes()).and_then(|()| out.flush());
                let mut queue = own.queue.locked();
                queue.writing = false;
                if written.is_err() {
                    queue.broken = true;
                    queue.lines.clear();
                    queue.bytes = 0;
                }
                drop(queue);
                own.changed.notify_all();
                if written.is_err() {
                    own.gone.notify_one();
                    return;
                }
            }
        });
        Self(shared)
    }

    /// Queues a line.
    pub fn send(&self, line: String) {
        self.push(Entry { state: None, line });
    }

    /// Queues a state; one of the same name that is not written yet is dropped.
    pub fn send_state(&self, name: &str, line: String) {
        self.push(Entry { state: Some(name.to_owned()), line });
    }

    /// Drops a state that is not written yet.
    pub fn drop_state(&self, name: &str) {
        self.0.queue.locked().retain(|entry| entry.state.as_deref() != Some(name));
    }

    fn push(&self, entry: Entry) {
        let mut queue = self.0.queue.locked();
        if queue.broken {
            return;
        }
        let same = |other: &Entry| other.state.is_some() && other.state == entry.state;
        if entry.state.is_some() {
            queue.retain(|other| !same(other));
        }
        queue.bytes += entry.line.len();
        queue.lines.push_back(entry);
        drop(queue);
        self.0.changed.notify_all();
        self.0.news.notify_one();
    }

    /// Takes the next line if there is one.
    pub fn try_next_line(&self) -> Option<String> {
        let mut queue = self.0.queue.locked();
        let line = queue.lines.pop_front()?.line;
        queue.bytes -= line.len();
        Some(line)
    }

    /// Takes the next line. Can be dropped and called again.
    pub async fn next_line(&self) -> String {
        loop {
            if let Some(line) = self.try_next_line() {
                return line;
            }
            self.0.news.notified().await;
        }
    }

    /// The size of the lines that are not written yet.
    pub fn waiting(&self) -> usize {
        self.0.queue.locked().bytes
    }

    /// Whether the client's end is closed.
    pub fn is_broken(&self) -> bool {
        self.0.queue.locked().broken
    }

    /// Waits until the client's end is closed.
    pub async fn client_gone(&self) {
        self.0.gone.notified().await;
    }

    /// Waits until everything is written, or nothing was for some time; returns whether nothing is left to do.
    pub fn drain(&self, pause: Duration) -> bool {
        loop {
            let before = self.waiting();
            if self.flush(pause) {
                return true;
            }
            if self.waiting() >= before {
                return false;
            }
        }
    }

    /// Waits until everything is written, for a limited time; returns whether nothing is left to do.
    pub fn flush(&self, limit: Duration) -> bool {
        let end = Instant::now() + limit;
        let mut queue = self.0.queue.locked();
        while !queue.broken && (queue.writing || !queue.lines.is_empty()) {
            let left = end.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return false;
            }
            queue = match self.0.changed.wait_timeout(queue, left) {
                Ok((queue, _)) => queue,
                Err(_) => return true,
            };
        }
        true
    }
}

impl Queue {
    fn retain(&mut self, kept: impl Fn(&Entry) -> bool) {
        self.lines.retain(kept);
        self.bytes = self.lines.iter().map(|entry| entry.line.len()).sum();
    }
}

impl Shared {
    /// The next line, when there is one.
    fn next(&self) -> Option<String> {
        let mut queue = self.queue.locked();
        loop {
            if let Some(entry) = queue.lines.pop_front() {
                queue.writing = true;
                queue.bytes -= entry.line.len();
                return Some(entry.line);
            }
            queue = self.changed.wait(queue).ok()?;
        }
    }
}

#[cfg(test)]
mod tests {
    use std::io;
    use std::sync::mpsc;

    use super::*;

    /// Writes one line each time it is allowed to.
    struct Slow {
        allowed: mpsc::Receiver<()>,
        written: Arc<Mutex<Vec<u8>>>,
    }

    impl Write for Slow {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            self.allowed.recv().map_err(|_| io::ErrorKind::BrokenPipe)?;
            self.written.locked().extend_from_slice(bytes);
            Ok(bytes.len())
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    #[test]
    fn a_slow_reader_gets_the_newest_state_once_and_everything_else_in_order() {
        let (allow, allowed) = mpsc::channel();
        let written = Arc::new(Mutex::new(Vec::new()));
        let outbox = Outbox::start(Slow { allowed, written: Arc::clone(&written) });
        outbox.send("first".into());
        for n in 0..1_000 {
            outbox.send_state("call", format!("state {n}"));
        }
        outbox.send_state("other", "dropped".into());
        outbox.drop_state("other");
        outbox.send("last".into());
        (0..3).for_each(|_| allow.send(()).unwrap());
        outbox.flush(Duration::from_secs(10));
        let text = String::from_utf8(written.locked().clone()).unwrap();
        // The thread may already have taken the very first state.
        assert!(text.starts_with("first\n") && text.contains("state 999\n"), "{text}");
        drop(allow);
        outbox.send("after".into());
        outbox.flush(Duration::from_secs(10));
    }

    #[test]
    fn a_reader_is_waited_for_as_long_as_it_reads() {
        let (allow, allowed) = mpsc::channel();
        let outbox = Outbox::start(Slow { allowed, written: Arc::default() });
        (0..5).for_each(|n| outbox.send(n.to_string()));
        assert!(!outbox.drain(Duration::from_millis(20)));
        let reader = std::thread::spawn(move || {
            for _ in 0..5 {
                std::thread::sleep(Duration::from_millis(30));
                allow.send(()).unwrap();
            }
            allow
        });
        assert!(outbox.drain(Duration::from_secs(10)));
        drop(reader.join());
    }
}
