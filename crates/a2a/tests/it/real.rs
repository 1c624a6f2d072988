//! An agent behind the public server library, if `scripts/a2a-server.sh` has installed it.

use std::io::{BufRead, BufReader, Write as _};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;

use pollux_domain::remote_agent::{RemoteAgent, RemoteAuth, RemoteError};
use tokio_util::sync::CancellationToken;

use crate::scene::{agent, call};

/// The agent's process; it leaves when its input ends.
struct Peer {
    child: Child,
    card: String,
}

impl Drop for Peer {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Starts the agent; `None`, and a line that says so, where the library is not installed.
fn peer(args: &[&str]) -> Option<Peer> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let folder = root.join("target/a2a-server");
    if !folder.join("installed").exists() {
        let _ = writeln!(std::io::stderr(), "skipped: scripts/a2a-server.sh has not installed the library");
        return None;
    }
    let mut child = Command::new(folder.join("python/bin/python"))
        .arg(root.join("crates/cli/tests/peers/a2a_agent.py"))
        .args(args)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut card = String::new();
    BufReader::new(child.stdout.take().unwrap()).read_line(&mut card).unwrap();
    Some(Peer { child, card: card.trim().to_owned() })
}

#[tokio::test]
async fn it_answers_over_every_transport_and_remembers_the_conversation() {
    for kind in ["jsonrpc", "rest", "polled"] {
        let Some(peer) = peer(&[kind]) else { return };
        let agent = agent(&peer.card, None);
        let about = agent.about().await.unwrap();
        assert_eq!(about, "Agent Description: Says everything louder\nSkills:\nshout: upper case", "{kind}");
        let (said, _) = call(&*agent, "hello there").await;
        assert!(said.as_deref().unwrap().ends_with("Artifact (shout):\nHELLO THERE"), "{kind}: {said:?}");
        let (said, shown) = call(&*agent, "ask").await;
        assert!(said.as_deref().unwrap().ends_with("which one?"), "{kind}: {said:?}");
        if kind != "polled" {
            assert!(shown.iter().any(|text| text.starts_with("message 2. ")), "{kind}: {shown:?}");
        }
        // The answer to the question belongs to the same task.
        let (said, _) = call(&*agent, "the left one").await;
        assert!(said.as_deref().unwrap().ends_with("THE LEFT ONE"), "{kind}: {said:?}");
    }
}

#[tokio::test]
async fn it_lets_in_who_has_the_token_and_nobody_else() {
    let Some(peer) = peer(&["jsonrpc", "from-env"]) else { return };
    let with = |token: &str| agent(&peer.card, Some(RemoteAuth::Bearer { token: token.to_owned() }));
    assert!(call(&*with("$AGENT_KEY"), "hi").await.0.unwrap().ends_with("HI"));
    for agent in [with("wrong"), agent(&peer.card, None)] {
        let error = call(&*agent, "hi").await.0.unwrap_err();
        assert!(matches!(error, RemoteError::SignIn(_)), "{error}");
    }
}

#[tokio::test]
async fn a_task_that_is_cancelled_ends_at_once() {
    let Some(peer) = peer(&["jsonrpc"]) else { return };
    let agent: Arc<dyn RemoteAgent> = agent(&peer.card, None);
    let cancel = CancellationToken::new();
    let stop = cancel.clone();
    let live = move |_: &str| stop.cancel();
    assert_eq!(agent.call("wait", &live, &cancel).await, Err(RemoteError::Cancelled));
    assert!(call(&*agent, "still there").await.0.unwrap().ends_with("STILL THERE"));
}
