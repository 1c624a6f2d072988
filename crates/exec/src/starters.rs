//! A pool of threads that start programs.
//!
//! Spawning blocks until the child has called `exec`, so several threads start programs in parallel. The kernel
//! kills a child together with the thread that started it, so these threads live as long as their children may.

use std::io;
use std::sync::{Arc, Mutex, OnceLock};
use std::thread;

use pollux_domain::sync::Locked as _;

use tokio::process::Command;
use tokio::runtime::Handle;
use tokio::sync::{mpsc, oneshot};

use crate::child::{Child, started};
use crate::group::Group;

const MAX_THREADS: usize = 4;
/// Limit of programs waiting for a thread; further callers wait for space.
const MAX_WAITING: usize = 64;

type Job = Box<dyn FnOnce() + Send>;

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
