//! `pollux mcp`: what it prints and what it writes.

use std::fs;
use std::io::{Read, Write};

use pollux_test_support::mcp::server_entry;
use pollux_test_support::{FakeHttp, HttpAnswer, Run, TestHome, executable};
use serde_json::json;

use crate::scene::binary;

fn run(home: &TestHome, args: &[&str]) -> Run {
    let args: Vec<&str> = ["mcp"].into_iter().chain(args.iter().copied()).collect();
    home.command(binary(), args).env("GEMINI_CLI_TRUST_WORKSPACE", "true").run()
}

/// A server that has time to answer on a busy machine; `pollux mcp list` gives one without a limit of its own 5 s.
fn patient(manner: &str) -> serde_json::Value {
    let mut entry = server_entry(manner);
    entry["timeout"] = json!(30_000);
    entry
}

fn said(home: &TestHome, args: &[&str]) -> String {
    let run = run(home, args);
    assert_eq!(run.code, Some(0), "{args:?}: {}", run.stderr);
    run.stdout
}

#[test]
fn servers_are_added_updated_and_removed_with_everything_else_left_alone() {
    let before = "{\n  // keep me\n  \"ui\": {\"theme\": \"x\"}, // and me\n  \"mcpServers\": {\"old\": {\"command\": \"$CMD\"}}\n}\n";
    let home = TestHome::new().file(".gemini/settings.json", before);
    let add = [
        "add",
        "n",
        "npx",
        "-y",
        "srv",
        "-e",
        "A=b=c",
        "-e",
        "KEY=$KEY",
        "--timeout",
        "500",
        "--include-tools",
        "a,b",
    ];
    assert_eq!(said(&home, &add), "MCP server \"n\" added to project settings. (stdio)\n");
    let text = home.read(".gemini/settings.json");
    assert!(text.contains("// keep me") && text.contains("// and me") && text.contains("$CMD"), "{text}");
    let entry = |text: &str| {
        let plain: String =
            text.lines().map(|line| line.split(" //").next().unwrap()).collect::<Vec<_>>().join("\n");
        serde_json::from_str::<serde_json::Value>(&plain).unwrap()["mcpServers"]["n"].clone()
    };
    assert_eq!(
        entry(&text),
        json!({"command": "npx", "args": ["-y", "srv"], "env": {"A": "b=c", "KEY": "$KEY"}, "timeout": 500,
               "includeTools": ["a", "b"]})
    );
    let http = ["add", "-t", "http", "-H", "X: y:z", "--trust", "n", "https://example.com/mcp"];
    let again = run(&home, &http);
    assert!(
        again.stderr.contains("MCP server \"n\" is already configured within project settings."),
        "{}",
        again.stderr
    );
    assert_eq!(again.stdout, "MCP server \"n\" updated in project settings.\n");
    assert_eq!(
        entry(&home.read(".gemini/settings.json")),
        json!({"url": "https://example.com/mcp", "type": "http", "headers": {"X": "y:z"}, "trust": true})
    );
    assert_eq!(said(&home, &["remove", "n"]), "Server \"n\" removed from project settings.\n");
    assert_eq!(said(&home, &["remove", "n"]), "Server \"n\" not found in project settings.\n");
    let text = home.read(".gemini/settings.json");
    assert!(
        text.contains("// keep me") && text.contains("{\"command\": \"$CMD\"}") && !text.contains("npx"),
        "{text}"
    );
    assert_eq!(
        said(&home, &["add", "-s", "user", "u", "cmd"]),
        "MCP server \"u\" added to user settings. (stdio)\n"
    );
    let user = fs::read_to_string(home.gemini_dir().join("settings.json")).unwrap();
    assert!(user.contains("\"args\": []"), "{user}");
    assert_eq!(run(&home, &["add", "bad", "-t", "http", "ftp://x"]).code, Some(1));
}

#[test]
fn the_list_is_live_parallel_and_limited() {
    assert_eq!(said(&TestHome::new(), &["list"]), "No MCP servers configured.\n");
    let mut slow = server_entry("silent");
    slow["timeout"] = json!(1500);
    let home = TestHome::new().settings(json!({
        "mcpServers": {"good": patient("plain"), "slow": slow, "slow2": slow, "dead": {"command": "/nonexistent"},
            "off": server_entry("plain")},
        "mcp": {"excluded": ["off"]},
    }));
    let list = run(&home, &["list"]);
    let ends: Vec<(&str, &str)> = list
        .stdout
        .lines()
        .skip(2)
        .map(|line| (line.split(':').next().unwrap(), line.rsplit(" - ").next().unwrap()))
        .collect();
    assert_eq!(
        ends,
        [
            ("✗ dead", "Disconnected"),
            ("✓ good", "Connected"),
            ("⛔ off", "Blocked"),
            ("✗ slow", "Disconnected"),
            ("✗ slow2", "Disconnected")
        ],
        "{}",
        list.stdout
    );
    assert!(list.stderr.contains("dead: could not start `/nonexistent`"), "{}", list.stderr);
}

