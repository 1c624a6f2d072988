//! An editor's companion extension: the MCP server that the one of VS Code is, with its checks.

#![allow(clippy::disallowed_methods, reason = "scratch files need no care")]

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use serde_json::{Value, json};

/// How long a test waits for something that must happen.
const PATIENCE: Duration = Duration::from_secs(120);

/// A companion on loopback. Stops when dropped.
pub struct FakeCompanion {
    port: u16,
    shared: Arc<Shared>,
}

struct Shared {
    port: u16,
    token: String,
    state: Mutex<State>,
    stopping: AtomicBool,
    refused: AtomicUsize,
}

#[derive(Default)]
struct State {
    /// The value of `workspaceState`.
    context: Value,
    streams: Vec<TcpStream>,
    sockets: Vec<TcpStream>,
    /// Calls of tools with their arguments.
    calls: Vec<(String, Value)>,
    /// What `closeDiff` returns.
    closed_text: Option<String>,
    tools: Vec<&'static str>,
}

impl FakeCompanion {
    /// A companion that shows these files and can show diffs.
    pub fn start(open_files: Value) -> Self {
        Self::with_tools(open_files, &["openDiff", "closeDiff"])
    }

    pub fn with_tools(open_files: Value, tools: &[&'static str]) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").expect("bind a loopback port");
        let port = listener.local_addr().expect("read the port").port();
        let context = json!({"workspaceState": {"openFiles": open_files, "isTrusted": true}});
        let shared = Arc::new(Shared {
            port,
            token: format!("token-{port}"),
            state: Mutex::new(State { context, tools: tools.to_vec(), ..State::default() }),
            stopping: AtomicBool::new(false),
            refused: AtomicUsize::new(0),
        });
        let server = Arc::clone(&shared);
        std::thread::spawn(move || {
            for socket in listener.incoming().flatten() {
                if server.stopping.load(Ordering::SeqCst) {
                    return;
                }
                let server = Arc::clone(&server);
                std::thread::spawn(move || server.serve(socket));
            }
        });
        Self { port, shared }
    }

    pub fn port(&self) -> u16 {
        self.port
    }

    pub fn token(&self) -> &str {
        &self.shared.token
    }

    /// Writes the file by which the companion is found below a folder for temporary files.
    pub fn advertise(&self, temp: &Path, workspace: &Path) -> PathBuf {
        let folder = temp.join("gemini/ide");
        std::fs::create_dir_all(&folder).expect("make the folder");
        let file = folder.join(format!("gemini-ide-server-{}-{}.json", std::process::id(), self.port));
        let content = json!({"port": self.port, "workspacePath": workspace, "authToken": self.token(),
                             "ideInfo": {"name": "vscode", "displayName": "VS Code"}});
        std::fs::write(&file, content.to_string()).expect("write the file");
        std::fs::set_permissions(&file, std::fs::Permissions::from_mode(0o600)).expect("close it to others");
        file
    }

    /// Shows other files.
    pub fn show(&self, open_files: Value) {
        let context = json!({"workspaceState": {"openFiles": open_files}});
        self.shared.state().context = context.clone();
        self.notify("ide/contextUpdate", &context);
    }

    /// Tells all programs that are connected.
    pub fn notify(&self, method: &str, params: &Value) {
        let message = json!({"jsonrpc": "2.0", "method": method, "params": params});
        let mut state = self.shared.state();
        state.streams.retain_mut(|stream| send_event(stream, &message).is_ok());
    }

    pub fn accept(&self, path: &Path, content: &str) {
        self.notify("ide/diffAccepted", &json!({"filePath": path, "content": content}));
    }

    pub fn reject(&self, path: &Path) {
        self.notify("ide/diffRejected", &json!({"filePath": path}));
    }

    /// The text that `closeDiff` returns from now on.
    pub fn set_closed_text(&self, text: &str) {
        self.shared.state().closed_text = Some(text.to_owned());
    }

    /// The arguments of all calls of a tool.
    pub fn calls(&self, tool: &str) -> Vec<Value> {
        let state = self.shared.state();
        state.calls.iter().filter(|(name, _)| name == tool).map(|(_, args)| args.clone()).collect()
    }

    /// Waits for a number of calls of a tool; the arguments of the last one.
    pub fn wait_for_calls(&self, tool: &str, count: usize) -> Value {
        let end = Instant::now() + PATIENCE;
        loop {
            let calls = self.calls(tool);
            if let Some(args) = calls.get(count - 1) {
                return args.clone();
            }
            assert!(Instant::now() < end, "{tool} was called {} times", calls.len());
            std::thread::sleep(Duration::from_millis(5));
        }
    }

    /// Waits until this many programs listen to its notifications.
    pub fn wait_for_listeners(&self, count: usize) {
        let end = Instant::now() + PATIENCE;
        while self.shared.state().streams.len() < count {
            assert!(Instant::now() < end, "nobody listens");
            std::thread::sleep(Duration::from_millis(5));
        }
    }

    /// How many requests were refused.
    pub fn refused(&self) -> usize {
        self.shared.refused.load(Ordering::SeqCst)
    }
}

impl Drop for FakeCompanion {
    fn drop(&mut self) {
        self.shared.stopping.store(true, Ordering::SeqCst);
        for socket in self.shared.state().sockets.drain(..) {
            let _ = socket.shutdown(Shutdown::Both);
        }
        // Wakes the listener.
        drop(TcpStream::connect(("127.0.0.1", self.port)));
    }
}

impl Shared {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn serve(&self, socket: TcpStream) {
        if let Ok(copy) = socket.try_clone() {
            self.state().sockets.push(copy);
        }
        let mut reader = BufReader::new(socket);
        while let Some((head, body)) = request(&mut reader) {
            let Ok(mut out) = reader.get_ref().try_clone() else { return };
            if self.answer(&head, &body, &mut out).is_err() {
                return;
            }
        }
    }

