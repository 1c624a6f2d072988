//! A server with scripted sessions, and a client that sends whatever it is told to.

use std::net::SocketAddr;
use std::rc::Rc;

use pollux_domain::approval::{ApprovalMode, ApprovalRequest, Offer, Outcome, Subject, Why};
use pollux_domain::event::{Asked, Event, Op, OpResult, TurnEnd};
use pollux_domain::id::{CallId, SessionId};
use pollux_host::SessionReport;
use pollux_host::hub::{Hosted, Limits, Link, Operations, Scopes};
use pollux_resident::{Pages as _, Sessions};
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio::sync::{mpsc, watch};
use tokio::task::LocalSet;
use tokio_util::sync::CancellationToken;

use crate::WebPages;

/// Rights of a page that is not told to watch only.
pub(super) const USES: Scopes = Scopes { admin: false, ..Scopes::ALL };

/// A server with one session named `s1`.
pub(super) struct Server {
    pub(super) pages: WebPages,
    pub(super) sessions: Rc<Sessions>,
    pub(super) stop: CancellationToken,
    pub(super) port: u16,
    /// Turns that ended.
    pub(super) turns: watch::Receiver<usize>,
    _dir: tempfile::TempDir,
}

/// Runs a test where local tasks can run.
pub(super) fn with_server(test: impl AsyncFnOnce(Server)) {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    LocalSet::new().block_on(&runtime, async {
        let dir = tempfile::tempdir().unwrap();
        let sessions = Sessions::logging_to(dir.path().join("core.log"));
        let turns = scripted(&sessions);
        let (pages, stop) = (WebPages::default(), CancellationToken::new());
        let link = pages.link(&sessions, USES, &stop).await.unwrap();
        let rest = link.url.strip_prefix("http://127.0.0.1:").unwrap();
        let port = rest.split('/').next().unwrap().parse().unwrap();
        test(Server { pages, sessions, stop, port, turns, _dir: dir }).await;
    });
}

/// A session that repeats its prompt, asks, and ends its turn when it is answered or stopped. `flood` makes it say much.
fn scripted(sessions: &Rc<Sessions>) -> watch::Receiver<usize> {
    let (sender, mut inbox) = mpsc::channel::<Asked>(16);
    let (events, receiver) = mpsc::channel(256);
    let (ended, turns) = watch::channel(0);
    let task = tokio::spawn(async move {
        while let Some(Asked { id, by, op }) = inbox.recv().await {
            let mut told = vec![Event::Acknowledged { id, by: by.clone(), result: OpResult::Accepted }];
            let mut ends = false;
            match op {
                Op::Prompt { typed, .. } => {
                    let message = None;
                    let prompt =
                        Event::PromptAccepted { typed: typed.clone(), prompt_id: "p".into(), message, by };
                    told.extend([prompt, Event::StepBegan { message: "m".into() }]);
                    if typed == "flood" {
                        told.extend((0..20_000).map(|number| Event::CallOutput {
                            call: CallId::from_file(format!("c{}", number % 2)),
                            text: "x".repeat(1_000),
                        }));
                        ends = true;
                    } else {
                        told.extend([
                            Event::Text(typed),
                            Event::StepCommitted,
                            Event::ApprovalWanted(question().into()),
                        ]);
                    }
                }
                Op::Decide { call, answer } => {
                    told.push(Event::ApprovalSettled { call, outcome: answer.outcome(), by: Some(by) });
                    ends = true;
                }
                Op::Cancel => ends = true,
                _ => {}
            }
            if ends {
                told.push(Event::TurnEnded(TurnEnd::Finished(None)));
            }
            for event in told {
                events.send(event).await.unwrap();
            }
            if ends {
                ended.send_modify(|count| *count += 1);
            }
        }
    });
    let link = Link { ops: Operations::new(sender), events: receiver, task };
    let report = SessionReport {
        id: SessionId::from_file("s1"),
        folder: "/tmp/shop".into(),
        file: None,
        provider: "gemini".to_owned(),
        model: "test".to_owned(),
        auth: None,
        mode: ApprovalMode::Default,
        sandbox: "no sandbox".to_owned(),
    };
    sessions.adopt(Hosted::start(link, Limits::default()), report);
    turns
}

fn question() -> ApprovalRequest {
    let offer = |outcome| Offer { outcome, covers: String::new() };
    ApprovalRequest {
        call: CallId::from_file("call-1"),
        tool: "run_shell_command".to_owned(),
        display_name: "Shell".to_owned(),
        args: pollux_domain::JsonObject::new(),
        subject: Subject::Command { command: "rm -r build".to_owned(), directory: "/tmp/shop".into() },
        destroys: None,
        why: Why::default(),
        offers: vec![offer(Outcome::Once), offer(Outcome::Refuse)],
    }
}

/// An answer.
#[derive(Debug)]
pub(super) struct Reply {
    pub(super) status: u16,
    pub(super) head: String,
    pub(super) body: String,
}

impl Reply {
    pub(super) fn header(&self, name: &str) -> Option<&str> {
        self.head.lines().find_map(|line| {
            let (known, value) = line.split_once(':')?;
            known.eq_ignore_ascii_case(name).then(|| value.trim())
        })
    }