#[test]
fn servers_are_switched_off_and_on() {
    let home = TestHome::new()
        .settings(json!({"mcpServers": {"Srv": patient("plain"), "b": {"command": "x"}},
        "mcp": {"excluded": ["b"]}}));
    assert_eq!(said(&home, &["disable", "srv"]), "✓ MCP server 'Srv' disabled.\n");
    let file = home.gemini_dir().join("mcp-server-enablement.json");
    let switches: serde_json::Value = serde_json::from_str(&fs::read_to_string(&file).unwrap()).unwrap();
    assert_eq!(switches, json!({"srv": {"enabled": false}}));
    assert!(said(&home, &["list"]).contains("○ Srv: "));
    assert_eq!(said(&home, &["enable", "Srv"]), "✓ MCP server 'Srv' enabled.\n");
    assert!(said(&home, &["list"]).contains("✓ Srv: "));
    assert_eq!(
        said(&home, &["disable", "Srv", "--session"]),
        "✓ MCP server 'Srv' disabled for this session.\n"
    );
    for (args, expected) in [
        (["enable", "b"], "is blocked by mcp.excluded"),
        (["enable", "nosuch"], "Server 'nosuch' not found. Use 'pollux mcp list'"),
        (["disable", "nosuch"], "Server 'nosuch' not found. Use 'pollux mcp list'"),
    ] {
        let refused = run(&home, &args);
        assert_eq!((refused.code, refused.stdout.as_str()), (Some(1), ""), "{args:?}");
        assert!(refused.stderr.contains(expected), "{}", refused.stderr);
    }
}

#[test]
fn a_damaged_list_of_disabled_servers_starts_none_and_says_so() {
    let home = TestHome::new()
        .settings(json!({"mcpServers": {"srv": patient("plain"), "other": patient("plain")}}))
        .home_file(".gemini/mcp-server-enablement.json", "{\"srv\": {\"enabled\": fal");
    let list = run(&home, &["list"]);
    assert_eq!(list.code, Some(0), "{}", list.stderr);
    assert!(list.stdout.contains("○ srv: ") && list.stdout.contains("○ other: "), "{}", list.stdout);
    let line = "mcp-server-enablement.json` cannot be read (line 1: ";
    assert_eq!(list.stderr.matches(line).count(), 1, "{}", list.stderr);
    assert!(list.stderr.contains("Fix the file, or delete it to enable all servers."), "{}", list.stderr);
    let test = run(&home, &["test", "srv"]);
    assert_eq!(test.code, Some(1), "{}", test.stderr);
    assert!(test.stderr.contains("Server 'srv' is not started: "), "{}", test.stderr);
    assert_eq!(run(&home, &["enable", "srv"]).code, Some(1));
}

#[test]
fn an_entry_without_command_and_url_is_invalid_unless_it_adjusts_an_extensions_server() {
    let extension = json!({"name": "e", "version": "1.0.0", "mcpServers": {"tuned": {"command": "x"}}});
    let home = TestHome::new()
        .settings(json!({
            "mcpServers": {"empty": {"command": ""}, "typo": {"comand": "x"}, "tuned": {"includeTools": ["x"]}},
            "extensions": {"disabled": ["e"]},
        }))
        .home_file(".gemini/extensions/e/gemini-extension.json", &extension.to_string());
    let list = run(&home, &["list"]);
    assert_eq!(
        list.stdout,
        "Configured MCP servers:\n\n✗ empty: no command or URL - Disconnected\n\
         ✗ typo: no command or URL - Disconnected\n"
    );
    assert!(list.stderr.contains("typo: Invalid configuration: missing httpUrl"), "{}", list.stderr);
    for (name, expected) in [
        ("empty", "missing httpUrl"),
        ("typo", "missing httpUrl"),
        ("tuned", "the extension that defines it is not active"),
    ] {
        let test = run(&home, &["test", name]);
        assert_eq!((test.code, test.stdout.as_str()), (Some(1), ""), "{name}");
        assert!(test.stderr.contains(expected), "{}", test.stderr);
    }
}

