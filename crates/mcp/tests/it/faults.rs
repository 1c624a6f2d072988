//! Servers that do everything wrong: time and memory stay bounded, and the others are not disturbed.

use std::time::Duration;

use pollux_domain::tool::ToolSource;
use pollux_mcp::Status;
use pollux_test_support::mcp::server_entry;
use serde_json::json;

use crate::stage::Stage;

#[tokio::test]
async fn a_silent_server_costs_only_its_own_timeout() {
    let mut silent = server_entry("silent");
    silent["timeout"] = json!(300);
    let stage = Stage::of(vec![("a", silent), ("b", server_entry("plain"))], None);
    let good = stage.servers.settle_one("b", Duration::from_secs(30)).await.unwrap();
    assert_eq!(good.status, Status::Connected);
    let stage = stage.settled().await;
    let report = stage.report("a");
    assert_eq!(report.status, Status::Disconnected);
    assert!(report.problem.unwrap().ends_with("did not respond within 0.3 s"));
    assert_eq!(stage.call("mcp_b_echo", json!({})).await.0, "<echo {}>");
}

#[tokio::test]
async fn a_server_that_cannot_start_says_why() {
    let gone = json!({"command": "/nonexistent/server"});
    let unknown = json!({"command": "no-such-server"});
    let nowhere = json!({"command": "sh", "cwd": "/nonexistent"});
    let entries =
        vec![("crash", server_entry("crashes")), ("gone", gone), ("unknown", unknown), ("nowhere", nowhere)];
    let stage = Stage::of(entries, None).settled().await;
    let crash = stage.report("crash");
    assert!(crash.problem.unwrap().ends_with("exited with code 3 before it connected"));
    assert_eq!(crash.log.last().unwrap(), "cannot find my configuration");
    let problem = |name: &str| stage.report(name).problem.unwrap();
    assert!(problem("gone").starts_with("could not start `/nonexistent/server` in `"), "{}", problem("gone"));
    let unknown = problem("unknown");
    assert!(unknown.starts_with("`no-such-server` was not found on PATH"), "{unknown}");
    assert_eq!(problem("nowhere"), "could not start `sh`: its folder `/nonexistent` does not exist");
    assert_eq!(stage.names(), Vec::<String>::new());
}

#[tokio::test]
async fn a_server_that_dies_in_a_call_is_reported_and_restarted() {
    let stage = Stage::with(&[("s", "dies")]).settled().await;
    let (said, _) = stage.call("mcp_s_echo", json!({})).await;
    assert!(
        said.starts_with("mcp_tool_error: MCP tool 'echo' could not be called: MCP server 's' exited"),
        "{said}"
    );
    assert!(said.contains("out of memory"), "{said}");
    // Its tools stay while it is started again.
    assert!(stage.names().contains(&"mcp_s_echo".to_owned()));
    stage
        .until("it is back", |stage| {
            let report = stage.report("s");
            report.status == Status::Connected
                && report.log.iter().filter(|line| line.starts_with("fake server")).count() == 2
        })
        .await;
}

#[tokio::test]
async fn floods_are_cut_off() {
    let stage = Stage::with(&[("line", "floods-a-line"), ("many", "floods")]).settled().await;
    for (name, why) in [("many", "too much output that is not a message"), ("line", "unterminated message")] {
        let before = memory();
        let (said, _) = stage.call(&format!("mcp_{name}_echo"), json!({})).await;
        assert!(said.contains("exited before it responded") && said.contains(why), "{said}");
        let grown = memory().saturating_sub(before);
        assert!(grown < 150 << 20, "{grown} bytes more than before");
    }
}

/// The most memory this process ever had, in bytes.
fn memory() -> usize {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).unwrap_or_default();
    line.trim().trim_end_matches(" kB").trim().parse::<usize>().unwrap_or_default() << 10
}

#[tokio::test]
async fn wrong_bytes_and_wrong_ids_do_no_harm() {
    let mut wrong = server_entry("wrong-ids");
    wrong["timeout"] = json!(2000);
    let entries =
        vec![("bytes", server_entry("bad-utf8")), ("ids", server_entry("answers-others")), ("init", wrong)];
    let stage = Stage::of(entries, None).settled().await;
    assert_eq!(stage.call("mcp_bytes_echo", json!({})).await.0, "<caf\u{fffd}>");
    assert_eq!(stage.call("mcp_ids_echo", json!({})).await.0, "<yours>");
    assert_eq!(stage.report("init").status, Status::Disconnected);
}

#[tokio::test]
async fn huge_and_endless_schemas_are_declared_small() {
    let stage = Stage::with(&[("cyclic", "cyclic"), ("huge", "huge-schema")]).settled().await;
    let huge = stage.tool("mcp_huge_huge");
    assert!(huge.spec().parameters.to_string().len() < 1000);
    assert!(huge.spec().description.len() < 20_000);
    let tree = stage.tool("mcp_cyclic_tree");
    assert_eq!(
        tree.spec().parameters["properties"]["root"],
        json!({"type": "object", "properties": {"child": {}}})
    );
}

#[tokio::test]
async fn tools_that_change_their_names_are_found_under_the_new_ones() {
    let stage = Stage::with(&[("s", "renames")]).settled().await;
    let version = stage.servers.version();
    let old = stage.tool("mcp_s_tool0");
    assert_eq!(stage.call("mcp_s_tool0", json!({})).await.0, "<tool0>");
    stage.until("it is renamed", |stage| stage.names().contains(&"mcp_s_tool1".to_owned())).await;
    assert!(!stage.names().contains(&"mcp_s_tool0".to_owned()));
    assert!(stage.servers.version() > version);
    // Holders of the old one still belong to the same server.
    assert_eq!(old.server(), Some("s"));
}

#[tokio::test]
async fn a_description_cannot_hide_words_or_become_more_than_one() {
    let stage = Stage::with(&[("s", "injects")]).settled().await;
    let weather = stage.tool("mcp_s_weather");
    let description = &weather.spec().description;
    assert!(!description.contains('\u{200b}') && !description.contains('\u{e0049}'), "{description}");
    // What it says of itself gives it no right: it is a tool of that server, of no special kind.
    assert!(!weather.spec().kind.is_read_only());
    assert_eq!(weather.server(), Some("s"));
}

#[tokio::test]
async fn nothing_is_left_running() {
    let stage = Stage::with(&[("a", "plain"), ("b", "silent")]);
    stage.servers.settle_one("a", Duration::from_secs(30)).await;
    let marker = stage.folder.path().display().to_string();
    assert!(!processes_in(&marker).is_empty());
    stage.servers.shutdown().await;
    // The kernel may take a moment to carry out what it was told.
    for _ in 0..500 {
        if processes_in(&marker).is_empty() {
            return;
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    panic!("still running: {:?}", processes_in(&marker));
}

/// Processes that work in a folder.
fn processes_in(folder: &str) -> Vec<String> {
    let entries = std::fs::read_dir("/proc").unwrap().flatten();
    entries
        .filter(|entry| {
            let place = std::fs::read_link(entry.path().join("cwd")).unwrap_or_default();
            let state = std::fs::read_to_string(entry.path().join("stat")).unwrap_or_default();
            place.to_string_lossy().starts_with(folder) && !state.contains(") Z ")
        })
        .map(|entry| entry.file_name().to_string_lossy().into_owned())
        .collect()
}
