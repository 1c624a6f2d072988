//! What the screen's thread does besides drawing: the window's name, calls for attention, and whether anybody is
//! still there.

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

/// How often it is looked for a parent that is gone.
const LOOK: Duration = Duration::from_secs(1);
/// How long a stop may take to come.
const STOPS_WITHIN: Duration = Duration::from_millis(500);

/// What the settings say about it.
#[derive(Debug, Clone, Default)]
pub(crate) struct ScreenOptions {
    pub(crate) alternate: bool,
    pub(crate) colours: bool,
    pub(crate) notify: Option<Notify>,
    /// How often the terminal is asked whether it is dark or light; `None` never.
    pub(crate) background: Option<Duration>,
    /// The footer says how much memory is used.
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

    /// Names the window and calls for attention, if there is reason to.
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

    /// Asks the terminal for its background, if it is time to.
    pub(crate) fn ask(&mut self, out: &mut impl Write) {
        let Some(every) = self.options.background else { return };
        let now = Instant::now();
        if self.asked.is_none_or(|before| now.saturating_duration_since(before) >= every) {
            self.asked = Some(now);
            self.listener.asked(now);
            send(background::ASK, out);
        }
    }

    /// The keys that a person typed. What the terminal answered becomes the theme.
    pub(crate) fn hear(&mut self, keys: Vec<KeyEvent>, app: &mut App) -> Vec<KeyEvent> {
        let (typed, shade) = self.listener.hear(keys, Instant::now());
        if let Some(shade) = shade {
            app.follow(shade);
        }
        typed
    }

    /// Whether whoever started us is gone, or the terminal is.
    pub(crate) fn is_alone(&self) -> bool {
        getppid() != self.parent || !io::stdin().is_terminal() || hung_up(Duration::ZERO)
    }

    /// Whether the footer's figure changed.
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

/// Waits for the end of the terminal beside everything else: the screen's thread may be inside of a read that never
/// returns from a terminal that is gone, or wait for an editor. The end is told as a hang-up signal, which is heeded in
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

/// Whether the terminal was closed, or is within this time.
fn hung_up(within: Duration) -> bool {
    let stdin = io::stdin();
    let mut asked = [PollFd::new(&stdin, PollFlags::empty())];
    let time = Timespec::try_from(within).ok();
    // What can be read is of no interest here; the end is told in any case.
    let looked = poll(&mut asked, time.as_ref());
    let [asked] = asked;
    looked.is_ok() && asked.revents().intersects(PollFlags::HUP | PollFlags::ERR | PollFlags::NVAL)
}

fn send(text: &str, out: &mut impl Write) {
    if !text.is_empty() {
        // A terminal that is gone is noticed elsewhere.
        let _ = out.write_all(text.as_bytes()).and_then(|()| out.flush());
    }
}

/// Makes the system tell again of keys that wait. It tells of them only once, and whoever reads them looks at a change of
/// the window's size first: keys that come together with it would wait for the next one. Modes that are set to what they
/// are change nothing and wake every reader.
pub(crate) fn announce_keys() {
    if let Ok(modes) = tcgetattr(io::stdin()) {
        let _ = tcsetattr(io::stdin(), OptionalActions::Now, &modes);
    }
}

/// Stops the program as Ctrl+Z does, and returns when it goes on. The stop comes a moment after it is asked for;
/// whoever took the terminal back before would leave it in disorder.
pub(crate) fn pause() {
    let wait = || {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().ok()?;
        runtime.block_on(async {
            let mut continued = signal(SignalKind::from_raw(libc::SIGCONT)).ok()?;
            kill_current_process_group(Signal::TSTP).ok()?;
            // A group that nobody could wake again is never stopped.
            tokio::time::timeout(STOPS_WITHIN, continued.recv()).await.ok()?
        })
    };
    let _ = std::thread::spawn(wait).join();
}

/// Memory in use, such as `21 MB`; known on Linux only.
fn resident() -> Option<String> {
    let text = std::fs::read_to_string("/proc/self/status").ok()?;
    let line = text.lines().find_map(|line| line.strip_prefix("VmRSS:"))?;
    let kilobytes: u64 = line.split_whitespace().next()?.parse().ok()?;
    Some(format!("{} MB", kilobytes / 1024))
}
