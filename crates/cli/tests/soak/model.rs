//! A model that does what its prompt says.

use std::collections::HashSet;
use std::sync::Mutex;

use pollux_test_support::any_wire::answer_with;
use pollux_test_support::wires::Said;
use pollux_test_support::{FakeHttp, HttpAnswer, HttpRequest};
use serde_json::{Value, json};

use crate::day::{TurnKind, WIRE, answer};

pub(crate) fn start() -> FakeHttp {
    let failed = Mutex::new(HashSet::new());
    FakeHttp::start_forgetful(move |request| {
        if !WIRE.generates(request) {
            return HttpAnswer::status(404).body("{\"error\": {\"message\": \"not found\"}}");
        }
        let body = request.json();
        let asked = messages(&body).iter().rev().find(|message| message["role"] == "user");
        let kind = asked.and_then(|message| TurnKind::of_prompt(&text(&message["content"])));
        let Some((turn, kind)) = kind.filter(|_| declares(&body, "run_shell_command")) else {
            return answer_with(WIRE, request, &aside(&body), 1);
        };
        let is_first = failed.lock().unwrap().insert(turn);
        match kind {
            TurnKind::Cut if is_first => broken(answer_with(WIRE, request, &Said::text(&answer(turn)), turn)),
            TurnKind::Refused if is_first => HttpAnswer::status(503).header("retry-after-ms", "20"),
            _ => reply(request, &body, turn, kind),
        }
    })
}

/// Half of a stream, which then ends in order.
fn broken(mut answer: HttpAnswer) -> HttpAnswer {
    answer.body.truncate(answer.body.len() / 2);
    answer
}

fn reply(request: &HttpRequest, body: &Value, turn: usize, kind: TurnKind) -> HttpAnswer {
    let has_result = messages(body).last().is_some_and(|message| message["role"] == "tool");
    let call = match kind {
        _ if has_result => None,
        TurnKind::Read => Some(("read_file", json!({"file_path": "notes.txt"}))),
        TurnKind::Write => {
            let content = format!("Turn {turn}.\n").repeat(20);
            Some(("write_file", json!({"file_path": format!("out{}.txt", turn % 10), "content": content})))
        }
        TurnKind::Shell => Some(("run_shell_command", json!({"command": format!("echo turn {turn}; ls")}))),
        TurnKind::Scout => Some(("invoke_agent", json!({"agent_name": "scout", "prompt": "look around"}))),
        TurnKind::Mcp => Some(("mcp_good_echo", json!({"text": format!("turn {turn}")}))),
        TurnKind::Killer => Some(("mcp_frail_echo", json!({"text": "die"}))),
        TurnKind::Hang => Some(("glob", json!({"pattern": "*.txt"}))),
        TurnKind::Talk
        | TurnKind::Cut
        | TurnKind::Refused
        | TurnKind::Compress
        | TurnKind::Reload
        | TurnKind::Clear => None,
    };
    let said = call.map_or_else(|| Said::text(&answer(turn)), |(name, args)| Said::call(name, args));
    answer_with(WIRE, request, &said, turn)
}

/// Everything that is not the conversation: sub-agents, summaries, titles.
fn aside(body: &Value) -> Said {
    let has_result = messages(body).last().is_some_and(|message| message["role"] == "tool");
    match declares(body, "complete_task") {
        true if has_result => Said::call("complete_task", json!({"result": "All is quiet."})),
        true => Said::call("read_file", json!({"file_path": "notes.txt"})),
        false => {
            Said::text("<state_snapshot><overall_goal>Live through the day.</overall_goal></state_snapshot>")
        }
    }
}

fn messages(body: &Value) -> &[Value] {
    body["messages"].as_array().map_or(&[], Vec::as_slice)
}

fn text(content: &Value) -> String {
    match content {
        Value::String(text) => text.clone(),
        other => {
            let parts = other.as_array().into_iter().flatten();
            parts.filter_map(|part| part["text"].as_str()).collect::<Vec<_>>().join("\n")
        }
    }
}

fn declares(body: &Value, tool: &str) -> bool {
    let tools = body["tools"].as_array().into_iter().flatten();
    tools.into_iter().any(|declared| declared["function"]["name"] == tool)
}
