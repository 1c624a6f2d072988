//! What configured MCP servers cost until the first request leaves.

use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use pollux_test_support::{Exhausted, FakeGemini, reply};
use serde_json::{Value, json};

use crate::measure::{Cost, Series, table};
use crate::scenes::{Bench, Runs, interleaved, put};

/// A small server that answers the handshake and has one tool.
const SERVER: &str = r#"import sys, json
for line in sys.stdin:
    m = json.loads(line)
    r = {"initialize": {"protocolVersion": "2025-06-18", "capabilities": {"tools": {}},
                        "serverInfo": {"name": "s", "version": "1"}},
         "tools/list": {"tools": [{"name": "t", "inputSchema": {"type": "object"}}]}}.get(m.get("method"))
    if r is not None:
        print(json.dumps({"jsonrpc": "2.0", "id": m["id"], "result": r}), flush=True)
"#;

/// No server against twenty of which five are dead: from the start of the program to its first request.
pub(crate) fn servers(bench: &Bench) {
    let mut runs: Runs<'_> = Vec::new();
    for (name, count) in [("no server", 0), ("20 servers, 5 of them dead", 20)] {
        let place = bench.place(&name.replace(' ', "-"));
        let script = place.project().join("server.py");
        put(&script, SERVER);
        let entries: serde_json::Map<String, Value> = (0..count)
            .map(|n| {
                let entry = match n {
                    0..=2 => json!({"command": "/nonexistent/server"}),
                    3 => json!({"command": "sh", "args": ["-c", "exit 1"]}),
                    4 => json!({"command": "sleep", "args": ["100"]}),
                    _ => json!({"command": "python3", "args": ["-I", script], "trust": true}),
                };
                (format!("s{n}"), entry)
            })
            .collect();
        let file = place.home().join(".gemini/settings.json");
        let mut settings: Value = serde_json::from_str(&std::fs::read_to_string(&file).unwrap()).unwrap();
        settings["mcpServers"] = Value::Object(entries);
        put(&file, &settings.to_string());
        let pollux = bench.pollux();
        runs.push((
            Series::new(name),
            Box::new(move || {
                let script = vec![reply().text("Hello.").finish("STOP").usage(10, 2)];
                let server = FakeGemini::start_with(script, Exhausted::Fail(400));
                first_request(
                    &mut place.command(&pollux, Some(&server), &["-p", "go", "-m", "gemini-2.5-flash"]),
                    &server,
                )
            }),
        ));
    }
    table("first request with MCP servers", &interleaved(bench, runs));
}

fn first_request(command: &mut Command, server: &FakeGemini) -> Cost {
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    let started = Instant::now();
    let mut child = command.spawn().expect("start the program");
    while server.requests().is_empty() {
        std::thread::sleep(Duration::from_micros(100));
    }
    let wall = started.elapsed();
    let code = child.wait().ok().and_then(|status| status.code()).unwrap_or(-1);
    Cost { wall, code, ..Cost::default() }
}
