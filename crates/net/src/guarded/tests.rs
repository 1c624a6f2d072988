use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpListener;

use super::*;

/// 20 000 times the letter a, compressed with gzip.
const COMPRESSED: &[u8] = &[
    0x1f, 0x8b, 0x08, 0x00, 0x00, 0x00, 0x00, 0x00, 0x02, 0x03, 0xed, 0xc1, 0x31, 0x01, 0x00, 0x00, 0x00,
    0xc2, 0xa0, 0xac, 0xeb, 0x5f, 0xc2, 0x1a, 0x1e, 0x40, 0x01, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00,
    0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0xf0, 0x60, 0x31, 0x87, 0xbd, 0xca,
    0x20, 0x4e, 0x00, 0x00,
];

/// A server on the loopback address that answers by path; what was asked is kept.
struct Server {
    port: u16,
    asked: Arc<Mutex<Vec<String>>>,
    task: tokio::task::JoinHandle<()>,
}

impl Drop for Server {
    fn drop(&mut self) {
        self.task.abort();
    }
}

async fn serve(answer: impl Fn(&str, u16) -> Vec<u8> + Send + 'static) -> Server {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = listener.local_addr().unwrap().port();
    let asked = Arc::new(Mutex::new(Vec::new()));
    let kept = Arc::clone(&asked);
    let task = tokio::spawn(async move {
        loop {
            let Ok((mut stream, _)) = listener.accept().await else { return };
            let mut request = Vec::new();
            let mut buffer = [0; 4096];
            while !request.windows(4).any(|end| end == b"\r\n\r\n") {
                match stream.read(&mut buffer).await {
                    Ok(count) if count > 0 => request.extend_from_slice(&buffer[..count]),
                    _ => break,
                }
            }
            let text = String::from_utf8_lossy(&request).into_owned();
            let path = text.split(' ').nth(1).unwrap_or_default().to_owned();
            kept.lock().unwrap().push(path.clone());
            let bytes = answer(&path, port);
            let _ = stream.write_all(&bytes).await;
            if path == "/hang" {
                std::future::pending::<()>().await;
            }
            let _ = stream.shutdown().await;
        }
    });
    Server { port, asked, task }
}

fn page(head: &str, body: &[u8]) -> Vec<u8> {
    let mut bytes =
        format!("HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: {}\r\n{head}\r\n", body.len())
            .into_bytes();
    bytes.extend_from_slice(body);
    bytes
}

fn moved(to: &str) -> Vec<u8> {
    format!("HTTP/1.1 302 Found\r\nConnection: close\r\nContent-Length: 0\r\nLocation: {to}\r\n\r\n")
        .into_bytes()
}

fn client(allowed: &[&str], resolver: Resolver) -> GuardedClient {
    GuardedClient::new(GuardedOptions {
        client: ClientOptions::new("test"),
        allowed: AllowedHosts::new(allowed.iter().map(|host| (*host).to_owned())),
        limits: FetchLimits { time: Duration::from_secs(10), bytes: 1000 },
        resolver,
    })
    .unwrap()
}

/// Every name leads to the next of these addresses; the last one stays.
fn leading_to(addresses: &'static [&'static str]) -> (Resolver, Arc<AtomicUsize>) {
    let count = Arc::new(AtomicUsize::new(0));
    let counter = Arc::clone(&count);
    let resolver: Resolver = Arc::new(move |_| {
        let at = counter.fetch_add(1, Ordering::SeqCst).min(addresses.len() - 1);
        Box::pin(async move { Ok(vec![addresses[at].parse().unwrap()]) })
    });
    (resolver, count)
}

fn url(text: &str) -> Url {
    Url::parse(text).unwrap()
}

