//! Published ports: a port of this machine that leads to the same port of the commands' own loopback.

use std::ffi::OsStr;
use std::fs;
use std::io;
use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::os::fd::AsFd as _;
use std::path::Path;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Weak};
use std::time::Duration;

use pollux_sandbox::Sandbox;
use pollux_sandbox::holder::Start;

use crate::connect::ARGUMENT;

/// Connections at a time; more wait.
const MAX_CONNECTIONS: usize = 64;
/// How often the end of the session is looked for.
const ROUND: Duration = Duration::from_millis(50);

/// Listens until the sandbox ends.
pub(crate) fn publish(sandbox: &Arc<Sandbox>, port: u16) -> io::Result<()> {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, port))?;
    listener.set_nonblocking(true)?;
    let sandbox = Arc::downgrade(sandbox);
    std::thread::Builder::new()
        .name(format!("port {port}"))
        .spawn(move || serve(&listener, &sandbox, port))?;
    Ok(())
}

fn serve(listener: &TcpListener, sandbox: &Weak<Sandbox>, port: u16) {
    let open = Arc::new(AtomicUsize::new(0));
    while sandbox.strong_count() > 0 {
        if open.load(Ordering::Relaxed) >= MAX_CONNECTIONS {
            std::thread::sleep(ROUND);
            continue;
        }
        let Ok((stream, _)) = listener.accept() else {
            std::thread::sleep(ROUND);
            continue;
        };
        let (sandbox, count) = (sandbox.clone(), Arc::clone(&open));
        open.fetch_add(1, Ordering::Relaxed);
        let carried = std::thread::Builder::new().spawn(move || {
            // A connection that fails is closed; the program at its other end says so.
            let _ = carry(&sandbox, &stream, port);
            count.fetch_sub(1, Ordering::Relaxed);
        });
        if carried.is_err() {
            open.fetch_sub(1, Ordering::Relaxed);
        }
    }
}

fn carry(sandbox: &Weak<Sandbox>, stream: &TcpStream, port: u16) -> io::Result<()> {
    stream.set_nonblocking(false)?;
    let null = fs::OpenOptions::new().read(true).write(true).open("/dev/null")?;
    let (mut held, _watch) = {
        let sandbox = sandbox.upgrade().ok_or(io::ErrorKind::BrokenPipe)?;
        let program = sandbox.own_program().ok_or(io::ErrorKind::NotFound)?;
        let port = port.to_string();
        let start = Start {
            program: program.as_os_str(),
            arguments: vec![OsStr::new(ARGUMENT), OsStr::new(&port)],
            directory: Path::new("/"),
            environment: &[],
            streams: [stream.as_fd(), stream.as_fd(), null.as_fd()],
        };
        sandbox.start(&start)?
    };
    held.wait().map(drop)
}
