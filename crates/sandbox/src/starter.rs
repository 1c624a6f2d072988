//! A thread that has given up rights and starts commands, which inherit its limits.

use std::io;
use std::sync::mpsc::{SyncSender, sync_channel};
use std::thread;

/// Limit of programs waiting for the thread; further callers wait for space.
const MAX_WAITING: usize = 64;

type Job = Box<dyn FnOnce() + Send>;

/// A thread that has given up rights: what it starts has given them up too, and shares their limits.
///
/// Children end with it, so it lives as long as this value.
#[derive(Debug)]
pub(crate) struct Starter {
    jobs: SyncSender<Job>,
}

impl Starter {
    /// Starts the thread, which calls `give_up` first.
    pub(crate) fn new(give_up: impl FnOnce() -> io::Result<()> + Send + 'static) -> io::Result<Self> {
        let (jobs, receiver) = sync_channel::<Job>(MAX_WAITING);
        let (tell, is_ready) = sync_channel(1);
        thread::Builder::new().name("confined-starter".to_owned()).spawn(move || {
            let given_up = give_up();
            let may_work = given_up.is_ok();
            let _ = tell.send(given_up);
            if may_work {
                receiver.into_iter().for_each(|job| job());
            }
        })?;
        is_ready.recv().map_err(|_| gone())??;
        Ok(Self { jobs })
    }

    /// Runs a function on the thread and waits for it.
    pub(crate) fn run<T: Send + 'static>(
        &self,
        work: impl FnOnce() -> io::Result<T> + Send + 'static,
    ) -> io::Result<T> {
        let (tell, done) = sync_channel(1);
        let job = Box::new(move || drop(tell.send(work())));
        self.jobs.send(job).map_err(|_| gone())?;
        done.recv().map_err(|_| gone())?
    }
}

fn gone() -> io::Error {
    io::Error::other("the thread that starts confined programs has exited")
}
