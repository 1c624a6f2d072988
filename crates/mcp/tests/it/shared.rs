//! Servers that several sessions of a process use together.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use pollux_config::env::Env;
use pollux_config::groups::Redaction;
use pollux_domain::BoxFuture;
use pollux_domain::approval::{ApprovalAnswer, Person, Question};
use pollux_exec::background::Background;
use pollux_mcp::{Owners, ServerConfig, ServerEntry, Servers, Setup, SharedServers};
use pollux_net::client::ClientOptions;
use pollux_test_support::mcp::server_entry;
use serde_json::{Value, json};
use tempfile::TempDir;
use tokio_util::sync::CancellationToken;

use crate::stage::{Stage, name_tool};

/// A server that writes down each of its starts.
struct Counted {
    shared: SharedServers,
    folder: TempDir,
}

impl Counted {
    fn new() -> Self {
        Self { shared: SharedServers::default(), folder: tempfile::tempdir().unwrap() }
    }

    fn entry(&self) -> Value {
        let plain = server_entry("plain");
        let script = format!("echo $$ >> {}; exec \"$@\"", self.folder.path().join("starts").display());
        let mut args = vec![json!("-c"), json!(script), json!("sh"), plain["command"].clone()];
        args.extend(plain["args"].as_array().unwrap().iter().cloned());
        json!({"command": "/bin/sh", "args": args, "env": plain["env"]})
    }

    /// The processes that were started so far.
    fn starts(&self) -> Vec<i32> {
        let text = std::fs::read_to_string(self.folder.path().join("starts")).unwrap_or_default();
        text.lines().map(|line| line.parse().unwrap()).collect()
    }

    /// A session in a folder, with another variable if one is given.
    async fn session(&self, directory: &Path, variable: Option<(&str, &str)>) -> Stage {
        let vars = [("PATH", "/usr/bin:/bin"), ("TERM", "xterm")].into_iter().chain(variable);
        let env = Env::new(vars.map(|(name, value)| (name.to_owned(), value.to_owned())), "/".into());
        let folder = tempfile::tempdir().unwrap();
        let config = ServerConfig::parse("s", &self.entry()).unwrap();
        let setup = Setup {
            entries: vec![ServerEntry { config, access: None }],
            owners: Owners::default(),
            env,
            redaction: Redaction::default(),
            directory: directory.to_owned(),
            roots: vec![directory.to_owned()],
            background: Arc::new(Background::new(folder.path().join("background"))),
            http: ClientOptions::new("test"),
            version: "0.0.0".to_owned(),
            interactive: true,
            name_tool,
            listener: None,
            first_wait: Duration::from_secs(60),
            cache: None,
        };
        let servers = Servers::prepare_shared(setup, &self.shared);
        servers.begin();
        Stage { servers, folder }.settled().await
    }
}

fn is_alive(pid: i32) -> bool {
    let state = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    state.rsplit(") ").next().is_some_and(|rest| !rest.is_empty() && !rest.starts_with('Z'))
}

#[tokio::test]
async fn sessions_of_one_folder_and_environment_share_a_server() {
    let counted = Counted::new();
    let (here, there) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let one = counted.session(here.path(), None).await;
    let other = counted.session(here.path(), Some(("TERM", "dumb"))).await;
    assert_eq!(counted.starts().len(), 1, "terminals may differ");
    assert_eq!(one.names(), other.names());
    for session in [&one, &other] {
        assert!(session.call("mcp_s_echo", json!({"text": "hi"})).await.0.contains("hi"));
    }
    let elsewhere = counted.session(there.path(), None).await;
    assert_eq!(counted.starts().len(), 2, "another folder");
    let keyed = counted.session(here.path(), Some(("SERVICE_KEY", "a"))).await;
    assert_eq!(counted.starts().len(), 3, "another key");
    counted.session(here.path(), Some(("SERVICE_KEY", "b"))).await;
    assert_eq!(counted.starts().len(), 4, "another value of it");
    // The first session leaves; the second goes on with the same process.
    let shared = counted.starts()[0];
    one.servers.shutdown().await;
    drop(one);
    assert!(is_alive(shared));
    assert!(other.call("mcp_s_echo", json!({"text": "still"})).await.0.contains("still"));
    other.servers.shutdown().await;
    other.until("the server has ended", |_| !is_alive(shared)).await;
    // The next session starts it again.
    let again = counted.session(here.path(), None).await;
    assert_eq!(counted.starts().len(), 5);
    assert!(again.call("mcp_s_echo", json!({"text": "again"})).await.0.contains("again"));
    drop((elsewhere, keyed));
}

#[tokio::test]
async fn a_shared_server_that_dies_is_started_once_for_all() {
    let counted = Counted::new();
    let here = tempfile::tempdir().unwrap();
    let one = counted.session(here.path(), None).await;
    let other = counted.session(here.path(), None).await;
    let first = counted.starts()[0];
    let killed = std::process::Command::new("kill").args(["-KILL", &first.to_string()]).status().unwrap();
    assert!(killed.success());
    one.until("it is there again", |stage| {
        counted.starts().len() == 2 && stage.report("s").status.is_connected()
    })
    .await;
    for session in [&one, &other] {
        assert!(session.call("mcp_s_echo", json!({"text": "back"})).await.0.contains("back"));
    }
    assert_eq!(counted.starts().len(), 2);
}

/// A person who answers with a colour.
struct Painter(&'static str);

impl Person for Painter {
    fn ask<'a>(
        &'a self,
        _who: &'a str,
        _questions: Vec<Question>,
        _: &'a CancellationToken,
    ) -> BoxFuture<'a, ApprovalAnswer> {
        Box::pin(std::future::ready(ApprovalAnswer::Replies(vec![self.0.to_owned()])))
    }
}

#[tokio::test]
async fn a_question_goes_to_the_session_whose_call_runs() {
    let counted = Counted::new();
    let here = tempfile::tempdir().unwrap();
    let one = counted.session(here.path(), None).await;
    let other = counted.session(here.path(), None).await;
    one.servers.introduce(Arc::new(Painter("red")));
    other.servers.introduce(Arc::new(Painter("blue")));
    let (said, _) = one.call("mcp_s_ask", json!({})).await;
    assert!(said.contains("red") && !said.contains("blue"), "{said}");
    let (said, _) = other.call("mcp_s_ask", json!({})).await;
    assert!(said.contains("blue") && !said.contains("red"), "{said}");
    // While calls of both run, nobody can know whose question it is.
    let cancel = CancellationToken::new();
    let (hanging, asked) = tokio::join!(one.call_with("mcp_s_hang", json!({}), &cancel), async {
        other
            .until("the other call runs", |stage| {
                stage.report("s").log.iter().any(|line| line.contains("hanging"))
            })
            .await;
        let asked = other.call("mcp_s_ask", json!({})).await.0;
        cancel.cancel();
        asked
    });
    assert_eq!((hanging.0.as_str(), asked.as_str()), ("cancelled", "<{\"action\":\"decline\"}>"));
}
