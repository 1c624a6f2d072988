//! A running program that a test can watch and interrupt.

use std::io::Read;
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use super::{Run, TestRun, spawn_with_input, wait};

/// A program under way. Ended with its process group when dropped.
pub struct Running {
    child: Child,
    limit: Duration,
    out: Stream,
    err: Stream,
}

/// The output of one pipe so far.
struct Stream {
    seen: Arc<(Mutex<Vec<u8>>, Condvar)>,
    reader: Option<JoinHandle<()>>,
}

impl TestRun {
    /// Starts it and returns at once.
    pub fn spawn(mut self) -> Running {
        self.command.stdout(Stdio::piped()).stderr(Stdio::piped());
        let (mut child, _) = spawn_with_input(&mut self.command, self.stdin.take());
        let out = Stream::follow(child.stdout.take().expect("stdout is piped"));
        let err = Stream::follow(child.stderr.take().expect("stderr is piped"));
        Running { child, limit: self.limit, out, err }
    }
}

impl Running {
    /// Waits until stdout contains this text; panics at the time limit.
    pub fn wait_for_stdout(&self, text: &str) {
        self.out.wait_for(text.as_bytes(), self.limit);
    }

    /// Sends a signal by its name, `INT` for instance.
    pub fn signal(&self, name: &str) {
        let pid = self.child.id().to_string();
        let sent = Command::new("kill").args([format!("-{name}"), pid]).status().expect("run kill");
        assert!(sent.success(), "send {name}");
    }

    /// Ends the program alone at once, as `kill -9` does, and waits until it is gone.
    pub fn kill(mut self) -> Run {
        self.child.kill().expect("kill the program");
        self.finish()
    }

    /// The same for its whole process group, for a program behind another one.
    pub fn kill_group(mut self) -> Run {
        self.signal_group("KILL");
        let run = self.finish();
        // Others of the group may take a moment longer.
        let started = Instant::now();
        while self.group_signalled("0") && started.elapsed() < Duration::from_secs(5) {
            std::thread::sleep(Duration::from_millis(2));
        }
        run
    }

    pub fn signal_group(&self, name: &str) {
        assert!(self.group_signalled(name), "send {name}");
    }

    fn group_signalled(&self, name: &str) -> bool {
        let (name, group) = (format!("-{name}"), format!("-{}", self.child.id()));
        let mut kill = Command::new("kill");
        kill.args([&name, "--", &group]).stderr(Stdio::null()).status().expect("run kill").success()
    }

    /// Waits for its end.
    pub fn wait(mut self) -> Run {
        self.finish()
    }

    fn finish(&mut self) -> Run {
        let code = wait(&mut self.child, self.limit);
        Run { code, stdout: self.out.text(), stderr: self.err.text() }
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        if matches!(self.child.try_wait(), Ok(None)) {
            wait(&mut self.child, Duration::ZERO);
        }
    }
}

impl Stream {
    fn follow(mut pipe: impl Read + Send + 'static) -> Self {
        let seen = Arc::new((Mutex::new(Vec::new()), Condvar::new()));
        let shared = Arc::clone(&seen);
        let reader = std::thread::spawn(move || {
            let mut buffer = [0; 8192];
            while let Ok(count @ 1..) = pipe.read(&mut buffer) {
                let (bytes, more) = &*shared;
                bytes.lock().unwrap_or_else(PoisonError::into_inner).extend_from_slice(&buffer[..count]);
                more.notify_all();
            }
        });
        Self { seen, reader: Some(reader) }
    }

    fn wait_for(&self, text: &[u8], limit: Duration) {
        let (bytes, more) = &*self.seen;
        let started = Instant::now();
        let mut held = bytes.lock().unwrap_or_else(PoisonError::into_inner);
        while !held.windows(text.len()).any(|window| window == text) {
            let left = limit.saturating_sub(started.elapsed());
            assert!(!left.is_zero(), "no {:?} in {:?}", lossy(text), lossy(&held));
            held = more.wait_timeout(held, left).unwrap_or_else(PoisonError::into_inner).0;
        }
    }

    /// Everything until the pipe was closed.
    fn text(&mut self) -> String {
        if let Some(reader) = self.reader.take() {
            let _ = reader.join();
        }
        lossy(&self.seen.0.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

fn lossy(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}
