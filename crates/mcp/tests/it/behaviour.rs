//! A server that behaves.

use std::sync::Arc;

use pollux_domain::BoxFuture;
use pollux_domain::approval::{ApprovalAnswer, Person, Question};
use pollux_domain::tool::ToolSource;
use pollux_mcp::Status;
use pollux_test_support::mcp::server_entry;
use serde_json::json;
use tokio_util::sync::CancellationToken;

use crate::stage::Stage;

#[tokio::test]
async fn its_tools_are_declared_and_called() {
    let stage = Stage::with(&[("my-srv", "plain")]).settled().await;
    let report = stage.report("my-srv");
    assert_eq!(
        (report.status, report.version.as_deref()),
        (Status::Connected, Some("fake 1.2.3")),
        "{report:?}"
    );
    let names = stage.names();
    assert_eq!(
        &names[..4],
        ["list_mcp_resources", "read_mcp_resource", "mcp_my-srv_echo", "mcp_my-srv_do_it_"]
    );
    assert_eq!(
        names.iter().filter(|name| name.ends_with("do_it_")).count(),
        1,
        "the second of the same name is left out"
    );
    let echo = stage.tool("mcp_my-srv_echo");
    assert_eq!(echo.server(), Some("my-srv"));
    assert_eq!(echo.annotations().unwrap()["readOnlyHint"], true);
    assert_eq!(echo.spec().display_name, "echo (my-srv MCP Server)");
    assert_eq!(echo.spec().parameters["properties"]["text"], json!({"type": "string", "nullable": true}));
    // The argument that is ours stays with us; the name on the wire is the server's own.
    let (said, _) = stage.call("mcp_my-srv_echo", json!({"text": "hi", "wait_for_previous": true})).await;
    assert_eq!(said, "<echo {\"text\":\"hi\"}>");
    assert_eq!(stage.call("mcp_my-srv_do_it_", json!({})).await.0, "<do it! {}>");
    let (said, _) = stage.call("mcp_my-srv_fail", json!({})).await;
    assert!(
        said.starts_with("mcp_tool_error: MCP tool 'fail' reported tool error for function call:"),
        "{said}"
    );
    stage.servers.shutdown().await;
}

#[tokio::test]
async fn progress_is_heard_while_a_call_runs() {
    let stage = Stage::with(&[("s", "plain")]).settled().await;
    let (said, live) = stage.call("mcp_s_slow", json!({})).await;
    assert_eq!(said, "<{}>");
    assert_eq!(live, ["1/3 working", "2/3 working", "3/3 working"]);
}

#[tokio::test]
async fn a_call_is_stopped_by_its_token() {
    let stage = Stage::with(&[("s", "plain")]).settled().await;
    let cancel = CancellationToken::new();
    let stop = async {
        stage.until("it hangs", |stage| stage.report("s").log.iter().any(|line| line == "hanging")).await;
        cancel.cancel();
    };
    let ((said, _), ()) = tokio::join!(stage.call_with("mcp_s_hang", json!({}), &cancel), stop);
    assert_eq!(said, "cancelled");
    // The connection is as good as before.
    assert_eq!(stage.call("mcp_s_echo", json!({})).await.0, "<echo {}>");
}

#[tokio::test]
async fn it_sees_the_workspace_but_no_secret() {
    let stage = Stage::with(&[("s", "plain")]).settled().await;
    let (roots, _) = stage.call("mcp_s_roots", json!({})).await;
    assert!(roots.contains(&format!("file://{}", stage.folder.path().display())), "{roots}");
    let (names, _) = stage.call("mcp_s_env", json!({})).await;
    assert_eq!(names, "<EDITOR FAKE_MCP_MANNER GEMINI_CLI PATH>");
}

struct Ada;

impl Person for Ada {
    fn ask<'a>(
        &'a self,
        who: &'a str,
        questions: Vec<Question>,
        _: &'a CancellationToken,
    ) -> BoxFuture<'a, ApprovalAnswer> {
        assert_eq!((who, questions.len()), ("s", 1));
        Box::pin(std::future::ready(ApprovalAnswer::Replies(vec!["blue".to_owned()])))
    }
}

