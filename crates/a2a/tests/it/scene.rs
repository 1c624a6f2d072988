//! An agent on the loopback interface, and helpers to call it.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use pollux_a2a::{RunCommand, Setup, remote_agent};
use pollux_config::env::Env;
use pollux_domain::remote_agent::{CardSource, RemoteAgent, RemoteAuth, RemoteError, RemoteTarget};
use pollux_domain::time::SystemClock;
use pollux_net::client::ClientOptions;
use pollux_net::credentials::{CredentialStore, StoreOptions};
use pollux_net::oauth::{OAuth, OAuthOptions};
use pollux_test_support::{HttpAnswer, HttpRequest};
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;

/// Every message that was on the screen.
pub(crate) type Shown = Arc<Mutex<Vec<String>>>;

/// An agent with a card at this address.
pub(crate) fn agent(card: &str, auth: Option<RemoteAuth>) -> Arc<dyn RemoteAgent> {
    with(CardSource::Url(card.to_owned()), auth)
}

pub(crate) fn with(card: CardSource, auth: Option<RemoteAuth>) -> Arc<dyn RemoteAgent> {
    let target = RemoteTarget { name: "helper".to_owned(), card, auth };
    remote_agent(target, Arc::new(setup()))
}

fn setup() -> Setup {
    let home = std::env::temp_dir().join("pollux-a2a-tests-nothing-here");
    let env = Env::new([("AGENT_KEY".to_owned(), "from-env".to_owned())], home.clone());
    let http = ClientOptions::new("test");
    let store = CredentialStore::new(StoreOptions::from_env(&env, &home, "host".into(), "user".into()));
    let (clock, runs) = (Arc::new(SystemClock), Arc::new(AtomicUsize::new(0)));
    let oauth = OAuth::new(OAuthOptions {
        client: http.clone(),
        store: Arc::new(store),
        clock: Arc::clone(&clock) as _,
        callback_port: None,
        client_metadata_url: None,
    });
    // The first value is stale, the next one is not.
    let run: RunCommand = Arc::new(move |command| {
        let number = runs.fetch_add(1, Ordering::SeqCst);
        Box::pin(async move {
            match command.as_str() {
                "rotate" => Ok(format!(" key-{number}\n")),
                "silent" => Ok("\n".to_owned()),
                _ => Err("exit code 1".to_owned()),
            }
        })
    });
    Setup { http, env, user_home: home, clock, oauth, run }
}

/// Calls an agent, and returns the updates shown meanwhile.
pub(crate) async fn call(
    agent: &dyn RemoteAgent,
    message: &str,
) -> (Result<String, RemoteError>, Vec<String>) {
    let shown = Shown::default();
    let watcher = Arc::clone(&shown);
    let live = move |text: &str| watcher.lock().unwrap().push(text.to_owned());
    let said = agent.call(message, &live, &CancellationToken::new()).await;
    let shown = shown.lock().unwrap().clone();
    (said, shown)
}

pub(crate) fn card(url: &str, more: &Value) -> Value {
    let mut card = json!({
        "name": "Helper", "description": "Helps", "url": format!("{url}/rpc"), "version": "1", "protocolVersion": "0.3.0",
        "capabilities": {"streaming": true}, "defaultInputModes": ["text"], "defaultOutputModes": ["text"],
        "skills": [{"id": "s", "name": "sums", "description": "adds", "tags": []}],
    });
    for (key, value) in more.as_object().into_iter().flatten() {
        card[key] = value.clone();
    }
    card
}

/// Events as a stream; for JSON-RPC each is a result.
pub(crate) fn stream(events: &[Value]) -> HttpAnswer {
    let text: String = events.iter().map(|event| format!("data: {event}\r\n\r\n")).collect();
    HttpAnswer::status(200).header("content-type", "text/event-stream").body(text)
}

pub(crate) fn result(value: &Value) -> Value {
    json!({"jsonrpc": "2.0", "id": 1, "result": value})
}

pub(crate) fn status(state: &str, text: &str, last: bool) -> Value {
    json!({"kind": "status-update", "taskId": "t1", "contextId": "c1", "final": last, "status": {"state": state,
        "message": {"kind": "message", "role": "agent", "messageId": "m", "parts": [{"kind": "text", "text": text}]}}})
}

pub(crate) fn task(state: &str) -> Value {
    json!({"kind": "task", "id": "t1", "contextId": "c1", "status": {"state": state}})
}

pub(crate) fn method(request: &HttpRequest) -> String {
    request.json()["method"].as_str().unwrap_or_default().to_owned()
}
