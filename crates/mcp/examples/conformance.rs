//! Our client as the protocol's conformance suite wants to start it: the address of a server comes last.
//!
//! `scripts/mcp-conformance.sh` runs it. Every tool of the server is called once, questions are answered with
//! their defaults, and a server that wants a sign-in gets one: the "browser" is a request that
//! follows the sign-in page's redirect.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::print_stdout,
    clippy::disallowed_methods,
    reason = "a program for developers"
)]

use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use pollux_config::env::Env;
use pollux_config::groups::Redaction;
use pollux_domain::BoxFuture;
use pollux_domain::approval::{ApprovalAnswer, Person, Question};
use pollux_domain::id::CallId;
use pollux_domain::time::SystemClock;
use pollux_domain::tool::{ToolContext, ToolOutcome, ToolSource};
use pollux_exec::background::Background;
use pollux_mcp::{Owners, Report, ServerConfig, ServerEntry, Servers, Setup, SignIn, Status, oauth_server};
use pollux_net::client::ClientOptions;
use pollux_net::credentials::{CredentialStore, StoreOptions};
use pollux_net::oauth::{OAuth, OAuthOptions};
use serde_json::{Map, Value, json};
use tokio_util::sync::CancellationToken;

/// Says yes to everything, in the server's own words, and opens every address.
struct Agreeable(ClientOptions);

impl Person for Agreeable {
    fn ask<'a>(
        &'a self,
        _: &'a str,
        questions: Vec<Question>,
        _: &'a CancellationToken,
    ) -> BoxFuture<'a, ApprovalAnswer> {
        Box::pin(async move {
            let text = questions.first().map_or("", |question| question.text.as_str());
            if let Some(url) = text.lines().find(|line| line.starts_with("http")) {
                browse(&self.0, url).await;
            }
            ApprovalAnswer::Replies(vec![String::new(); questions.len()])
        })
    }
}