#[test]
fn a_header_that_is_not_sent_is_named() {
    let server = json!({"url": "http://127.0.0.1:1/mcp", "headers": {"X-Y": "$UNSETVAR"}});
    let home = TestHome::new().settings(json!({"mcpServers": {"srv": server}}));
    let list = run(&home, &["list"]);
    let line = "srv: header `X-Y` is not sent because `$UNSETVAR` is not set";
    assert_eq!(list.stderr.matches(line).count(), 1, "{}", list.stderr);
}

#[test]
fn an_option_that_does_not_apply_to_the_transport_is_refused() {
    let home = TestHome::new();
    for (args, expected) in [
        (
            &["add", "-t", "http", "-e", "A=b", "n", "https://e/mcp"][..],
            "`--env` does not apply to `--transport http`",
        ),
        (
            &["add", "-t", "sse", "-e", "A=b", "n", "https://e/mcp"],
            "`--env` does not apply to `--transport sse`",
        ),
        (
            &["add", "-t", "stdio", "-H", "A: b", "n", "srv"],
            "`--header` does not apply to `--transport stdio`",
        ),
        (&["add", "-t", "http", "n", "https://e/mcp", "x"], "an argument after the URL does not apply"),
    ] {
        let refused = run(&home, args);
        assert_eq!((refused.code, refused.stdout.as_str()), (Some(1), ""), "{args:?}");
        assert!(refused.stderr.contains(expected), "{}", refused.stderr);
    }
    assert!(!home.project().join(".gemini/settings.json").exists());
}

#[test]
fn a_test_tells_what_is_there_or_why_not() {
    let home = TestHome::new()
        .settings(json!({"mcpServers": {"good": patient("plain"), "bad": patient("crashes")}}));
    let good = said(&home, &["test", "good"]);
    assert!(good.contains("Connected, fake 1.2.3\n  Tools: 8 (mcp_good_echo, "), "{good}");
    assert!(good.contains("Prompts: 1 (greet someone)\n  Resources: 1\n"), "{good}");
    let bad = run(&home, &["test", "bad"]);
    assert_eq!(bad.code, Some(1));
    for words in ["'bad' is disconnected", "exited with code 3", "cannot find my configuration"] {
        assert!(bad.stderr.contains(words), "{words}: {}", bad.stderr);
    }
    assert_eq!(run(&home, &["test", "nosuch"]).code, Some(1));
    let tools = said(&home, &["tools"]);
    assert!(tools.contains("✓ good: 8 tools\n  mcp_good_echo  Says it again.\n"), "{tools}");
    assert!(tools.starts_with("✗ bad - Disconnected"), "{tools}");
    let auth = run(&home, &["auth", "good"]);
    assert!(auth.code == Some(1) && auth.stderr.contains("needs no sign-in"), "{}", auth.stderr);
}

/// A server that wants somebody to sign in, with its own authorization server.
fn office() -> FakeHttp {
    FakeHttp::start_with_url(|url, request| match request.path.as_str() {
        "/mcp" if request.header("authorization") == Some("Bearer the-token") => answered(&request.json()),
        "/mcp" => HttpAnswer::status(401).header("WWW-Authenticate", "Bearer scope=\"read write\""),
        "/.well-known/oauth-authorization-server" => HttpAnswer::json(&json!({
            "issuer": url, "authorization_endpoint": format!("{url}/authorize"),
            "token_endpoint": format!("{url}/token"), "registration_endpoint": format!("{url}/register"),
        })),
        "/register" => HttpAnswer::json(&json!({"client_id": "c"})),
        "/authorize" => {
            let part = |name| request.parameter(name).unwrap_or_default();
            let back = format!("{}?state={}&code=browsers-code", part("redirect_uri"), part("state"));
            HttpAnswer::status(302).header("Location", &back)
        }
        "/token" => HttpAnswer::json(&json!({"access_token": "the-token", "token_type": "Bearer"})),
        _ => HttpAnswer::status(404),
    })
}

fn answered(message: &serde_json::Value) -> HttpAnswer {
    let result = match message["method"].as_str().unwrap_or_default() {
        "initialize" => json!({"protocolVersion": "2025-06-18", "capabilities": {"tools": {}},
            "serverInfo": {"name": "web", "version": "1"}}),
        "tools/list" => json!({"tools": [{"name": "t", "inputSchema": {"type": "object"}}]}),
        _ => return HttpAnswer::status(202),
    };
    HttpAnswer::json(&json!({"jsonrpc": "2.0", "id": message["id"], "result": result}))
}

