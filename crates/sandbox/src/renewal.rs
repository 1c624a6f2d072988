//! Keeps the view of commands up to date while they run.
//!
//! A mount over a file goes away if a program outside replaces the file, and a socket may appear at any time. So a thread
//! plans the view again when something changed in a folder with hidden or protected names, and a few times a second.

use std::io;
use std::mem::MaybeUninit;
use std::os::fd::OwnedFd;
use std::sync::{Arc, Mutex, Weak};
use std::time::Duration;

use pollux_domain::sync::Locked as _;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::inotify::{self, CreateFlags, WatchFlags};

use crate::holder::Holder;
use crate::mounts::{Placed, Planner, changes};
use crate::process_table;

/// How often it looks without an event.
const ROUND: Timespec = Timespec { tv_sec: 0, tv_nsec: 250_000_000 };
/// The time between two looks, however much happens.
const PAUSE: Duration = Duration::from_millis(2);

/// The processes of a session.
#[derive(Debug, Default)]
pub(crate) struct Session {
    pub(crate) holder: Option<Arc<Holder>>,
    pub(crate) mounted: Vec<Placed>,
    /// Replaced holders, whose commands may still run.
    pub(crate) older: Vec<Arc<Holder>>,
    /// Whether a thread keeps its view up to date.
    is_renewed: bool,
}

impl Session {
    /// Mounts what is new.
    pub(crate) fn renew(&mut self, plan: Vec<Placed>) -> io::Result<()> {
        let Some(holder) = &self.holder else { return Ok(()) };
        let new = changes(&self.mounted, &plan);
        if !new.is_empty() {
            holder.mount(&new)?;
            self.mounted = plan;
        }
        Ok(())
    }

    /// Whether commands run, or something that they left behind.
    fn is_busy(&self) -> bool {
        self.holder.as_ref().is_some_and(|holder| process_table::has_living_child(holder.id()))
    }
}

/// Starts the thread, unless it runs. It ends with the commands.
pub(crate) fn renew_while_commands_run(session: &Arc<Mutex<Session>>, planner: &Arc<Planner>) {
    let mut locked = session.locked();
    if locked.is_renewed {
        return;
    }
    let (session, planner) = (Arc::downgrade(session), Arc::clone(planner));
    let started = std::thread::Builder::new().name("sandbox-view".to_owned()).spawn(move || {
        renew(&session, &planner);
    });
    // Without it, the next command plans the view again.
    locked.is_renewed = started.is_ok();
}

fn renew(session: &Weak<Mutex<Session>>, planner: &Planner) {
    let events = watch(planner);
    loop {
        wait(events.as_ref());
        let Some(session) = session.upgrade() else { return };
        // The lock is kept until the end, so that the holder is never dropped here: its end takes time, and the owner of
        // the session waits for it.
        let mut session = session.locked();
        if !session.is_busy() {
            session.is_renewed = false;
            return;
        }
        // If it fails, the next command fails too, and says why.
        let _ = planner.sockets().and_then(|sockets| {
            let plan = planner.plan().into_iter().chain(sockets).collect();
            session.renew(plan)
        });
        drop(session);
        std::thread::sleep(PAUSE);
    }
}

/// Events about new names in the folders that matter.
fn watch(planner: &Planner) -> Option<OwnedFd> {
    let events = inotify::init(CreateFlags::CLOEXEC | CreateFlags::NONBLOCK).ok()?;
    for folder in planner.watched() {
        // A folder that does not exist, or one too many for the user's limit: the next round finds it.
        let _ = inotify::add_watch(
            &events,
            folder,
            WatchFlags::CREATE | WatchFlags::MOVED_TO | WatchFlags::ONLYDIR | WatchFlags::DONT_FOLLOW,
        );
    }
    Some(events)
}

/// Waits for an event or the time of the next look.
fn wait(events: Option<&OwnedFd>) {
    let Some(events) = events else {
        std::thread::sleep(Duration::from_nanos(ROUND.tv_nsec.unsigned_abs()));
        return;
    };
    let _ = poll(&mut [PollFd::new(events, PollFlags::IN)], Some(&ROUND));
    let mut buffer = [MaybeUninit::<u8>::uninit(); 4096];
    let mut reader = inotify::Reader::new(events, &mut buffer);
    while reader.next().is_ok() {}
}
