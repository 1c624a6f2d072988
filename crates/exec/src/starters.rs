//! Threads that start programs, so that many start side by side.
//!
//! Starting a program blocks until the system has put it in the place of a copy of this process. And the system
//! ends a child with the thread that started it, so these threads stay as long as the process.

use std::io;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::thread;

use tokio::process::{Child, Command};
use tokio::runtime::Handle;
use tokio::sync::oneshot;

use crate::process::Group;

const MOST: usize = 4;

struct Job {
    command: Command,
    runtime: Handle,
    started: oneshot::Sender<io::Result<(Child, Group)>>,
}

/// Starts a program that leads its own group. If nobody waits for it any more, the group is killed.
pub(crate) async fn start(mut command: Command) -> io::Result<(Child, Group)> {
    static JOBS: OnceLock<Option<Sender<Job>>> = OnceLock::new();
    let Some(jobs) = JOBS.get_or_init(|| threads().ok()) else { return started(&mut command) };
    let (started, child) = oneshot::channel();
    let job = Job { command, runtime: Handle::current(), started };
    let gone = || io::Error::other("the threads that start programs are gone");
    jobs.send(job).map_err(|_| gone())?;
    child.await.map_err(|_| gone())?
}

fn threads() -> io::Result<Sender<Job>> {
    let (sender, receiver) = channel();
    let receiver = Arc::new(Mutex::new(receiver));
    let count = thread::available_parallelism().map_or(1, |count| count.get().min(MOST));
    for _ in 0..count {
        let receiver = Arc::clone(&receiver);
        thread::Builder::new().name("starter".to_owned()).spawn(move || work(&receiver))?;
    }
    Ok(sender)
}

fn work(jobs: &Mutex<Receiver<Job>>) {
    loop {
        let next = jobs.lock().unwrap_or_else(PoisonError::into_inner).recv();
        let Ok(Job { mut command, runtime, started: tell }) = next else { return };
        let _runtime = runtime.enter();
        // Dropped, the group kills itself.
        let _ = tell.send(started(&mut command));
    }
}

fn started(command: &mut Command) -> io::Result<(Child, Group)> {
    let child = command.spawn()?;
    let group = Group::led_by(&child)?;
    Ok((child, group))
}
