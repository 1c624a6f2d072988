use std::cell::Cell;

use rustls::RootCertStore;
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject as _;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio::task::LocalSet;
use tokio_rustls::TlsConnector;

use super::*;

/// Answers with the size of the body; `/public` takes none.
struct Sizes {
    /// Answers wait for it.
    go: CancellationToken,
    /// Requests that were read.
    read: Cell<usize>,
}

impl Site for Sizes {
    type Caller = bool;

    async fn admit(&self, head: &Head) -> Result<bool, Box<Response>> {
        Ok(head.path != "/public")
    }

    fn takes_body(&self, caller: &bool) -> bool {
        *caller
    }

    async fn answer(self: Rc<Self>, request: Request, _caller: bool) -> Response {
        self.read.set(self.read.get() + 1);
        self.go.cancelled().await;
        Response::text(StatusCode::OK, request.body.len().to_string())
    }
}

fn limits() -> Limits {
    Limits { body: 1 << 20, bodies: 1 << 20, connections: 100, per_peer: 2, draining: Duration::ZERO }
}

/// Starts a server; gives its address and its site.
async fn start() -> (SocketAddr, Rc<Sizes>) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let site = Rc::new(Sizes { go: CancellationToken::new(), read: Cell::new(0) });
    tokio::task::spawn_local(serve(listener, Rc::clone(&site), limits(), CancellationToken::new()));
    (address, site)
}

async fn send(address: SocketAddr, path: &str, size: usize) -> TcpStream {
    let mut stream = TcpStream::connect(address).await.unwrap();
    let head =
        format!("POST {path} HTTP/1.1\r\nHost: x\r\nConnection: close\r\nContent-Length: {size}\r\n\r\n");
    stream.write_all(head.as_bytes()).await.unwrap();
    // A server that refuses does not read all of it.
    let _ = stream.write_all(&vec![b'x'; size]).await;
    stream
}

async fn answer(mut stream: TcpStream) -> String {
    let mut text = Vec::new();
    let _ = stream.read_to_end(&mut text).await;
    String::from_utf8_lossy(&text).into_owned()
}

#[tokio::test]
async fn public_addresses_read_no_body() {
    let test = async {
        let (address, site) = start().await;
        site.go.cancel();
        assert!(answer(send(address, "/public", 0).await).await.starts_with("HTTP/1.1 200"));
        assert!(answer(send(address, "/public", 1).await).await.starts_with("HTTP/1.1 413"));
        assert!(answer(send(address, "/", 5_000).await).await.ends_with("5000"));
    };
    LocalSet::new().run_until(test).await;
}

#[tokio::test]
async fn all_bodies_together_are_limited_until_they_are_answered() {
    let test = async {
        let (address, site) = start().await;
        let first = send(address, "/", 1 << 20).await;
        while site.read.get() == 0 {
            tokio::task::yield_now().await;
        }
        let second = answer(send(address, "/", 200_000).await).await;
        assert!(second.starts_with("HTTP/1.1 503"), "{second}");
        site.go.cancel();
        assert!(answer(first).await.ends_with("1048576"));
        assert!(answer(send(address, "/", 200_000).await).await.ends_with("200000"));
    };
    LocalSet::new().run_until(test).await;
}

#[tokio::test]
async fn an_address_has_a_limited_number_of_connections() {
    let test = async {
        let (address, site) = start().await;
        let (one, other) = (send(address, "/", 1).await, send(address, "/", 1).await);
        assert_eq!(answer(send(address, "/", 1).await).await, "", "closed without an answer");
        site.go.cancel();
        assert!(answer(one).await.ends_with('1') && answer(other).await.ends_with('1'));
        // The server notices a moment later that they are gone.
        while !answer(send(address, "/", 1).await).await.starts_with("HTTP/1.1 200") {
            tokio::task::yield_now().await;
        }
    };
    LocalSet::new().run_until(test).await;
}

/// The certificate and key of this name, as the files of an operator.
fn install(folder: &std::path::Path, name: &str) -> [std::path::PathBuf; 2] {
    use std::os::unix::fs::PermissionsExt as _;
    let fixtures = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures");
    ["pem", "key"].map(|kind| {
        let place = folder.join(kind);
        std::fs::copy(fixtures.join(format!("{name}.{kind}")), &place).unwrap();
        std::fs::set_permissions(&place, std::fs::Permissions::from_mode(0o600)).unwrap();
        place
    })
}

/// Asks over TLS; gives the answer and the certificate that the server showed.
async fn ask_over_tls(address: SocketAddr) -> (String, Vec<u8>) {
    let authority = include_bytes!("../../tests/fixtures/authority.pem");
    let mut roots = RootCertStore::empty();
    roots.add(CertificateDer::from_pem_slice(authority).unwrap()).unwrap();
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let config = rustls::ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_root_certificates(roots)
        .with_no_client_auth();
    let stream = TcpStream::connect(address).await.unwrap();
    let name = "localhost".try_into().unwrap();
    let mut stream = TlsConnector::from(Arc::new(config)).connect(name, stream).await.unwrap();
    let shown = stream.get_ref().1.peer_certificates().unwrap()[0].to_vec();
    stream.write_all(b"GET /public HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n").await.unwrap();
    let mut text = Vec::new();
    let _ = stream.read_to_end(&mut text).await;
    (String::from_utf8_lossy(&text).into_owned(), shown)
}

#[tokio::test]
async fn over_tls_a_new_certificate_is_shown_to_new_connections_and_plain_requests_get_nothing() {
    let test = async {
        let dir = tempfile::tempdir().unwrap();
        let [certificate, key] = install(dir.path(), "first");
        let identity = Rc::new(TlsIdentity::load(&certificate, &key).unwrap());
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let site = Rc::new(Sizes { go: CancellationToken::new(), read: Cell::new(0) });
        site.go.cancel();
        let serving =
            serve_tls(listener, Rc::clone(&identity), Rc::clone(&site), limits(), CancellationToken::new());
        tokio::task::spawn_local(serving);
        let (text, first) = ask_over_tls(address).await;
        assert!(text.starts_with("HTTP/1.1 200"), "{text}");
        let plain = answer(send(address, "/public", 0).await).await;
        assert!(!plain.contains("HTTP"), "{plain}");
        install(dir.path(), "second");
        assert!(identity.reload_if_changed().unwrap());
        let (text, second) = ask_over_tls(address).await;
        assert!(text.starts_with("HTTP/1.1 200") && first != second, "{text}");
        assert_eq!(site.read.get(), 2);
    };
    LocalSet::new().run_until(test).await;
}