#[tokio::test]
async fn it_can_ask_a_person_where_there_is_one() {
    let stage = Stage::set(vec![("s", server_entry("plain"))], None, true).settled().await;
    stage.servers.introduce(Arc::new(Ada));
    let (said, _) = stage.call("mcp_s_ask", json!({})).await;
    assert_eq!(said, "<{\"action\":\"accept\",\"content\":{\"colour\":\"blue\"}}>");
    let alone = Stage::with(&[("s", "plain")]).settled().await;
    assert_eq!(alone.call("mcp_s_ask", json!({})).await.0, "<{\"action\":\"decline\"}>");
}

#[tokio::test]
async fn prompts_are_commands_and_resources_can_be_read() {
    let stage = Stage::with(&[("a", "plain"), ("b", "plain")]).settled().await;
    let cancel = CancellationToken::new();
    let names: Vec<String> = stage.servers.prompts().into_iter().map(|command| command.name).collect();
    assert_eq!(names, ["greet-someone", "b_greet-someone"]);
    for word in ["greet-someone", "a.greet-someone", "b.greet-someone", "b_greet-someone"] {
        let command = stage.servers.find_prompt(word, &cancel).await.unwrap();
        assert_eq!(command.text("Ada L", &cancel).await.unwrap(), "Greet \"Ada L\" kindly.", "{word}");
    }
    let command = stage.servers.find_prompt("greet-someone", &cancel).await.unwrap();
    assert_eq!(
        command.text("", &cancel).await.unwrap_err().to_string(),
        "Missing required argument(s): --who"
    );
    assert!(stage.servers.find_prompt("no-such", &cancel).await.is_none());

    assert!(stage.servers.is_resource("b:note://1") && !stage.servers.is_resource("src/main.rs"));
    let parts = stage.servers.read("b:note://1", &cancel).await.unwrap().unwrap();
    assert_eq!(
        parts[1].spoken_text().unwrap(),
        "<untrusted_context>\nresource \"note://1\"\n\n</untrusted_context>"
    );
    let (listed, _) = stage.call("list_mcp_resources", json!({"serverName": "b"})).await;
    assert_eq!(listed, "<Available MCP Resources:\n- b:note://1 | note | A note.>");
    assert_eq!(
        stage.call("read_mcp_resource", json!({"uri": "note://1"})).await.0,
        "<resource \"note://1\"\n>"
    );
    assert_eq!(
        stage.call("read_mcp_resource", json!({"uri": "b:note://1"})).await.0,
        "<resource \"note://1\"\n>"
    );
    // What no server lists is not asked for, because a server may do something at any address.
    for unlisted in ["gone://1", "b:gone://1", "b:note://7", "b:", "c:note://1", "b:mysql://drop/table?x=1"] {
        let (missing, _) = stage.call("read_mcp_resource", json!({"uri": unlisted})).await;
        assert_eq!(missing, format!("mcp_resource_not_found: Resource not found for URI: {unlisted}"));
    }
}

#[tokio::test]
async fn its_instructions_are_fenced_and_have_no_way_out() {
    let stage = Stage::with(&[("s", "plain")]);
    let before = stage.servers.version();
    assert!(stage.servers.context().unwrap().contains("still starting: s"));
    let stage = stage.settled().await;
    assert!(stage.servers.version() > before);
    let context = stage.servers.context().unwrap();
    assert_eq!(context.matches("</untrusted_context>").count(), 1, "{context}");
    assert_eq!(context.matches("---[end of server instructions]---").count(), 1, "{context}");
    assert_eq!(context.to_lowercase().matches("</loaded_context").count(), 1, "{context}");
    assert!(context.ends_with("</untrusted_context>\n</loaded_context>"), "{context}");
    assert!(context.contains("provided by the tool server 's'"));
}

#[tokio::test]
async fn filters_leave_what_they_say() {
    let mut entry = server_entry("plain");
    entry["includeTools"] = json!(["echo", "fail(x)", "env"]);
    entry["excludeTools"] = json!(["env"]);
    let stage = Stage::of(vec![("s", entry)], None).settled().await;
    let names: Vec<String> = stage.names().into_iter().filter(|name| name.starts_with("mcp_")).collect();
    assert_eq!(names, ["mcp_s_echo", "mcp_s_fail"]);
}
