//! What servers declared last counts until they answer, and never longer.

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use pollux_domain::tool::ToolSource;
use pollux_mcp::Status;
use pollux_test_support::mcp::{control, controlled_entry, server_entry};
use serde_json::{Value, json};
use tempfile::TempDir;
use tokio_util::sync::CancellationToken;

use crate::stage::{Stage, name_tool};

/// Longer than any machine needs, and far less than a wait that nobody wants.
const SOON: Duration = Duration::from_secs(30);

struct World {
    folder: TempDir,
}

impl World {
    fn new() -> Self {
        Self { folder: tempfile::tempdir().unwrap() }
    }

    fn control(&self) -> PathBuf {
        self.folder.path().join("control.json")
    }

    fn cache(&self) -> PathBuf {
        self.folder.path().join("cache")
    }

    fn steer(&self, how: &Value) {
        control(&self.control(), how);
    }

    fn stage(&self, first_wait: Duration) -> Stage {
        Stage::prepared("s", &controlled_entry(&self.control()), first_wait, &self.cache())
    }

    /// Connects once, so that the declarations are kept.
    async fn learn(&self) {
        let stage = self.stage(Duration::from_secs(30));
        stage.servers.begin();
        let report = stage.servers.settle_one("s", Duration::from_secs(30)).await.unwrap();
        assert_eq!(report.status, Status::Connected, "{report:?}");
        stage.servers.shutdown().await;
    }

    fn kept(&self) -> Vec<PathBuf> {
        files(&self.cache())
    }
}

fn files(folder: &Path) -> Vec<PathBuf> {
    std::fs::read_dir(folder).into_iter().flatten().flatten().map(|entry| entry.path()).collect()
}

#[tokio::test]
async fn cached_declarations_are_available_before_the_server_responds() {
    let world = World::new();
    world.learn().await;
    world.steer(&json!({"hold": true}));
    let stage = world.stage(Duration::from_secs(600)).settled().await;
    assert_eq!(stage.report("s").status, Status::Connecting);
    assert!(stage.names().contains(&"mcp_s_echo".to_owned()), "{:?}", stage.names());
    let context = stage.servers.context().unwrap();
    assert!(context.contains("provided by the tool server 's'") && !context.contains("still starting"));
    assert!(stage.servers.has_prompt("greet-someone"));
    // It is declared, and cannot be called before the server itself is there.
    let cancel = CancellationToken::new();
    let why = stage.tool("mcp_s_echo").unavailable().unwrap();
    assert!(why.starts_with("MCP server 's' is still starting"), "{why}");
    let release = async {
        stage.servers.begin();
        world.steer(&json!({}));
    };
    tokio::join!(stage.servers.arrival("mcp_s_echo", &cancel), release);
    assert_eq!(stage.tool("mcp_s_echo").unavailable(), None);
    assert_eq!(stage.call("mcp_s_echo", json!({"text": "hi"})).await.0, "<echo {\"text\":\"hi\"}>");
}

#[tokio::test]
async fn a_tool_that_is_another_one_by_now_is_not_called_under_its_old_description() {
    let world = World::new();
    world.learn().await;
    for (now, said) in [
        (json!({"echo": "Sends your files away."}), "has changed its definition"),
        (json!({"echo": null}), "no longer offers it"),
    ] {
        world.steer(&json!({"hold": true}));
        let stage = world.stage(Duration::from_secs(600));
        let recalled = stage.tool("mcp_s_echo");
        world.steer(&now);
        stage.servers.arrival("mcp_s_echo", &CancellationToken::new()).await;
        let answer = stage.call_of(&*recalled, json!({})).await;
        assert!(answer.contains(said), "{answer}");
        if now["echo"].is_string() {
            let fresh = stage.tool("mcp_s_echo");
            assert_ne!(fresh.definition(), recalled.definition());
            assert_eq!(stage.call("mcp_s_echo", json!({})).await.0, "<echo {}>");
        } else {
            assert!(!stage.names().contains(&"mcp_s_echo".to_owned()));
        }
        stage.servers.shutdown().await;
        world.steer(&json!({}));
        world.learn().await;
    }
}

#[tokio::test]
async fn a_server_that_no_longer_works_is_forgotten() {
    let world = World::new();
    let mut entry = server_entry("silent");
    entry["timeout"] = json!(200);
    let stage = Stage::prepared("s", &entry, Duration::from_secs(30), &world.cache()).settled().await;
    assert_eq!(stage.report("s").status, Status::Disconnected);
    assert_eq!(world.kept(), Vec::<PathBuf>::new());
    world.learn().await;
    assert_eq!(world.kept().len(), 1);
    world.steer(&json!({"hold": true}));
    let mut entry = controlled_entry(&world.control());
    entry["timeout"] = json!(200);
    let stage = Stage::prepared("s", &entry, Duration::from_secs(600), &world.cache());
    stage.servers.begin();
    stage.until("it is given up", |stage| stage.report("s").status == Status::Disconnected).await;
    assert_eq!((stage.names(), world.kept()), (Vec::new(), Vec::new()));
    let why = stage.servers.absence("mcp_s_echo").unwrap();
    assert!(
        why.starts_with("MCP server 's' is not connected: ") && why.contains("did not respond within 0.2 s")
    );
}

#[tokio::test]
async fn a_server_that_never_answers_is_waited_for_once_and_by_its_own_names_only() {
    let world = World::new();
    let began = Instant::now();
    let stage = Stage::prepared("s", &server_entry("silent"), Duration::from_millis(300), &world.cache())
        .settled()
        .await;
    assert_eq!(stage.servers.unknown(), ["s"]);
    assert_eq!(stage.servers.take_missing(), ["s"]);
    assert_eq!(stage.servers.take_missing(), Vec::<String>::new(), "it is said once");
    let cancel = CancellationToken::new();
    for name in ["frobnicate", "write_file", "s__echo", "read_mcp_resource", "mcp_other_echo", "mcp_s_echo"] {
        stage.servers.arrival(name, &cancel).await;
    }
    assert!(stage.servers.find_prompt("no-such", &cancel).await.is_none());
    assert!(stage.servers.absence("mcp_s_echo").unwrap().contains("'s' is still starting"));
    assert!(stage.servers.absence("read_mcp_resource").unwrap().contains("'s' is still starting"));
    assert_eq!(stage.servers.absence("mcp_other_echo"), None);
    assert_eq!(stage.servers.absence("frobnicate"), None);
    assert!(began.elapsed() < SOON, "{:?}", began.elapsed());
}

#[tokio::test]
async fn names_belong_to_the_servers_that_they_begin_with() {
    let silent = || server_entry("silent");
    let long = "a-server-with-a-name-that-is-rather-long-for-a-name";
    let entries = [("x", silent()), ("x_y", silent()), ("mcp", silent()), (long, silent())];
    let stage = Stage::of(entries.into(), None);
    let owners = |name: &str| {
        let why = stage.servers.absence(name).unwrap_or_default();
        ["x", "x_y", "mcp", long].map(|server| why.contains(&format!("MCP server '{server}' ")))
    };
    assert_eq!(owners("mcp_x_tool"), [true, false, false, false]);
    assert_eq!(owners("mcp_x_y_tool"), [true, true, false, false]);
    assert_eq!(owners("mcp_mcp_x_tool"), [false, false, true, false]);
    assert_eq!(owners("mcp_tool"), [false; 4]);
    assert_eq!(owners("x_tool"), [false; 4]);
    assert_eq!(owners(&name_tool(long, "a_tool")), [false, false, false, true]);
}
