//! Runs the program on a plain terminal and talks to it line by line.

use std::io::{Read, Write};
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::{Arc, Condvar, Mutex};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// How long something may take to appear; generous, because a test machine may be busy.
const LIMIT: Duration = Duration::from_secs(60);
/// How long the last output may take to arrive after the end; a process that goes on may hold the terminal open.
const LAST_OUTPUT: Duration = Duration::from_secs(5);

/// A program whose streams are a terminal. Made with `script`, which every Linux has.
pub struct Terminal {
    child: Child,
    keys: ChildStdin,
    screen: Arc<(Mutex<String>, Condvar)>,
    reader: JoinHandle<()>,
    /// How much of the screen was already examined.
    seen: usize,
}

impl Terminal {
    /// Starts a prepared command on a terminal and collects its output.
    pub(crate) fn start(program: &Command) -> Self {
        let words: Vec<String> = std::iter::once(program.get_program())
            .chain(program.get_args())
            .map(|word| format!("'{}'", word.to_string_lossy().replace('\'', r"'\''")))
            .collect();
        let mut command = Command::new("script");
        // Without a shell in between that would answer to Ctrl+C as well.
        command.args(["-qefc", &format!("exec {}", words.join(" ")), "/dev/null"]).env_clear();
        for (name, value) in program.get_envs() {
            if let Some(value) = value {
                command.env(name, value);
            }
        }
        if let Some(directory) = program.get_current_dir() {
            command.current_dir(directory);
        }
        let mut child = command
            .env("SHELL", "/bin/sh")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .expect("start `script`");
        let keys = child.stdin.take().expect("stdin is piped");
        let mut output = child.stdout.take().expect("stdout is piped");
        let screen = Arc::new((Mutex::new(String::new()), Condvar::new()));
        let shared = Arc::clone(&screen);
        let reader = std::thread::spawn(move || {
            let show = |bytes: &[u8]| {
                let text = String::from_utf8_lossy(bytes).replace("\r\n", "\n");
                shared.0.lock().expect("the screen").push_str(&text);
                shared.1.notify_all();
            };
            let mut buffer = [0; 4096];
            let mut unshown = Vec::new();
            while let Ok(count @ 1..) = output.read(&mut buffer) {
                unshown.extend_from_slice(&buffer[..count]);
                let rest = unshown.split_off(complete(&unshown));
                show(&unshown);
                unshown = rest;
            }
            show(&unshown);
        });
        Self { child, keys, screen, reader, seen: 0 }
    }

    /// Waits until a text appears after the previously expected one; panics with the screen if it does not.
    pub fn expect(&mut self, text: &str) -> &mut Self {
        let started = Instant::now();
        let shared = Arc::clone(&self.screen);
        let mut screen = shared.0.lock().expect("the screen");
        loop {
            if let Some(at) = screen.get(self.seen..).and_then(|new| new.find(text)) {
                self.seen += at + text.len();
                break;
            }
            assert!(started.elapsed() < LIMIT, "`{text}` did not appear on:\n{screen}");
            let wait = shared.1.wait_timeout(screen, Duration::from_millis(200));
            screen = wait.expect("the screen").0;
        }
        self
    }

    /// Types a line.
    pub fn say(&mut self, line: &str) -> &mut Self {
        self.keys.write_all(format!("{line}\n").as_bytes()).expect("type");
        self.keys.flush().expect("type");
        self
    }

    /// Types without ending the line.
    pub fn type_text(&mut self, text: &str) -> &mut Self {
        self.keys.write_all(text.as_bytes()).expect("type");
        self.keys.flush().expect("type");
        self
    }

    /// All that was shown so far.
    pub fn text(&self) -> String {
        self.screen.0.lock().expect("the screen").clone()
    }

    /// Presses Ctrl+C.
    pub fn interrupt(&mut self) -> &mut Self {
        self.keys.write_all(b"\x03").expect("type");
        self.keys.flush().expect("type");
        self
    }

    /// Presses Ctrl+D, which on an empty line is the end of the input.
    pub fn end_of_input(&mut self) -> &mut Self {
        self.keys.write_all(b"\x04").expect("type");
        self.keys.flush().expect("type");
        self
    }

    /// Waits for the end: the exit code and all that was shown.
    pub fn end(mut self) -> (Option<i32>, String) {
        let started = Instant::now();
        let code = loop {
            if let Some(status) = self.child.try_wait().expect("wait for the program") {
                break status.code();
            }
            if started.elapsed() > LIMIT {
                let _ = self.child.kill();
                break None;
            }
            std::thread::sleep(Duration::from_millis(5));
        };
        let ended = Instant::now();
        while !self.reader.is_finished() && ended.elapsed() < LAST_OUTPUT {
            std::thread::sleep(Duration::from_millis(5));
        }
        let screen = self.screen.0.lock().expect("the screen").clone();
        (code, screen)
    }
}

/// How many bytes can be shown: a character or an end of a line of which only the beginning has been read waits for its
/// rest.
fn complete(bytes: &[u8]) -> usize {
    let tail = bytes.len().saturating_sub(3);
    let begun = (tail..bytes.len()).rev().find(|at| bytes[*at] & 0xc0 != 0x80);
    let Some(at) = begun else { return bytes.len() };
    let needed = match bytes[at] {
        0xf0.. => 4,
        0xe0.. => 3,
        0xc0.. | b'\r' => 2,
        _ => 1,
    };
    if bytes.len() - at < needed { at } else { bytes.len() }
}

#[cfg(test)]
mod tests {
    use super::complete;

    #[test]
    fn what_is_read_in_part_is_not_shown() {
        let cases: [(&[u8], usize); 11] = [
            (b"", 0),
            (b"ab", 2),
            (b"ab\r", 2),
            (b"ab\r\n", 4),
            ("ü".as_bytes(), 2),
            (&"aü".as_bytes()[..2], 1),
            (&"a✦".as_bytes()[..3], 1),
            ("a✦".as_bytes(), 4),
            (&"a👋".as_bytes()[..4], 1),
            ("a👋".as_bytes(), 5),
            (b"a\xbf\xbf\xbf\xbf", 5),
        ];
        for (bytes, shown) in cases {
            assert_eq!(complete(bytes), shown, "{bytes:?}");
        }
    }
}
