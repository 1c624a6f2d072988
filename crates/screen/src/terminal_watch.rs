//! Terminal state outside of frames: window title, notifications, background colour, suspending, and hang-ups.

use std::io::{self, IsTerminal, Write};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use crossterm::event::KeyEvent;
use pollux_tui::app::App;
use pollux_tui::terminal::background::{self, Listener};
use pollux_tui::terminal::{self, Notify};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::{Pid, Signal, getpid, getppid, kill_current_process_group, kill_process};
use rustix::termios::{OptionalActions, tcgetattr, tcsetattr};
use tokio::signal::unix::{SignalKind, signal};

/// Interval of the check for a gone parent process.
const LOOK: Duration = Duration::from_secs(1);
/// Time for a stop signal to arrive.
const STOPS_WITHIN: Duration = Duration::from_millis(500);

/// Options of the screen's thread.
#[derive(Debug, Clone, Default)]
pub(crate) struct ScreenOptions {
    pub(crate) alternate: bool,
    pub(crate) colours: bool,
    pub(crate) notify: Option<Notify>,
    /// Interval of queries for the background colour; `None` for never.
    pub(crate) background: Option<Duration>,
    /// Show memory usage in the footer.
    pub(crate) memory: bool,
}

pub(crate) struct TerminalWatch {
    pub(crate) options: ScreenOptions,
    title: Option<String>,
    parent: Option<Pid>,
    listener: Listener,
    asked: Option<Instant>,
    mouse: bool,
}

impl TerminalWatch {
    pub(crate) fn new(options: ScreenOptions) -> Self {
        let parent = getppid();
        Self { options, title: None, parent, listener: Listener::default(), asked: None, mouse: true }
    }

    /// Sets the window title and sends notifications.
    pub(crate) fn tell(&mut self, app: &mut App, out: &mut impl Write) {
        let mut text = String::new();
        let title = app.title();
        if title != self.title {
            text.push_str(&title.as_deref().map(terminal::title).unwrap_or_default());
            self.title = title;
        }
        if let Some((title, body)) = app.take_attention()
            && let Some(how) = self.options.notify
        {
            text.push_str(&terminal::notification(how, &title, &body));
        }
        send(&text, out);
    }

    /// Queries the background colour when due.
    pub(crate) fn ask(&mut self, out: &mut impl Write) {
        let Some(every) = self.options.background else { return };
        let now = Instant::now();
        if self.asked.is_none_or(|before| now.saturating_duration_since(before) >= every) {
            self.asked = Some(now);
            self.listener.asked(now);
            send(background::ASK, out);
        }
    }

    /// Filters the terminal's answers out of the keys; an answer sets the theme.
    pub(crate) fn hear(&mut self, keys: Vec<KeyEvent>, app: &mut App) -> Vec<KeyEvent> {
        let (typed, shade) = self.listener.hear(keys, Instant::now());
        if let Some(shade) = shade {
            app.follow(shade);
        }
        typed
    }

    /// Whether the parent process or the terminal is gone.
    pub(crate) fn is_alone(&self) -> bool {
        getppid() != self.parent || !io::stdin().is_terminal() || hung_up(Duration::ZERO)
    }

    /// Updates the memory usage; returns whether it changed.
    pub(crate) fn weigh(&self, app: &mut App) -> bool {
        let Some(memory) = self.options.memory.then(resident).flatten() else { return false };
        let changed = app.footer.memory != memory;
        app.footer.memory = memory;
        changed
    }

    pub(crate) fn toggle_mouse(&mut self, out: &mut impl Write) {
        self.mouse = !self.mouse;
        send(if self.mouse { terminal::MOUSE_ON } else { terminal::MOUSE_OFF }, out);
    }
}

/// Watches for a closed terminal on a thread of its own, because the screen's thread may be blocked in a read or wait for
/// an editor. A closed terminal is reported as a hang-up signal, which is handled in
/// every state.
pub(crate) struct HangupWatcher(Arc<AtomicBool>);

impl HangupWatcher {
    pub(crate) fn start() -> io::Result<Self> {
        let dismissed = Arc::new(AtomicBool::new(false));
        let (over, parent) = (Arc::clone(&dismissed), getppid());
        std::thread::Builder::new().name("hangup".to_owned()).spawn(move || {
            while !over.load(Ordering::Relaxed) {
                if hung_up(LOOK) || getppid() != parent {
                    let _ = kill_process(getpid(), Signal::HUP);
                    return;
                }
            }
        })?;
        Ok(Self(dismissed))
    }
}

impl Drop for HangupWatcher {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// Whether the terminal is closed within this time.
fn hung_up(within: Duration) -> bool {
    let stdin = io::stdin();
    let mut asked = [PollFd::new(&stdin, PollFlags::empty())];
    let time = Timespec::try_from(within).ok();
    // Hang-ups are reported without requesting any flag.
    let looked = poll(&mut asked, time.as_ref());
    let [asked] = asked;
    looked.is_ok() && asked.revents().intersects(PollFlags::HUP | PollFlags::ERR | PollFlags::NVAL)
}

fn send(text: &str, out: &mut impl Write) {
    if !text.is_empty() {
        // A closed terminal is noticed elsewhere.
        let _ = out.write_all(text.as_bytes()).and_then(|()| out.flush());
    }
}

/// Makes the system report waiting keys again. It reports them once, and the reader handles a resize first, so keys that
/// arrive together with one would wait for the next key. Setting the terminal modes to their current values wakes every
/// reader.
pub(crate) fn announce_keys() {
    if let Ok(modes) = tcgetattr(io::stdin()) {
        let _ = tcsetattr(io::stdin(), OptionalActions::Now, &modes);
    }
}

/// Stops the process as Ctrl+Z does, and returns when it continues. The stop arrives with a delay, and the terminal must
/// not be taken over before.
pub(crate) fn pause() {
    let wait = || {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().ok()?;
        runtime.block_on(async {
            let mut continued = signal(SignalKind::from_raw(libc::SIGCONT)).ok()?;
            kill_current_process_group(Signal::TSTP).ok()?;
            // An orphaned process group is never stopped.
            tokio::time::timeout(STOPS_WITHIN, continued.recv()).await.ok()?
        })
    };
    let _ = std::thread::spawn(wait).join();
}

/// Resident memory, such as `21 MB`; only on Linux.
fn resident() -> Option<String> {
    let text = std::fs::read_to_string("/proc/self/status").ok()?;
    let line = text.lines().find_map(|line| line.strip_prefix("VmRSS:"))?;
    let kilobytes: u64 = line.split_whitespace().next()?.parse().ok()?;
    Some(format!("{} MB", kilobytes / 1024))
}
