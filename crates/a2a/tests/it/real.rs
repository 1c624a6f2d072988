//! An agent built with the public server library, if `scripts/python-peers.sh` has installed it.

use std::sync::Arc;

use pollux_domain::remote_agent::{RemoteAgent, RemoteAuth, RemoteError};
use pollux_test_support::a2a::peer;
use tokio_util::sync::CancellationToken;

use crate::scene::{agent, call};

#[tokio::test]
async fn a_real_agent_answers_over_every_transport_and_keeps_the_context() {
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
async fn a_real_agent_accepts_only_the_right_token() {
    let Some(peer) = peer(&["jsonrpc", "from-env"]) else { return };
    let with = |token: &str| agent(&peer.card, Some(RemoteAuth::Bearer { token: token.to_owned() }));
    assert!(call(&*with("$AGENT_KEY"), "hi").await.0.unwrap().ends_with("HI"));
    for agent in [with("wrong"), agent(&peer.card, None)] {
        let error = call(&*agent, "hi").await.0.unwrap_err();
        assert!(matches!(error, RemoteError::SignIn(_)), "{error}");
    }
}

#[tokio::test]
async fn a_cancelled_task_ends_immediately() {
    let Some(peer) = peer(&["jsonrpc"]) else { return };
    let agent: Arc<dyn RemoteAgent> = agent(&peer.card, None);
    let cancel = CancellationToken::new();
    let stop = cancel.clone();
    let live = move |_: &str| stop.cancel();
    assert_eq!(agent.call("wait", &live, &cancel).await, Err(RemoteError::Cancelled));
    assert!(call(&*agent, "still there").await.0.unwrap().ends_with("STILL THERE"));
}