#[tokio::test]
async fn a_page_of_an_allowed_host_is_read_with_its_type() {
    let server = serve(|_, _| page("Content-Type: Text/HTML; charset=utf-8\r\n", b"hi")).await;
    let client = client(&["127.0.0.1"], system_resolver());
    let page = client.get(url(&format!("http://127.0.0.1:{}/x", server.port))).await.unwrap();
    assert_eq!((page.media_type.as_str(), page.body.as_slice()), ("text/html", b"hi".as_slice()));
}

#[tokio::test]
async fn nothing_is_sent_to_an_inner_address() {
    let server = serve(|_, _| page("", b"secret")).await;
    let client = client(&[], leading_to(&["127.0.0.1"]).0);
    for host in ["127.0.0.1", "localhost", "2130706433", "[::ffff:127.0.0.1]", "rebind.example.com"] {
        let error = client.get(url(&format!("http://{host}:{}/", server.port))).await.unwrap_err();
        assert!(matches!(error, FetchError::Refused(_)), "{host}: {error:?}");
    }
    assert!(server.asked.lock().unwrap().is_empty());
}

#[tokio::test]
async fn redirects_are_judged_like_the_first_address() {
    let server = serve(|path, port| match path {
        "/number" => moved(&format!("http://127.0.0.2:{port}/secret")),
        "/name" => moved(&format!("http://inner.example.com:{port}/secret")),
        "/file" => moved("file:///etc/passwd"),
        "/user" => moved(&format!("http://a:b@127.0.0.1:{port}/secret")),
        "/bad" => moved("http://[::/"),
        "/loop" => moved("/loop"),
        "/one" => moved("two"),
        "/two" => page("", b"arrived"),
        _ => page("", b"secret"),
    })
    .await;
    let client = client(&["127.0.0.1"], leading_to(&["127.0.0.1"]).0);
    let get = |path: &str| client.get(url(&format!("http://127.0.0.1:{}{path}", server.port)));
    assert!(matches!(get("/number").await, Err(FetchError::Refused(Refusal::PrivateAddress(_)))));
    assert!(matches!(get("/name").await, Err(FetchError::Refused(Refusal::LeadsInside { .. }))));
    assert!(matches!(get("/file").await, Err(FetchError::Refused(Refusal::Scheme))));
    assert!(matches!(get("/user").await, Err(FetchError::Refused(Refusal::UserInfo))));
    assert!(matches!(get("/bad").await, Err(FetchError::BadRedirect)));
    assert!(matches!(get("/loop").await, Err(FetchError::TooManyRedirects)));
    let arrived = get("/one").await.unwrap();
    assert_eq!((arrived.url.path(), arrived.body.as_slice()), ("/two", b"arrived".as_slice()));
    let asked = server.asked.lock().unwrap();
    assert!(!asked.iter().any(|path| path == "/secret"), "{asked:?}");
    assert_eq!(asked.iter().filter(|path| *path == "/loop").count(), MAX_REDIRECTS + 1);
}

#[tokio::test]
async fn a_name_is_resolved_once_and_the_connection_gets_the_judged_addresses() {
    let (resolver, count) = leading_to(&["8.8.8.8", "127.0.0.1"]);
    let guard = Guard { allowed: AllowedHosts::default(), resolver, proxies: AllowedHosts::default() };
    let resolver = GuardedResolver(Arc::new(guard));
    let name = || "rebind.example.com".parse::<Name>().unwrap();
    let given: Vec<SocketAddr> = resolver.resolve(name()).await.unwrap().collect();
    assert_eq!(given, ["8.8.8.8:0".parse().unwrap()]);
    assert_eq!(count.load(Ordering::SeqCst), 1);
    let Err(error) = resolver.resolve(name()).await else { panic!("the second answer was not judged") };
    assert!(error.downcast_ref::<Refusal>().is_some(), "{error}");
}

