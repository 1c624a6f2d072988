//! The same with a companion on the protocol's official SDK, if `scripts/mcp-servers.sh` has installed it.

use std::io::{BufRead as _, BufReader, Write as _};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::sync::Arc;

use pollux_ide::DiffAnswer;
use serde_json::{Value, json};

use super::connection::{Scene, connected, shows};

fn sdk() -> Option<PathBuf> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../../target/mcp-servers/node_modules/@modelcontextprotocol/sdk");
    if !folder.exists() {
        let _ = writeln!(std::io::stderr(), "skipped: scripts/mcp-servers.sh has not installed the SDK");
    }
    folder.canonicalize().ok()
}

struct Peer {
    child: Child,
    input: ChildStdin,
    output: BufReader<ChildStdout>,
}

impl Peer {
    fn start(sdk: &Path) -> Self {
        let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/companion.mjs");
        let mut child = Command::new("node")
            .arg(script)
            .arg(sdk)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .expect("start node");
        let (input, output) = (child.stdin.take().unwrap(), BufReader::new(child.stdout.take().unwrap()));
        Self { child, input, output }
    }

    fn next(&mut self) -> Value {
        let mut line = String::new();
        self.output.read_line(&mut line).unwrap();
        serde_json::from_str(&line).unwrap_or_else(|error| panic!("{error}: {line}"))
    }

    fn notify(&mut self, method: &str, params: &Value) {
        writeln!(self.input, "{}", json!({"method": method, "params": params})).unwrap();
    }
}

impl Drop for Peer {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

#[tokio::test]
async fn a_companion_on_the_official_sdk_works() {
    let Some(sdk) = sdk() else { return };
    let scene = Scene::new();
    let mut peer = Peer::start(&sdk);
    let ready = peer.next();
    let port = ready["port"].to_string();
    let work = scene.work.display().to_string();
    let companion = scene.companion(&[
        ("GEMINI_CLI_IDE_SERVER_PORT", port.as_str()),
        ("GEMINI_CLI_IDE_WORKSPACE_PATH", work.as_str()),
        ("GEMINI_CLI_IDE_AUTH_TOKEN", ready["token"].as_str().unwrap()),
        ("TERM_PROGRAM", "vscode"),
    ]);
    companion.connect();
    assert_eq!(companion.settled().await, connected());
    shows(&companion, &[]).await;
    let file = scene.file("a.rs");
    let files = json!([{"path": file, "timestamp": 1, "isActive": true}]);
    peer.notify("ide/contextUpdate", &json!({"workspaceState": {"openFiles": files}}));
    shows(&companion, &[&file]).await;

    let opened = tokio::spawn({
        let (companion, file) = (Arc::clone(&companion), file.clone());
        async move { companion.open_diff(&file, "new").await }
    });
    let (mut peer, asked) = tokio::task::spawn_blocking(move || {
        let asked = peer.next();
        (peer, asked)
    })
    .await
    .unwrap();
    assert_eq!(asked, json!({"call": "openDiff", "args": {"filePath": file, "newContent": "new"}}));
    peer.notify("ide/diffAccepted", &json!({"filePath": file, "content": "edited"}));
    assert_eq!(opened.await.unwrap(), Some(DiffAnswer::Accepted("edited".to_owned())));
    assert_eq!(companion.close_diff(&file).await.as_deref(), Some("closed"));
}