    fn answer(&self, head: &str, body: &[u8], out: &mut TcpStream) -> std::io::Result<()> {
        let lower = head.to_lowercase();
        let host = format!("host: 127.0.0.1:{}\r\n", self.port);
        let allowed = format!("authorization: bearer {}\r\n", self.token);
        if !lower.contains(&host) || lower.contains("\norigin:") || !lower.contains(&allowed) {
            self.refused.fetch_add(1, Ordering::SeqCst);
            return plain(out, "401 Unauthorized");
        }
        if head.starts_with("GET /mcp ") {
            out.write_all(
                b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nCache-Control: no-cache\r\n\r\n",
            )?;
            let mut state = self.state();
            let first =
                json!({"jsonrpc": "2.0", "method": "ide/contextUpdate", "params": state.context.clone()});
            // Its keep-alive is a notification with the name of a request.
            send_event(out, &json!({"jsonrpc": "2.0", "method": "ping"}))?;
            send_event(out, &first)?;
            state.streams.push(out.try_clone()?);
            return Ok(());
        }
        if !head.starts_with("POST /mcp ") {
            return plain(out, "405 Method Not Allowed");
        }
        let message: Value = serde_json::from_slice(body).unwrap_or_default();
        let Some(id) = message.get("id").filter(|_| message.get("method").is_some()) else {
            return plain(out, "202 Accepted");
        };
        let result = self.result(&message);
        let event =
            format!("event: message\ndata: {}\n\n", json!({"jsonrpc": "2.0", "id": id, "result": result}));
        let head = format!(
            "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nmcp-session-id: s1\r\nContent-Length: {}\r\n\r\n",
            event.len()
        );
        out.write_all(format!("{head}{event}").as_bytes())
    }

    fn result(&self, message: &Value) -> Value {
        let method = message["method"].as_str().unwrap_or_default();
        let mut state = self.state();
        match method {
            "initialize" => json!({
                "protocolVersion": message["params"]["protocolVersion"],
                "capabilities": {"logging": {}, "tools": {"listChanged": true}},
                "serverInfo": {"name": "gemini-cli-companion-mcp-server", "version": "1.0.0"},
            }),
            "tools/list" => {
                let tool = |name: &&str| json!({"name": name, "inputSchema": {"type": "object"}});
                json!({"tools": state.tools.iter().map(tool).collect::<Vec<_>>()})
            }
            "tools/call" => {
                let name = message["params"]["name"].as_str().unwrap_or_default().to_owned();
                state.calls.push((name.clone(), message["params"]["arguments"].clone()));
                match name.as_str() {
                    "closeDiff" => {
                        let text = json!({"content": state.closed_text}).to_string();
                        json!({"content": [{"type": "text", "text": text}]})
                    }
                    _ => json!({"content": []}),
                }
            }
            _ => json!({}),
        }
    }
}

/// The head of the next request, and its body.
fn request(reader: &mut BufReader<TcpStream>) -> Option<(String, Vec<u8>)> {
    let mut head = String::new();
    loop {
        let before = head.len();
        if reader.read_line(&mut head).unwrap_or(0) == 0 {
            return None;
        }
        if head.len() - before <= 2 {
            break;
        }
    }
    let lower = head.to_lowercase();
    let length = lower.split("content-length: ").nth(1).and_then(|rest| rest.split("\r\n").next());
    let mut body = vec![0; length.and_then(|length| length.parse().ok()).unwrap_or(0)];
    reader.read_exact(&mut body).ok()?;
    Some((head, body))
}

fn plain(out: &mut TcpStream, status: &str) -> std::io::Result<()> {
    out.write_all(format!("HTTP/1.1 {status}\r\nContent-Length: 0\r\n\r\n").as_bytes())
}

fn send_event(out: &mut TcpStream, message: &Value) -> std::io::Result<()> {
    out.write_all(format!("event: message\ndata: {message}\n\n").as_bytes())
}
