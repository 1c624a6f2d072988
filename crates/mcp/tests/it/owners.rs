//! Servers of the user, of a project and of extensions side by side.

use pollux_mcp::Owners;
use pollux_test_support::mcp::server_entry;
use serde_json::{Value, json};

use crate::stage::Stage;

fn owners(of_user: &[&str], of_project: &[&str]) -> Owners {
    let names = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect();
    Owners { of_user: names(of_user), of_project: names(of_project) }
}

#[tokio::test]
async fn a_project_offers_no_tool_by_a_name_of_the_users_tools() {
    let owners = owners(&["a_do", "z"], &["a"]);
    let entries = ["a", "m", "z"].map(|name| (name, server_entry("plain")));
    let stage = Stage::owned(entries.into(), owners).settled().await;
    let names = stage.names();
    assert!(names.contains(&"mcp_a_echo".to_owned()), "{names:?}");
    assert!(!names.contains(&"mcp_a_do_it_".to_owned()), "`a_do` is not even running: {names:?}");
    let order: Vec<String> = stage.servers.reports().into_iter().map(|report| report.name).collect();
    assert_eq!(order, ["z", "m", "a"], "the first server keeps a name");
    let report = stage.report("a");
    assert!(report.tools.iter().all(|tool| tool.declared != "mcp_a_do_it_"));
    let note = "[skipped] `mcp_a_do_it_` is a name that only tools of your server `a_do` can have";
    assert!(report.log.iter().any(|line| line == note), "{:?}", report.log);
    stage.servers.shutdown().await;
}

#[tokio::test]
async fn an_approval_is_for_a_tool_of_this_program_and_for_a_project_in_this_folder() {
    let definition = async |entry: &Value, owners: Owners| {
        let stage = Stage::owned(vec![("s", entry.clone())], owners).settled().await;
        let definition = stage.tool("mcp_s_echo").definition().unwrap().to_owned();
        stage.servers.shutdown().await;
        definition
    };
    let (own, projects) = (|| owners(&["s"], &[]), || owners(&[], &["s"]));
    let entry = server_entry("plain");
    let mut other = entry.clone();
    other["args"].as_array_mut().unwrap().push(json!("--quiet"));
    let approved = definition(&entry, own()).await;
    assert_eq!(definition(&entry, own()).await, approved);
    assert_ne!(definition(&other, own()).await, approved, "other arguments");
    assert_ne!(definition(&entry, projects()).await, definition(&entry, projects()).await, "two folders");
}
