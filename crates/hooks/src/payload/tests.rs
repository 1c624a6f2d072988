use super::*;
use crate::answer::Decision;

fn keys(fields: &JsonObject) -> Vec<&str> {
    fields.keys().map(String::as_str).collect()
}

fn answer(specific: Value) -> HookAnswer {
    HookAnswer { specific: specific.as_object().unwrap().clone(), ..HookAnswer::default() }
}

#[test]
fn every_input_has_the_documented_keys() {
    let request = LlmRequest { model: "m".into(), ..LlmRequest::default() };
    let table = [
        (SessionStart { source: StartSource::Clear }.fields(), vec!["source"]),
        (SessionEnd { reason: EndReason::PromptInputExit }.fields(), vec!["reason"]),
        (BeforeAgent { prompt: "p".into() }.fields(), vec!["prompt"]),
        (BeforeModel { llm_request: request.clone() }.fields(), vec!["llm_request"]),
        (BeforeToolSelection { llm_request: request.clone() }.fields(), vec!["llm_request"]),
        (
            AfterModel { llm_request: request, llm_response: LlmResponse::default() }.fields(),
            vec!["llm_request", "llm_response"],
        ),
        (PreCompress { trigger: CompressTrigger::Auto }.fields(), vec!["trigger"]),
        (
            Notification::tool_permission("t", PermissionDetails::Other("x".into())).fields(),
            vec!["notification_type", "message", "details"],
        ),
        (BeforeTool::default().fields(), vec!["tool_name", "tool_input"]),
    ];
    for (fields, expected) in table {
        assert_eq!(keys(&fields), expected);
    }
    let done =
        AfterAgent { prompt: "p".into(), prompt_response: " ".into(), stop_hook_active: true }.fields();
    assert_eq!(
        Value::Object(done),
        json!({"prompt": "p", "prompt_response": "[no response text]", "stop_hook_active": true})
    );
}

#[test]
fn an_mcp_call_carries_its_server_context() {
    let context = McpContext {
        server_name: "s".into(),
        tool_name: "t".into(),
        command: Some("node".into()),
        args: vec!["x.js".into()],
        ..McpContext::default()
    };
    let call = BeforeTool {
        tool_name: "mcp_s_t".into(),
        mcp_context: Some(context),
        original_request_name: Some("o".into()),
        ..BeforeTool::default()
    };
    let error = Some(ToolFailure { message: "m".into(), kind: "k".into() });
    let sandbox = Some(json!({"level": "namespaces"}));
    let response = ToolResponse { llm_content: json!("c"), return_display: json!("d"), error, sandbox };
    assert_eq!(
        Value::Object(AfterTool { call, tool_response: response }.fields()),
        json!({"tool_name": "mcp_s_t", "tool_input": {},
            "mcp_context": {"server_name": "s", "tool_name": "t", "command": "node", "args": ["x.js"]},
            "original_request_name": "o",
            "tool_response": {"llmContent": "c", "returnDisplay": "d", "error": {"message": "m", "type": "k"},
                "sandbox": {"level": "namespaces"}}})
    );
}

#[test]
fn a_permission_notification_has_message_and_details() {
    let exec = PermissionDetails::Exec { command: "rm x".into(), root_command: "rm".into() };
    assert_eq!(
        Value::Object(Notification::tool_permission("Shell", exec).fields()),
        json!({"notification_type": "ToolPermission", "message": "Tool Shell requires execution",
            "details": {"type": "exec", "title": "Shell", "command": "rm x", "rootCommand": "rm"}})
    );
}

#[test]
fn stop_beats_block_beats_ask_beats_proceed() {
    let with =
        |stop, decision| HookAnswer { stop, decision, reason: Some("r".into()), ..HookAnswer::default() };
    let of = |stop, decision| CallVerdict::of(&with(stop, decision));
    assert_eq!(of(true, Decision::Deny), CallVerdict::Stop { reason: "r".into() });
    assert_eq!(of(false, Decision::Deny), CallVerdict::Block { reason: "r".into() });
    assert_eq!(of(false, Decision::Ask), CallVerdict::Ask { message: Some("r".into()) });
    assert_eq!(of(false, Decision::Allow), CallVerdict::Proceed);
    assert_eq!(Verdict::of(&with(false, Decision::Ask)), Verdict::Proceed);
    let silent = HookAnswer { decision: Decision::Deny, ..HookAnswer::default() };
    assert_eq!(Verdict::of(&silent), Verdict::Block { reason: "No reason provided".into() });
}

#[test]
fn every_effect_reaches_its_outcome() {
    let before = BeforeTool::outcome(answer(json!({"tool_input": {"a": 1}})));
    assert_eq!(before.tool_input.unwrap()["a"], 1);
    let after = AfterTool::outcome(answer(
        json!({"additionalContext": "c", "tailToolCallRequest": {"name": "glob", "args": {"pattern": "*"}}}),
    ));
    assert_eq!((after.context.as_deref(), after.tail_call.unwrap().name.as_str()), (Some("c"), "glob"));
    assert_eq!(AfterTool::outcome(answer(json!({"tailToolCallRequest": {"args": {}}}))).tail_call, None);
    assert!(AfterAgent::outcome(answer(json!({"clearContext": true}))).clear_context);
    let model =
        BeforeModel::outcome(answer(json!({"llm_request": {"model": "x"}, "llm_response": {"text": "t"}})));
    assert_eq!((model.request.unwrap().model.as_deref(), model.response.is_some()), (Some("x"), true));
    assert!(AfterModel::outcome(answer(json!({"llm_response": {"text": "t"}}))).response.is_some());
    let tools = BeforeToolSelection::outcome(answer(
        json!({"toolConfig": {"mode": "ANY", "allowedFunctionNames": ["b", "a"]}}),
    ));
    let config = tools.tool_config.unwrap();
    assert_eq!((config.mode, config.allowed.len()), (ToolMode::Any, 2));
    let started = SessionStart::outcome(answer(json!({"additionalContext": "c"})));
    assert_eq!(started.context.as_deref(), Some("c"));
    assert_eq!(hook_context("</hook_context>"), "<hook_context>&lt;/hook_context&gt;</hook_context>");
}
