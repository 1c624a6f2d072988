//! A TLS server with a certificate that nobody trusts.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

use rustls::pki_types::{CertificateDer, PrivateKeyDer, PrivatePkcs8KeyDer};
use rustls::{ServerConfig, ServerConnection, Stream};

const CERTIFICATE: &[u8] = include_bytes!("../fixtures/self-signed-cert.der");
const KEY: &[u8] = include_bytes!("../fixtures/self-signed-key.der");

/// The server. Answers every request that gets through with status 200. Stops when dropped.
pub struct SelfSigned {
    address: SocketAddr,
    handshakes: Arc<AtomicUsize>,
    requests: Arc<AtomicUsize>,
    stopping: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl SelfSigned {
    pub fn start() -> Self {
        let key = PrivateKeyDer::Pkcs8(PrivatePkcs8KeyDer::from(KEY));
        let config = ServerConfig::builder_with_provider(Arc::new(rustls::crypto::ring::default_provider()))
            .with_safe_default_protocol_versions()
            .expect("TLS versions")
            .with_no_client_auth()
            .with_single_cert(vec![CertificateDer::from(CERTIFICATE)], key)
            .expect("use the certificate");
        let config = Arc::new(config);
        let listener = TcpListener::bind("127.0.0.1:0").expect("bind a loopback port");
        let address = listener.local_addr().expect("read the port");
        let (handshakes, requests) = (Arc::<AtomicUsize>::default(), Arc::<AtomicUsize>::default());
        let stopping = Arc::new(AtomicBool::new(false));
        let (begun, seen, stop) = (Arc::clone(&handshakes), Arc::clone(&requests), Arc::clone(&stopping));
        let thread = std::thread::spawn(move || {
            for socket in listener.incoming() {
                if stop.load(Ordering::SeqCst) {
                    return;
                }
                let Ok(socket) = socket else { continue };
                begun.fetch_add(1, Ordering::SeqCst);
                if serve(socket, &config) {
                    seen.fetch_add(1, Ordering::SeqCst);
                }
            }
        });
        Self { address, handshakes, requests, stopping, thread: Some(thread) }
    }

    /// The base URL, without a slash at its end.
    pub fn url(&self) -> String {
        format!("https://{}", self.address)
    }

    /// How many connections were begun.
    pub fn connections(&self) -> usize {
        self.handshakes.load(Ordering::SeqCst)
    }

    /// How many of them carried a request.
    pub fn requests(&self) -> usize {
        self.requests.load(Ordering::SeqCst)
    }
}

impl Drop for SelfSigned {
    fn drop(&mut self) {
        self.stopping.store(true, Ordering::SeqCst);
        // Wakes the listener.
        let _ = TcpStream::connect(self.address);
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

/// Whether a request arrived.
fn serve(mut socket: TcpStream, config: &Arc<ServerConfig>) -> bool {
    let _ = socket.set_read_timeout(Some(Duration::from_secs(5)));
    let Ok(mut connection) = ServerConnection::new(Arc::clone(config)) else { return false };
    let mut stream = Stream::new(&mut connection, &mut socket);
    let mut buffer = [0; 1024];
    let arrived = matches!(stream.read(&mut buffer), Ok(1..));
    if arrived {
        let _ = stream.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\nConnection: close\r\n\r\n");
    }
    arrived
}

/// A TLS ClientHello with this server name.
pub fn client_hello(name: Option<&str>) -> Vec<u8> {
    let prefixed =
        |content: &[u8]| [&u16::try_from(content.len()).unwrap().to_be_bytes()[..], content].concat();
    let mut extensions = [&[0, 10][..], &prefixed(&[0, 2, 0, 29])].concat();
    if let Some(name) = name {
        let entry = [&[0][..], &prefixed(name.as_bytes())].concat();
        extensions.extend([&[0, 0][..], &prefixed(&prefixed(&entry))].concat());
    }
    let mut body = [&[3, 3][..], &[7; 32], &[0], &prefixed(&[0x13, 1]), &[1, 0]].concat();
    body.extend(prefixed(&extensions));
    let length = u32::try_from(body.len()).unwrap().to_be_bytes();
    let message = [&[1, length[1], length[2], length[3]][..], &body].concat();
    [&[22, 3, 1][..], &prefixed(&message)].concat()
}