    pub(super) fn json(&self) -> Value {
        serde_json::from_str(&self.body).unwrap_or_else(|_| panic!("{self:?}"))
    }
}

/// The secrets of a browser.
#[derive(Debug, Clone)]
pub(super) struct Secrets {
    pub(super) cookie: String,
    pub(super) key: String,
}

impl Server {
    pub(super) fn address(&self) -> SocketAddr {
        ([127, 0, 0, 1], self.port).into()
    }

    pub(super) fn own(&self) -> [String; 2] {
        let host = format!("127.0.0.1:{}", self.port);
        [format!("Host: {host}"), format!("Origin: http://{host}")]
    }

    /// Sends a request with exactly these headers, and its length.
    pub(super) async fn send(&self, line: &str, headers: &[String], body: &str) -> Reply {
        let mut stream = TcpStream::connect(self.address()).await.unwrap();
        let all = format!(
            "{line} HTTP/1.1\r\n{}\r\nConnection: close\r\nContent-Length: {}\r\n\r\n{body}",
            headers.join("\r\n"),
            body.len()
        );
        // A server that refuses does not read all of it.
        let _ = stream.write_all(all.as_bytes()).await;
        let mut bytes = Vec::new();
        let _ = stream.read_to_end(&mut bytes).await;
        reply(&String::from_utf8_lossy(&bytes))
    }

    /// Sends a change as the page does.
    pub(super) async fn post(&self, path: &str, secrets: Option<&Secrets>, body: Value) -> Reply {
        self.send(&format!("POST {path}"), &self.headers(secrets), &body.to_string()).await
    }

    /// The headers of the page's requests.
    pub(super) fn headers(&self, secrets: Option<&Secrets>) -> Vec<String> {
        let mut headers = self.own().to_vec();
        headers.extend(["X-Pollux: 1".to_owned(), "Content-Type: application/json".to_owned()]);
        if let Some(Secrets { cookie, key }) = secrets {
            headers.extend([format!("Cookie: {cookie}"), format!("X-Pollux-Key: {key}")]);
        }
        headers
    }

    pub(super) async fn code(&self, scopes: Scopes) -> String {
        let link = self.pages.link(&self.sessions, scopes, &self.stop).await.unwrap();
        link.url.split_once("/#c=").unwrap().1.to_owned()
    }

    /// Logs a browser in.
    pub(super) async fn log_in(&self, scopes: Scopes) -> Secrets {
        let code = self.code(scopes).await;
        let reply = self.post("/api/login", None, json!({"code": code})).await;
        assert_eq!(reply.status, 200, "{reply:?}");
        let cookie = reply.header("set-cookie").unwrap().split(';').next().unwrap().to_owned();
        Secrets { cookie, key: reply.json()["key"].as_str().unwrap().to_owned() }
    }

    /// Follows events.
    pub(super) async fn follow(&self, query: &str, secrets: &Secrets) -> Events {
        let mut stream = TcpStream::connect(self.address()).await.unwrap();
        let mut headers = self.own().to_vec();
        headers.extend([format!("Cookie: {}", secrets.cookie), format!("X-Pollux-Key: {}", secrets.key)]);
        let all = format!("GET /api/events?{query} HTTP/1.1\r\n{}\r\n\r\n", headers.join("\r\n"));
        stream.write_all(all.as_bytes()).await.unwrap();
        Events { stream, text: String::new() }
    }
}

fn reply(text: &str) -> Reply {
    let (head, body) = text.split_once("\r\n\r\n").unwrap_or((text, ""));
    let status = head.split(' ').nth(1).and_then(|status| status.parse().ok()).unwrap_or(0);
    Reply { status, head: head.to_owned(), body: body.to_owned() }
}

/// A stream of events that is read when it is asked for one.
pub(super) struct Events {
    stream: TcpStream,
    text: String,
}

impl Events {
    /// The next event of this kind; the test's own time limit ends the wait.
    pub(super) async fn next(&mut self, kind: &str) -> Value {
        self.next_where(|event| event["kind"] == kind).await
    }

    pub(super) async fn next_where(&mut self, wanted: impl Fn(&Value) -> bool) -> Value {
        loop {
            while let Some((event, rest)) = self.text.split_once("\n\n") {
                let data = event.lines().find_map(|line| line.strip_prefix("data: ").map(str::to_owned));
                self.text = rest.to_owned();
                if let Some(event) = data.and_then(|data| serde_json::from_str::<Value>(&data).ok())
                    && wanted(&event)
                {
                    return event;
                }
            }
            assert!(self.more().await, "the stream ended too early");
        }
    }

    /// Reads more; false at the end.
    async fn more(&mut self) -> bool {
        let mut bytes = vec![0; 65_536];
        let read = self.stream.read(&mut bytes).await.unwrap_or(0);
        self.text.push_str(&String::from_utf8_lossy(bytes.get(..read).unwrap()));
        read > 0
    }

    pub(super) async fn end(&mut self) {
        while self.more().await {}
    }
}
