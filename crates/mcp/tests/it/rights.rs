//! Signing in for more: a server whose calls want wider rights than its lists, with its own authorization server.

use std::path::Path;
use std::sync::{Arc, Mutex};

use pollux_config::env::Env;
use pollux_domain::BoxFuture;
use pollux_domain::approval::{ApprovalAnswer, Person, Question};
use pollux_domain::time::SystemClock;
use pollux_mcp::{ServerConfig, SignIn, Status, oauth_server};
use pollux_net::client::{ClientOptions, client};
use pollux_net::credentials::{CredentialStore, StoreOptions};
use pollux_net::oauth::{OAuth, OAuthOptions};
use pollux_test_support::{FakeHttp, HttpAnswer, HttpRequest};
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;

use crate::stage::Stage;
use crate::web::answer;

/// A token is its own list of rights. `never`: what calls want is never granted.
fn office(never: bool) -> FakeHttp {
    FakeHttp::start_with_url(move |url, request| match request.path.as_str() {
        "/mcp" => guarded(url, request),
        "/.well-known/oauth-protected-resource/mcp" => {
            HttpAnswer::json(&json!({"resource": format!("{url}/mcp"), "authorization_servers": [url]}))
        }
        "/.well-known/oauth-authorization-server" => HttpAnswer::json(&json!({
            "issuer": url, "authorization_endpoint": format!("{url}/authorize"),
            "token_endpoint": format!("{url}/token"), "registration_endpoint": format!("{url}/register"),
            "token_endpoint_auth_methods_supported": ["none", "client_secret_post"],
        })),
        "/register" => HttpAnswer::json(&json!({"client_id": "c"})),
        "/authorize" => {
            let part = |name| request.parameter(name).unwrap_or_default();
            // The code carries the rights to the token.
            let code = part("scope").replace(' ', ".");
            let back = format!("{}?state={}&code=granted.{code}", part("redirect_uri"), part("state"));
            HttpAnswer::status(302).header("Location", &back)
        }
        "/token" => {
            let asked = match request.form("scope") {
                Some(scope) => scope,
                None => request.form("code").unwrap_or_default().replace("granted.", "").replace('.', " "),
            };
            let scope = if never { asked.replace("write", "").trim().to_owned() } else { asked };
            let token = scope.replace(' ', "+");
            HttpAnswer::json(&json!({"access_token": token, "token_type": "Bearer", "scope": scope}))
        }
        _ => HttpAnswer::status(404),
    })
}

fn guarded(url: &str, request: &HttpRequest) -> HttpAnswer {
    if ["GET", "DELETE"].contains(&request.method.as_str()) {
        return HttpAnswer::status(405);
    }
    let message = if request.method == "POST" { request.json() } else { Value::Null };
    let wanted = if message["method"] == "tools/call" { "read write" } else { "read" };
    let held = request.header("authorization").unwrap_or_default().trim_start_matches("Bearer ").to_owned();
    let rest = format!("resource_metadata=\"{url}/.well-known/oauth-protected-resource/mcp\"");
    if held.is_empty() {
        return HttpAnswer::status(401).header("WWW-Authenticate", &format!("Bearer scope=\"read\", {rest}"));
    }
    if !wanted.split(' ').all(|scope| held.split('+').any(|known| known == scope)) {
        let challenge = format!("Bearer error=\"insufficient_scope\", scope=\"{wanted}\", {rest}");
        return HttpAnswer::status(403).header("WWW-Authenticate", &challenge);
    }
    match answer(&message) {
        Some(text) => HttpAnswer::json(&text),
        None => HttpAnswer::status(202),
    }
}

fn sign_in(folder: &Path) -> SignIn {
    let vars = [("GEMINI_FORCE_FILE_STORAGE".to_owned(), "true".to_owned())];
    let env = Env::new(vars, folder.to_owned());
    let http = ClientOptions::new("test");
    let store = StoreOptions::from_env(&env, folder, "h".to_owned(), "u".to_owned());
    let oauth = OAuth::new(OAuthOptions {
        client: http.clone(),
        store: Arc::new(CredentialStore::new(store)),
        clock: Arc::new(SystemClock),
        callback_port: None,
        client_metadata_url: None,
    });
    SignIn { oauth, env, user_home: folder.to_owned(), http, clock: Arc::new(SystemClock) }
}

/// Follows the redirect of a page as a browser does; the address that it ends at.
async fn browse(url: &str, to_the_end: bool) -> String {
    let browser = client(&ClientOptions::new("browser")).unwrap();
    let page = browser.get(url).send().await.unwrap();
    let next = page.headers().get("location").unwrap().to_str().unwrap().to_owned();
    if to_the_end {
        browser.get(&next).send().await.unwrap();
    }
    next
}

/// A user at the terminal with scripted answers.
struct Somebody {
    way: Way,
    heard: Mutex<Vec<String>>,
}

#[derive(Clone, Copy, PartialEq)]
enum Way {
    Browser,
    Paste,
    No,
}

impl Person for Somebody {
    fn ask<'a>(
        &'a self,
        who: &'a str,
        questions: Vec<Question>,
        _: &'a CancellationToken,
    ) -> BoxFuture<'a, ApprovalAnswer> {
        Box::pin(async move {
            assert_eq!(who, "s");
            let text = questions[0].text.clone();
            let url = text.lines().find(|line| line.starts_with("http")).unwrap().to_owned();
            self.heard.lock().unwrap().push(text);
            let reply = match self.way {
                Way::No => "no".to_owned(),
                Way::Paste => browse(&url, false).await,
                Way::Browser => {
                    browse(&url, true).await;
                    String::new()
                }
            };
            ApprovalAnswer::Replies(vec![reply])
        })
    }
}