#[tokio::test]
async fn a_look_before_the_fetch_does_not_stand_for_the_one_at_connecting() {
    let server = serve(|_, _| page("", b"secret")).await;
    let client = client(&[], leading_to(&["8.8.8.8", "127.0.0.1"]).0);
    let target = url(&format!("http://rebind.example.com:{}/", server.port));
    assert_eq!(client.screen(&target).await, Ok(()));
    assert!(matches!(client.get(target).await, Err(FetchError::Refused(Refusal::LeadsInside { .. }))));
    assert!(server.asked.lock().unwrap().is_empty());
}

#[tokio::test]
async fn screening_looks_at_names_and_what_they_lead_to() {
    let client = client(&["inner.example.com"], leading_to(&["192.168.0.9"]).0);
    assert_eq!(client.screen(&url("http://inner.example.com/")).await, Ok(()));
    assert!(client.screen(&url("http://other.example.com/")).await.is_err());
    assert!(client.screen(&url("http://10.0.0.1/")).await.is_err());
    assert_eq!(client.screen(&url("http://9.9.9.9/")).await, Ok(()));
}

#[tokio::test]
async fn size_and_time_are_limited() {
    let server = serve(|path, _| match path {
        "/announced" => b"HTTP/1.1 200 OK\r\nContent-Length: 5000\r\n\r\n".to_vec(),
        "/endless" => {
            let mut bytes = b"HTTP/1.1 200 OK\r\nConnection: close\r\n\r\n".to_vec();
            bytes.resize(5000, b'x');
            bytes
        }
        "/bomb" => page("Content-Encoding: gzip\r\n", COMPRESSED),
        "/fits" => page("", &[b'x'; 1000]),
        "/missing" => b"HTTP/1.1 404 Not Found\r\nConnection: close\r\nContent-Length: 0\r\n\r\n".to_vec(),
        _ => Vec::new(),
    })
    .await;
    let mut client = client(&["127.0.0.1"], system_resolver());
    let target = |path: &str| url(&format!("http://127.0.0.1:{}{path}", server.port));
    for path in ["/announced", "/endless", "/bomb"] {
        let error = client.get(target(path)).await.unwrap_err();
        assert!(matches!(error, FetchError::TooLarge(1000)), "{path}: {error:?}");
    }
    assert_eq!(client.get(target("/fits")).await.unwrap().body.len(), 1000);
    assert!(matches!(client.get(target("/missing")).await, Err(FetchError::Status(StatusCode::NOT_FOUND))));
    client.limits.time = Duration::from_millis(50);
    assert!(matches!(client.get(target("/hang")).await, Err(FetchError::TimedOut(_))));
}

#[tokio::test]
async fn a_proxy_may_stand_inside_but_is_not_asked_for_what_does() {
    let proxy = serve(|_, _| page("", b"by proxy")).await;
    let through = |resolver| {
        let mut options = ClientOptions::new("test");
        options.proxies.http = Some(format!("http://proxy.example.net:{}", proxy.port));
        GuardedClient::new(GuardedOptions {
            client: options,
            allowed: AllowedHosts::default(),
            limits: FetchLimits { time: Duration::from_secs(10), bytes: 1000 },
            resolver,
        })
        .unwrap()
    };
    let by_name: Resolver = Arc::new(|name| {
        let address = if name == "proxy.example.net" { "127.0.0.1" } else { "8.8.8.8" };
        Box::pin(async move { Ok(vec![address.parse().unwrap()]) })
    });
    let found = through(by_name).get(url("http://public.example.com/x")).await.unwrap();
    assert_eq!(found.body, b"by proxy");
    let refused = through(leading_to(&["127.0.0.1"]).0);
    for host in ["inner.example.com", "proxy.example.net", "127.0.0.2", "localhost"] {
        let error = refused.get(url(&format!("http://{host}:{}/y", proxy.port))).await.unwrap_err();
        assert!(matches!(error, FetchError::Refused(_)), "{host}: {error:?}");
    }
    assert_eq!(*proxy.asked.lock().unwrap(), ["http://public.example.com/x"]);
}
