//! A pool of threads that start programs.
//!
//! Spawning blocks until the child has called `exec`, so several threads start programs in parallel. The kernel
//! kills a child together with the thread that started it, so these threads live as long as their children may.

use std::io;
use std::sync::mpsc::{SyncSender, sync_channel};
use std::sync::{Arc, Mutex, OnceLock};
use std::thread;

use pollux_domain::sync::Locked as _;

use tokio::process::{Child, Command};
use tokio::runtime::Handle;
use tokio::sync::{mpsc, oneshot};

use crate::group::Group;

const MAX_THREADS: usize = 4;
/// Limit of programs waiting for a thread; further callers wait for space.
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

    /// Starts a program that leads its own group.
    pub(crate) fn start(&self, mut command: Command) -> io::Result<(Child, Group)> {
        let runtime = Handle::current();
        self.run(move || {
            let _runtime = runtime.enter();
            started(&mut command)
        })
    }
}

/// Starts a program that leads its own group, on one of a few threads. If the caller is gone, the group is
/// killed.
pub(crate) async fn start(mut command: Command) -> io::Result<(Child, Group)> {
    static JOBS: OnceLock<Option<mpsc::Sender<Job>>> = OnceLock::new();
    let Some(jobs) = JOBS.get_or_init(|| threads().ok()) else { return started(&mut command) };
    let (tell, child) = oneshot::channel();
    let runtime = Handle::current();
    let job: Job = Box::new(move || {
        let _runtime = runtime.enter();
        // When dropped, the group kills itself.
        let _ = tell.send(started(&mut command));
    });
    jobs.send(job).await.map_err(|_| gone())?;
    child.await.map_err(|_| gone())?
}

fn gone() -> io::Error {
    io::Error::other("the threads that start programs have exited")
}

fn threads() -> io::Result<mpsc::Sender<Job>> {
    let (sender, receiver) = mpsc::channel(MAX_WAITING);
    let receiver = Arc::new(Mutex::new(receiver));
    let count = thread::available_parallelism().map_or(1, |count| count.get().min(MAX_THREADS));
    for _ in 0..count {
        let receiver = Arc::clone(&receiver);
        thread::Builder::new().name("starter".to_owned()).spawn(move || work(&receiver))?;
    }
    Ok(sender)
}

fn work(jobs: &Mutex<mpsc::Receiver<Job>>) {
    loop {
        let next = jobs.locked().blocking_recv();
        let Some(job) = next else { return };
        job();
    }
}

fn started(command: &mut Command) -> io::Result<(Child, Group)> {
    let child = command.spawn()?;
    let group = Group::led_by(&child)?;
    Ok((child, group))
}