/// A server with a sign-in that covers its lists.
async fn signed_in(office: &FakeHttp, entry: &Value) -> (Stage, tempfile::TempDir, SignIn, ServerConfig) {
    let folder = tempfile::tempdir().unwrap();
    let sign_in = sign_in(folder.path());
    let config = ServerConfig::parse("s", entry).unwrap();
    if !config.auth.oauth.grant.is_unattended() {
        let stage = Stage::of(vec![("s", entry.clone())], sign_in.access(&config)).settled().await;
        let report = stage.report("s");
        assert_eq!(
            report.problem.as_deref(),
            Some("MCP server 's' requires authentication using: pollux mcp auth s")
        );
        let login = sign_in
            .oauth
            .begin_login(&oauth_server(&config).unwrap(), report.sign_in.as_deref())
            .await
            .unwrap();
        assert_eq!(login.scopes(), ["read"]);
        let end = browse(login.url(), false).await;
        let granted = login.pasted(&end).unwrap();
        login.finish(granted).await.unwrap();
    }
    let stage = Stage::of(vec![("s", entry.clone())], sign_in.access(&config)).settled().await;
    assert_eq!(stage.report("s").status, Status::Connected, "{:?}", stage.report("s"));
    assert!(!office.requests().is_empty());
    (stage, folder, sign_in, config)
}

fn asked_for(office: &FakeHttp) -> usize {
    office.requests_to("/authorize").len()
}

#[tokio::test]
async fn a_call_that_needs_more_scopes_asks_the_user_and_continues() {
    for way in [Way::Browser, Way::Paste] {
        let office = office(false);
        let entry = json!({"httpUrl": format!("{}/mcp", office.url())});
        let (stage, _folder, _, _) = signed_in(&office, &entry).await;
        let somebody = Arc::new(Somebody { way, heard: Mutex::default() });
        stage.servers.introduce(somebody.clone());
        assert_eq!(stage.call("mcp_s_t", json!({})).await.0, "<from the web>");
        assert_eq!(stage.call("mcp_s_t", json!({})).await.0, "<from the web>");
        let heard = somebody.heard.lock().unwrap().clone();
        assert_eq!(heard.len(), 1, "{heard:?}");
        assert!(heard[0].contains("`read`, `write`") && heard[0].contains("MCP server `s`"), "{heard:?}");
        assert_eq!(asked_for(&office), 2);
    }
}

#[tokio::test]
async fn the_user_is_not_asked_twice_for_the_same_scopes() {
    // The user declines; the sign-in does not help.
    for (never, way) in [(false, Way::No), (true, Way::Browser)] {
        let office = office(never);
        let entry = json!({"httpUrl": format!("{}/mcp", office.url())});
        let (stage, _folder, _, _) = signed_in(&office, &entry).await;
        let somebody = Arc::new(Somebody { way, heard: Mutex::default() });
        stage.servers.introduce(somebody.clone());
        for _ in 0..3 {
            let (said, _) = stage.call("mcp_s_t", json!({})).await;
            assert!(said.contains("additional OAuth scopes"), "{said}");
        }
        assert_eq!(somebody.heard.lock().unwrap().len(), 1);
    }
}

#[tokio::test]
async fn without_a_person_the_wish_waits_for_the_next_sign_in() {
    let office = office(false);
    let entry = json!({"httpUrl": format!("{}/mcp", office.url())});
    let (stage, _folder, sign_in, config) = signed_in(&office, &entry).await;
    let (said, _) = stage.call("mcp_s_t", json!({})).await;
    assert!(said.contains("Grant them using: pollux mcp auth s"), "{said}");
    let login = sign_in.oauth.begin_login(&oauth_server(&config).unwrap(), None).await.unwrap();
    assert_eq!(login.scopes(), ["read", "write"]);
    let granted = login.pasted(&browse(login.url(), false).await).unwrap();
    login.finish(granted).await.unwrap();
    assert_eq!(stage.call("mcp_s_t", json!({})).await.0, "<from the web>");
}

#[tokio::test]
async fn a_program_widens_its_own_rights_within_its_settings() {
    let office = office(false);
    let oauth = json!({"grantType": "client_credentials", "clientId": "robot", "clientSecret": "hush"});
    let entry = json!({"httpUrl": format!("{}/mcp", office.url()), "oauth": oauth});
    let (stage, _folder, _, _) = signed_in(&office, &entry).await;
    assert_eq!(stage.call("mcp_s_t", json!({})).await.0, "<from the web>");
    assert_eq!(asked_for(&office), 0);
    let mut limited = entry.clone();
    limited["oauth"]["scopes"] = json!(["read"]);
    let (stage, _folder, _, _) = signed_in(&office, &limited).await;
    assert!(
        stage
            .call("mcp_s_t", json!({}))
            .await
            .0
            .contains("requires additional OAuth scopes, which were not granted")
    );
    let mut wrong = entry;
    wrong["oauth"]["clientSecret"] = json!("");
    let config = ServerConfig::parse("s", &wrong).unwrap();
    let folder = tempfile::tempdir().unwrap();
    let stage = Stage::of(vec![("s", wrong)], sign_in(folder.path()).access(&config)).settled().await;
    let problem = stage.report("s").problem.unwrap();
    assert!(problem.starts_with("could not get a token for `s`: `oauth.clientSecret`, `oauth.privateKey` or `oauth.privateKeyFile` is missing"), "{problem}");
}