/// Follows a page to its end, as a browser does.
fn browse(url: &str) {
    let get = |url: &str| -> String {
        let (host, path) = url.trim_start_matches("http://").split_once('/').unwrap();
        let mut stream = std::net::TcpStream::connect(host.replace("localhost", "127.0.0.1")).unwrap();
        write!(stream, "GET /{path} HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n\r\n").unwrap();
        let mut text = String::new();
        stream.read_to_string(&mut text).unwrap();
        text
    };
    let page = get(url);
    let line = page.lines().find(|line| line.to_lowercase().starts_with("location: ")).unwrap();
    let end = get(line.split_once(' ').unwrap().1.trim());
    assert!(end.contains("Signed in"), "{end}");
}

fn signs_in(office: &FakeHttp) -> TestHome {
    let web = json!({"httpUrl": format!("{}/mcp", office.url()), "timeout": 30_000});
    TestHome::new()
        .env("GEMINI_FORCE_FILE_STORAGE", "true")
        .env("GEMINI_CLI_TRUST_WORKSPACE", "true")
        .settings(json!({"mcpServers": {"web": web}}))
}

#[test]
fn signing_in_takes_the_browser_or_what_is_pasted_whichever_comes_first() {
    let office = office();
    let home = signs_in(&office);
    let list = run(&home, &["list"]);
    assert!(list.stderr.contains("requires authentication using: pollux mcp auth web"), "{}", list.stderr);
    // Somebody whose browser is elsewhere types something wrong first.
    let mut terminal = home.command(binary(), ["mcp", "auth", "web"]).on_terminal();
    terminal.expect("Requested scopes: read, write").expect("browser now? [Y/n]").say("n");
    terminal.expect("paste the final URL").say("http://localhost/?what=this");
    terminal.expect("does not belong to the current sign-in").say("pasted-code-1234");
    let (code, screen) = terminal.end();
    assert_eq!(code, Some(0), "{screen}");
    assert!(screen.contains("Successfully authenticated with MCP server 'web'"), "{screen}");
    assert_eq!(office.requests_to("/token")[0].form("code").as_deref(), Some("pasted-code-1234"));
    assert!(said(&home, &["list"]).contains("✓ web: "));
    // The same with a browser on this machine; nothing is typed.
    let home = signs_in(&office);
    let opener = "#!/bin/sh\necho \"$1\" > \"$HOME/opened.tmp\"; mv \"$HOME/opened.tmp\" \"$HOME/opened\"\n";
    executable(home.home().join("bin/xdg-open"), opener);
    let path = format!("{}:/usr/bin:/bin", home.home().join("bin").display());
    let mut terminal = home.command(binary(), ["mcp", "auth", "web"]).env("PATH", &path).on_terminal();
    terminal.expect("browser now? [Y/n]").say("").expect("Waiting up to 5 minutes");
    let url = fs::read_to_string(home.home().join("opened")).unwrap();
    browse(url.trim());
    let (code, screen) = terminal.end();
    assert_eq!(code, Some(0), "{screen}");
    assert_eq!(office.requests_to("/token")[1].form("code").as_deref(), Some("browsers-code"));
}

#[test]
fn scripts_paste_through_standard_input_and_programs_need_nobody() {
    let office = office();
    let home = signs_in(&office);
    let piped = |text: &str| home.command(binary(), ["mcp", "auth", "web"]).stdin(text.to_owned()).run();
    let wrong = piped("code=x&state=y\n");
    assert_eq!(wrong.code, Some(41), "{}", wrong.stderr);
    assert!(wrong.stderr.contains("does not belong to the current sign-in"), "{}", wrong.stderr);
    let right = piped("scripts-code-1\n");
    assert_eq!(right.code, Some(0), "{}", right.stderr);
    assert_eq!(right.stdout, "Successfully authenticated with MCP server 'web'\n");

    let oauth =
        json!({"grantType": "client_credentials", "clientId": "robot", "clientSecret": "$ROBOT_SECRET"});
    let web = json!({"httpUrl": format!("{}/mcp", office.url()), "oauth": oauth, "timeout": 30_000});
    let home = TestHome::new().settings(json!({"mcpServers": {"web": web}}));
    let without = run(&home, &["auth", "web"]);
    assert_eq!(without.code, Some(41), "{}", without.stderr);
    assert!(without.stderr.contains("`oauth.clientSecret`, `oauth.privateKey`"), "{}", without.stderr);
    let home = home.env("ROBOT_SECRET", "robots-secret-1");
    assert_eq!(said(&home, &["auth", "web"]), "MCP server 'web' issued a token; no sign-in is needed\n");
    assert!(said(&home, &["list"]).contains("✓ web: "));
    let asked = office.requests_to("/token").pop().unwrap();
    assert_eq!(asked.form("client_secret").as_deref(), Some("robots-secret-1"));
    assert!(!home.gemini_dir().join("gemini-credentials.json").exists());
}
