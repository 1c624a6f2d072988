//! The program as a helper inside the sandbox: connects its standard streams to a host through the proxy, or to a port
//! of the commands' own loopback.
//!
//! `__connect HOST PORT` is the `ProxyCommand` of ssh. `__connect PORT` carries a connection to a published port.

use std::ffi::OsString;
use std::io::{self, Write as _};
use std::net::{Ipv4Addr, Shutdown, TcpStream};

use pollux_egress::client::open_tunnel;
use pollux_egress::host::Authority;

/// The port of the proxy inside.
pub(crate) const PROXY_PORT: u16 = 3128;
/// The first argument of a helper's command line.
pub(crate) const ARGUMENT: &str = "__connect";

/// Runs the helper if this process was started as one. Returns the exit code.
pub fn connect_if_asked(arguments: &[OsString]) -> Option<u8> {
    let words: Vec<&str> = arguments.iter().map(|word| word.to_str().unwrap_or_default()).collect();
    let opened = match words.as_slice() {
        [ARGUMENT, host, port] => through_proxy(host, port),
        [ARGUMENT, port] => to_own_port(port),
        _ => return None,
    };
    let copied = opened.and_then(copy);
    if let Err(error) = &copied {
        // Nobody can be told if this fails too.
        let _ = writeln!(io::stderr(), "pollux: {error}");
    }
    Some(u8::from(copied.is_err()))
}

fn through_proxy(host: &str, port: &str) -> io::Result<TcpStream> {
    let invalid = |error| io::Error::new(io::ErrorKind::InvalidInput, error);
    let target = Authority::parse(&format!("{host}:{port}"), None).map_err(invalid)?;
    let mut stream = TcpStream::connect((Ipv4Addr::LOCALHOST, PROXY_PORT))?;
    open_tunnel(&mut stream, &target, None).map_err(io::Error::other)?;
    Ok(stream)
}

fn to_own_port(port: &str) -> io::Result<TcpStream> {
    let port: u16 = port.parse().map_err(io::Error::other)?;
    TcpStream::connect((Ipv4Addr::LOCALHOST, port))
        .or_else(|_| TcpStream::connect((std::net::Ipv6Addr::LOCALHOST, port)))
}

/// Copies in both directions until the server has nothing more to say.
fn copy(stream: TcpStream) -> io::Result<()> {
    let mut up = stream.try_clone()?;
    std::thread::spawn(move || {
        let _ = io::copy(&mut io::stdin().lock(), &mut up);
        let _ = up.shutdown(Shutdown::Write);
    });
    let mut down = stream;
    let mut output = io::stdout().lock();
    let mut buffer = vec![0; 64 << 10];
    loop {
        match io::Read::read(&mut down, &mut buffer)? {
            0 => return Ok(()),
            count => {
                output.write_all(buffer.get(..count).unwrap_or_default())?;
                // The other side waits for each answer, however short.
                output.flush()?;
            }
        }
    }
}