/// Follows the redirect to our own listener, as a browser would.
async fn browse(http: &ClientOptions, url: &str) {
    let client = pollux_net::client::client(http).unwrap();
    let page = client.get(url).send().await;
    let next = page.ok().and_then(|page| page.headers().get("location")?.to_str().ok().map(str::to_owned));
    if let Some(next) = next {
        let _ = client.get(next).send().await;
    }
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> ExitCode {
    let url = std::env::args().next_back().expect("the address of a server");
    let context: Value = std::env::var("MCP_CONFORMANCE_CONTEXT")
        .ok()
        .and_then(|text| serde_json::from_str(&text).ok())
        .unwrap_or_default();
    let entry = json!({"url": url, "type": "http", "timeout": 10_000, "oauth": oauth(&context)});
    let config = ServerConfig::parse("suite", &entry).unwrap();
    let folder = tempfile::tempdir().unwrap();
    let sign_in = sign_in(folder.path().to_path_buf());
    let mut servers = connect(&config, &sign_in, folder.path());
    let mut report = settled(&servers).await;
    for _ in 0..3 {
        let Some(challenge) = report.sign_in.clone() else { break };
        servers.shutdown().await;
        if let Err(problem) = log_in(&config, &sign_in, &challenge).await {
            println!("sign-in: {problem}");
            return ExitCode::FAILURE;
        }
        servers = connect(&config, &sign_in, folder.path());
        report = settled(&servers).await;
    }
    println!("{:?} {:?}", report.status, report.problem);
    servers.introduce(Arc::new(Agreeable(sign_in.http.clone())));
    for tool in servers.tools() {
        let args = sample(&tool.spec().parameters);
        let context = ToolContext {
            call: CallId::new("suite", "1"),
            cancel: CancellationToken::new(),
            must_ask: false,
            live: Arc::new(|_: &str| {}),
            terminal: None,
        };
        let outcome = tool.prepare(&args).unwrap().run(&context).await;
        println!("{}: {outcome:?}", tool.spec().name);
        if let ToolOutcome::Failed(_) = outcome {
            return ExitCode::FAILURE;
        }
    }
    servers.shutdown().await;
    // A server that has nothing to offer is no use to us, and no failure of the handshake.
    let empty = report.problem.is_some_and(|problem| problem.starts_with("No prompts, tools"));
    if report.status == Status::Connected || empty { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

/// The `oauth` block for these credentials.
fn oauth(context: &Value) -> Value {
    let scenario = context.get("name").and_then(Value::as_str).unwrap_or_default();
    let grant = match scenario {
        "auth/client-credentials-jwt" | "auth/client-credentials-basic" => "client_credentials",
        "auth/cross-app-access-complete-flow" => "cross_app_access",
        _ => "authorization_code",
    };
    json!({
        "grantType": grant,
        "clientId": context.get("client_id"),
        "clientSecret": context.get("client_secret"),
        "privateKey": context.get("private_key_pem"),
        "identityProvider": context.get("idp_client_id").map(|id| json!({
            "issuer": context.get("idp_issuer"),
            "clientId": id,
            "idToken": context.get("idp_id_token"),
        })),
    })
}

fn sign_in(folder: PathBuf) -> SignIn {
    let env = Env::new([("GEMINI_FORCE_FILE_STORAGE".to_owned(), "true".to_owned())], folder.clone());
    let store = StoreOptions::from_env(&env, &folder, "host".to_owned(), "user".to_owned());
    let http = ClientOptions::new("pollux-conformance");
    let oauth = OAuth::new(OAuthOptions {
        client: http.clone(),
        store: Arc::new(CredentialStore::new(store)),
        clock: Arc::new(SystemClock),
        callback_port: None,
        client_metadata_url: Some("https://conformance-test.local/client-metadata.json".to_owned()),
    });
    SignIn { oauth, env, user_home: folder, http, clock: Arc::new(SystemClock) }
}

fn connect(config: &ServerConfig, sign_in: &SignIn, folder: &std::path::Path) -> Servers {
    Servers::start(Setup {
        entries: vec![ServerEntry { config: config.clone(), access: sign_in.access(config) }],
        owners: Owners::default(),
        env: sign_in.env.clone(),
        redaction: Redaction::default(),
        directory: folder.to_path_buf(),
        roots: vec![folder.to_path_buf()],
        background: Arc::new(Background::new(folder.join("background"))),
        http: sign_in.http.clone(),
        version: "0.0.0".to_owned(),
        interactive: true,
        name_tool: |_, tool| tool.to_owned(),
        listener: None,
        first_wait: Duration::from_secs(20),
        cache: None,
    })
}

async fn settled(servers: &Servers) -> Report {
    servers.settle_one("suite", Duration::from_secs(20)).await.unwrap()
}

async fn log_in(config: &ServerConfig, sign_in: &SignIn, challenge: &str) -> Result<(), String> {
    let server = oauth_server(config).ok_or("no address")?;
    let challenge = Some(challenge).filter(|challenge| !challenge.is_empty());
    let mut login = sign_in.oauth.begin_login(&server, challenge).await.map_err(|error| whole(&error))?;
    let url = login.url().to_owned();
    let browser = async {
        browse(&sign_in.http, &url).await;
        std::future::pending::<()>().await;
    };
    let granted = tokio::select! {
        granted = login.browser() => granted.map_err(|error| whole(&error))?,
        () = browser => return Err("never".to_owned()),
    };
    login.finish(granted).await.map_err(|error| whole(&error))
}

fn whole(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut source = error.source();
    while let Some(cause) = source {
        text.push_str(&format!(": {cause}"));
        source = cause.source();
    }
    text
}

/// Arguments that fit a schema of numbers and texts.
fn sample(schema: &Value) -> Map<String, Value> {
    let properties = schema.get("properties").and_then(Value::as_object).into_iter().flatten();
    properties
        .filter(|(name, _)| name.as_str() != "wait_for_previous")
        .map(|(name, property)| {
            let value = match property.get("type").and_then(Value::as_str) {
                Some("number" | "integer") => json!(3),
                Some("boolean") => json!(true),
                _ => json!("text"),
            };
            (name.clone(), value)
        })
        .collect()
}
