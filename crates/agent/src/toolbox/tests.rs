use std::sync::Mutex;

use pollux_domain::approval::ApprovalMode;
use pollux_domain::tool::{ArgError, Invocation};
use pollux_domain::{BoxFuture, JsonObject};
use pollux_policy::engine::Options;
use pollux_policy::load::{Sources, load};
use serde_json::json;

use super::*;

struct Named {
    spec: Arc<ToolSpec>,
    server: Option<&'static str>,
    /// Known from an earlier run.
    recalled: bool,
}

fn tool(name: &str, kind: ToolKind, server: Option<&'static str>, recalled: bool) -> Arc<dyn Tool> {
    let spec = Arc::new(ToolSpec {
        name: name.into(),
        display_name: name.into(),
        description: String::new(),
        kind,
        parameters: json!({}),
        output_is_markdown: false,
        offloads_long_output: false,
    });
    Arc::new(Named { spec, server, recalled })
}

impl Tool for Named {
    fn spec(&self) -> &Arc<ToolSpec> {
        &self.spec
    }

    fn server(&self) -> Option<&str> {
        self.server
    }

    fn unavailable(&self) -> Option<String> {
        self.recalled.then(|| "the server has not answered yet".to_owned())
    }

    fn prepare(&self, _args: &JsonObject) -> Result<Box<dyn Invocation>, ArgError> {
        Err(ArgError("never called".into()))
    }
}

/// One server, and the names that somebody waited for.
#[derive(Default)]
struct Late(Mutex<Vec<String>>);

impl ToolSource for Late {
    fn version(&self) -> u64 {
        1
    }

    fn tools(&self) -> Vec<Arc<dyn Tool>> {
        let of = |name: &str, recalled| tool(name, ToolKind::Other, Some("srv"), recalled);
        vec![of("mcp_srv_write_file", false), of("mcp_srv_echo", false), of("mcp_srv_later", true)]
    }

    fn context(&self) -> Option<String> {
        None
    }

    fn settled<'a>(&'a self, _cancel: &'a CancellationToken) -> BoxFuture<'a, ()> {
        Box::pin(std::future::ready(()))
    }

    fn arrival<'a>(&'a self, name: &'a str, _cancel: &'a CancellationToken) -> BoxFuture<'a, ()> {
        self.0.lock().unwrap().push(name.to_owned());
        Box::pin(std::future::ready(()))
    }

    fn absence(&self, name: &str) -> Option<String> {
        name.starts_with("mcp_dead_").then(|| "MCP server 'dead' is not connected: it ended".to_owned())
    }
}

fn toolbox(late: &Arc<Late>, mode: ApprovalMode, interactive: bool) -> Toolbox {
    let engine = Arc::new(load(&Sources::default(), Options::default()));
    let own = vec![
        tool("glob", ToolKind::Search, None, false),
        tool("write_file", ToolKind::Edit, None, false),
        tool("exit_plan_mode", ToolKind::Plan, None, false),
    ];
    Toolbox::new(own, Some(Arc::clone(late) as _), &Approvals::new(engine, mode, interactive, true))
}

fn told(toolbox: &Toolbox, name: &str) -> String {
    match toolbox.find(name) {
        Ok(tool) => format!("found {}", tool.spec().name),
        Err(failure) => failure.message,
    }
}

#[tokio::test]
async fn only_names_that_are_nobodys_are_waited_for() {
    let late = Arc::new(Late::default());
    let toolbox = toolbox(&late, ApprovalMode::Default, true);
    let cancel = CancellationToken::new();
    for name in ["glob", "exit_plan_mode", "mcp_srv_echo", "mcp_srv_later", "echo", "invented", "mcp_dead_x"]
    {
        if toolbox.may_still_come(name) {
            toolbox.arrival(name, &cancel).await;
        }
    }
    assert_eq!(*late.0.lock().unwrap(), ["invented", "mcp_dead_x"]);
}

#[test]
fn what_cannot_be_called_is_answered_with_the_reason() {
    let toolbox = toolbox(&Arc::default(), ApprovalMode::Default, false);
    assert_eq!(told(&toolbox, "glob"), "found glob");
    assert!(told(&toolbox, "write_file").contains("requires approval"), "{}", told(&toolbox, "write_file"));
    assert!(told(&toolbox, "exit_plan_mode").contains("is not available: settings, a policy rule"));
    assert_eq!(told(&toolbox, "mcp_dead_x"), "MCP server 'dead' is not connected: it ended");
    assert!(told(&toolbox, "invented").starts_with("Tool \"invented\" not found."));
}

#[test]
fn a_server_gets_no_calls_of_a_tool_that_is_kept_from_the_model() {
    let toolbox = toolbox(&Arc::default(), ApprovalMode::Yolo, false);
    assert_eq!(told(&toolbox, "write_file"), "found write_file");
    assert_eq!(told(&toolbox, "echo"), "found mcp_srv_echo");
    assert_eq!(told(&toolbox, "mcp_srv_later"), "the server has not answered yet");
    let planning = self::toolbox(&Arc::default(), ApprovalMode::Default, true);
    assert!(told(&planning, "exit_plan_mode").contains("is not available"));
    let mut headless = self::toolbox(&Arc::default(), ApprovalMode::Default, false);
    // As if a rule let the server's tools run.
    headless.tools.push(tool("mcp_srv_write_file", ToolKind::Other, Some("srv"), false));
    assert!(told(&headless, "write_file").contains("requires approval"), "{}", told(&headless, "write_file"));
    assert_eq!(told(&headless, "srv__write_file"), "found mcp_srv_write_file");
}
