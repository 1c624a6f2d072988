//! Sign-ins at MCP servers that gemini-cli wrote, and ours as it reads them.

use std::process::Command;

use super::*;

// Both were written by gemini-cli 0.61.0 itself, for host `build-host` and user `alice`.
const PLAIN_FILE: &str = include_str!("../../../tests/fixtures/gemini-cli-0.61-mcp-oauth-tokens.json");
const SEALED_FILE: &str = include_str!("../../../tests/fixtures/gemini-cli-0.61-credentials.json");

fn assert_is_from_gemini_cli(found: &OAuthCredentials) {
    assert_eq!(found.server_name, "my server");
    assert_eq!(found.token.access_token.reveal(), "from-gemini-access");
    assert_eq!(found.token.refresh_token.as_ref().unwrap().reveal(), "from-gemini-refresh");
    assert_eq!(
        (found.token.scope.as_deref(), found.token.expires_at),
        (Some("read write"), Some(4_102_444_800_000))
    );
    assert_eq!(
        (found.client_id.as_deref(), found.token_url.as_deref()),
        (Some("gem-client"), Some("https://idp.example/token"))
    );
    assert_eq!(found.mcp_server_url.as_deref(), Some("https://mcp.example/mcp"));
}

#[test]
fn its_sign_ins_are_found_in_both_of_its_files() {
    for (name, text) in [(PLAIN, PLAIN_FILE), ("gemini-credentials.json", SEALED_FILE)] {
        let scene = Scene::new(&[(name, text)]);
        assert_is_from_gemini_cli(&scene.store().credentials(MCP_SERVICE, "my server").unwrap().unwrap());
        assert_eq!(scene.store().entries().entries.len(), 1, "{name}");
    }
}

/// Runs the real program's own storage; `scripts/gemini-cli.sh` installs it. Without it there is nothing to ask.
#[test]
fn the_real_program_and_this_one_read_each_others_sign_ins() {
    let bundle = concat!(
        env!("CARGO_MANIFEST_DIR"),
        "/../../target/gemini-cli/node_modules/@google/gemini-cli/bundle"
    );
    if !Path::new(bundle).exists() {
        return;
    }
    let scene = Scene::new(&[]);
    let dir = scene.path(".gemini");
    fs::create_dir(&dir).unwrap();
    let node = |args: &[&str]| {
        let output = Command::new("node")
            .arg(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/fixtures/gemini-cli-tokens.mjs"))
            .arg(bundle)
            .args(args)
            .env("HOME", scene.folder.path())
            .env_remove("GEMINI_CLI_HOME")
            .env("GEMINI_FORCE_FILE_STORAGE", "true")
            .env("GEMINI_FORCE_ENCRYPTED_FILE_STORAGE", "true")
            .output()
            .unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        let text = String::from_utf8(output.stdout).unwrap();
        serde_json::from_str::<serde_json::Value>(text.lines().last().unwrap_or_default()).unwrap()
    };
    let machine = node(&["machine"]);
    let store = CredentialStore::new(StoreOptions {
        gemini_dir: dir.clone(),
        host: machine["host"].as_str().unwrap().to_owned(),
        user: machine["user"].as_str().unwrap().to_owned(),
        force_file: true,
        ..StoreOptions::default()
    });
    node(&["save", "my server"]);
    assert_is_from_gemini_cli(&store.credentials(MCP_SERVICE, "my server").unwrap().unwrap());
    let ours = token("other/server", "from-pollux", 5);
    store.set_credentials(MCP_SERVICE, &ours).unwrap();
    let seen = node(&["get", "other/server"]);
    assert_eq!(seen["token"]["accessToken"], "from-pollux", "{seen}");
    assert_eq!(seen["token"]["refreshToken"], "r");
    assert_is_from_gemini_cli(&store.credentials(MCP_SERVICE, "my server").unwrap().unwrap());
}
