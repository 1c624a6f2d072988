//! Telemetry for a collector: one of our own, and one built with OpenTelemetry's packages, if
//! `scripts/python-peers.sh` has installed them.

use std::fs;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use pollux_test_support::otlp::{logs, metrics, resource, spans};
use pollux_test_support::{ClosedPort, FakeHttp, HttpAnswer, Reply, TestHome, reply};
use serde_json::{Value, json};

use crate::installed::installed;
use crate::scene::{MODEL, Scene, all_files, lines};

/// Long enough for any machine. Users have two seconds.
const PATIENT: (&str, &str) = ("OTEL_BSP_EXPORT_TIMEOUT", "25000");
const HEADERS: (&str, &str) =
    ("OTEL_EXPORTER_OTLP_HEADERS", "x-team=blue,authorization=Bearer%20HEADER-CANARY");

const SCOUT: &str =
    "---\nname: scout\ndescription: looks around\ntools: [read_file]\nmax_turns: 4\n---\nYou scout.\n";

fn home(endpoint: &str, more: Value) -> TestHome {
    let mut telemetry = json!({"enabled": true, "otlpEndpoint": endpoint, "otlpProtocol": "http"});
    for (key, value) in more.as_object().unwrap() {
        telemetry[key] = value.clone();
    }
    TestHome::new().settings(json!({"telemetry": telemetry}))
}

/// A run with a call that fails, and a sub-agent that reads a file.
fn replies() -> [Reply; 4] {
    [
        reply()
            .call("read_file", json!({"file_path": "none.txt"}))
            .call("invoke_agent", json!({"agent_name": "scout", "prompt": "the keep"})),
        reply().call("read_file", json!({"file_path": "map.txt"})).usage(7, 2),
        reply().call("complete_task", json!({"result": "it stands"})),
        reply().text("All is well.").usage(10, 3),
    ]
}

fn scene(endpoint: &str, more: Value) -> Scene {
    let home = home(endpoint, more).home_file(".gemini/agents/scout.md", SCOUT).file("map.txt", "a keep\n");
    Scene::with(home, replies())
}

/// Every span as the names from the root down to it, sorted.
fn tree(spans: &[Value]) -> Vec<String> {
    let path = |span: &Value| {
        let mut names = vec![span["name"].as_str().unwrap().to_owned()];
        let mut parent = span["parent"].clone();
        while parent.as_str().is_some_and(|id| !id.is_empty()) {
            let above = spans.iter().find(|span| span["id"] == parent).expect("the parent is sent as well");
            names.push(above["name"].as_str().unwrap().to_owned());
            parent = above["parent"].clone();
        }
        names.reverse();
        names.join(" > ")
    };
    let mut paths: Vec<String> = spans.iter().map(path).collect();
    paths.sort();
    paths
}

fn check_tree(spans: &[Value]) {
    let agent =
        format!("invoke_agent pollux > chat {MODEL} > execute_tool invoke_agent > invoke_agent scout");
    let mut expected = vec![
        "invoke_agent pollux".to_owned(),
        format!("invoke_agent pollux > chat {MODEL}"),
        format!("invoke_agent pollux > chat {MODEL}"),
        format!("invoke_agent pollux > chat {MODEL} > execute_tool invoke_agent"),
        agent.clone(),
        format!("{agent} > chat {MODEL}"),
        format!("{agent} > chat {MODEL}"),
        format!("{agent} > chat {MODEL} > execute_tool complete_task"),
        format!("{agent} > chat {MODEL} > execute_tool read_file"),
        format!("invoke_agent pollux > chat {MODEL} > execute_tool read_file"),
    ];
    expected.sort();
    assert_eq!(tree(spans), expected);
    let traces: Vec<&Value> = spans.iter().map(|span| &span["trace"]).collect();
    assert!(traces.iter().all(|trace| *trace == traces[0] && !trace.as_str().unwrap().is_empty()));
    let conversation = &spans[0]["attributes"]["gen_ai.conversation.id"];
    assert!(spans.iter().all(|span| span["attributes"]["gen_ai.conversation.id"] == *conversation));
    let last = spans.iter().find(|span| span["attributes"]["gen_ai.usage.input_tokens"] == 10).unwrap();
    assert_eq!(last["attributes"]["gen_ai.usage.output_tokens"], 3);
    assert_eq!(last["attributes"]["gen_ai.provider.name"], "gcp.gemini");
    assert_eq!(last["attributes"]["gen_ai.request.model"], MODEL);
    let failed: Vec<&Value> = spans.iter().filter(|span| !span["error"].is_null()).collect();
    assert_eq!(failed.len(), 1, "{failed:?}");
    assert_eq!(failed[0]["attributes"]["error.type"], "file_not_found");
    assert_eq!(failed[0]["attributes"]["gen_ai.tool.name"], "read_file");
}

fn all(collector: &FakeHttp, path: &str, read: fn(&[u8]) -> Vec<Value>) -> Vec<Value> {
    collector.requests_to(path).iter().flat_map(|request| read(&request.body)).collect()
}

#[test]
fn a_collector_gets_logs_metrics_and_the_tree_of_spans() {
    let collector = FakeHttp::start(|_| HttpAnswer::status(200));
    let scene = scene(&collector.url(), json!({}));
    let run = scene
        .prompt(&["-p", "look", "--session-id", "told"])
        .env(PATIENT.0, PATIENT.1)
        .env(HEADERS.0, HEADERS.1)
        .env("OTEL_SERVICE_NAME", "mine")
        .env("OTEL_RESOURCE_ATTRIBUTES", "deployment.environment=test")
        .run();
    assert_eq!((run.stdout.as_str(), run.code), ("All is well.\n", Some(0)), "{}", run.stderr);
    check_tree(&all(&collector, "/v1/traces", spans));
    let logs = all(&collector, "/v1/logs", logs);
    let count = |name: &str| logs.iter().filter(|log| log["name"] == format!("gemini_cli.{name}")).count();
    let counts = (count("config"), count("user_prompt"), count("api_response"), count("tool_call"));
    assert_eq!(counts, (1, 1, 4, 4));
    let metrics = all(&collector, "/v1/metrics", metrics);
    assert!(metrics.iter().any(|metric| metric["name"] == "gemini_cli.session.count"), "{metrics:?}");
    assert!(!collector.requests().is_empty());
    for request in collector.requests() {
        assert_eq!(request.header("authorization"), Some("Bearer HEADER-CANARY"));
        assert_eq!(request.header("x-team"), Some("blue"));
        let resource = resource(&request.body);
        assert_eq!(resource["service.name"], "mine");
        assert_eq!(resource["deployment.environment"], "test");
        assert_eq!(resource["session.id"], "told");
    }
}

fn certificates(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../serve/tests/fixtures").join(name)
}

/// A collector in Python; it ends with its input.
struct PythonCollector {
    child: Child,
    port: String,
}

impl PythonCollector {
    fn start(protocol: &str, file: &Path, secure: bool) -> Option<Self> {
        let folder = installed("otlp-collector", "python-peers.sh")?;
        let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/peers/otlp_collector.py");
        let tls = ["first.pem", "first.key"].map(certificates);
        let mut child = Command::new(folder.join("python/bin/python"))
            .arg(script)
            .arg(protocol)
            .arg(file)
            .args(if secure { &tls[..] } else { &[] })
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut port = String::new();
        BufReader::new(child.stdout.take().unwrap()).read_line(&mut port).unwrap();
        Some(Self { child, port: port.trim().to_owned() })
    }
}

impl Drop for PythonCollector {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// An attribute list of the published JSON form.
fn attributes(list: &Value) -> Value {
    let value = |value: &Value| match value.as_object().and_then(|fields| fields.iter().next()) {
        Some((kind, number)) if kind == "intValue" => json!(number.as_str().unwrap().parse::<i64>().unwrap()),
        Some((_, value)) => value.clone(),
        None => Value::Null,
    };
    let pairs = list.as_array().into_iter().flatten();
    Value::Object(
        pairs.map(|pair| (pair["key"].as_str().unwrap().to_owned(), value(&pair["value"]))).collect(),
    )
}

/// What the published packages read is what was meant, also after the busy answer that each kind gets first.
fn check_published(protocol: &str, secure: bool) {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("exports.jsonl");
    let Some(collector) = PythonCollector::start(protocol, &file, secure) else { return };
    let endpoint = format!("http{}://127.0.0.1:{}", if secure { "s" } else { "" }, collector.port);
    let scene = scene(&endpoint, json!({"otlpProtocol": protocol}));
    let run = scene.prompt(&["-p", "look", "--debug"]).env(PATIENT.0, PATIENT.1).env(HEADERS.0, HEADERS.1);
    let authority = certificates("authority.pem").display().to_string();
    let run = if secure { run.env("NODE_EXTRA_CA_CERTS", &authority) } else { run }.run();
    assert_eq!((run.stdout.as_str(), run.code), ("All is well.\n", Some(0)), "{}", run.stderr);
    assert!(!run.stderr.contains("not delivered"), "{}", run.stderr);
    let exports = lines(&fs::read_to_string(&file).unwrap());
    for export in &exports {
        assert_eq!(export["headers"]["x-team"], "blue");
        assert_eq!(export["headers"]["authorization"], "Bearer HEADER-CANARY");
    }
    let records = |kind: &str, list: &str, scope: &str, name: &str| -> Vec<Value> {
        let of_kind = exports.iter().filter(|export| export["kind"] == kind);
        let found = of_kind.flat_map(|export| {
            let resource = &export["message"][list][0];
            assert_eq!(attributes(&resource["resource"]["attributes"])["service.name"], "gemini-cli");
            resource[scope][0][name].as_array().unwrap().clone()
        });
        found.collect()
    };
    let spans: Vec<Value> = records("traces", "resourceSpans", "scopeSpans", "spans")
        .iter()
        .map(|span| {
            let failed = span["status"]["code"] == "STATUS_CODE_ERROR";
            json!({
                "trace": span["traceId"],
                "id": span["spanId"],
                "parent": span["parentSpanId"],
                "name": span["name"],
                "attributes": attributes(&span["attributes"]),
                "error": if failed { span["status"]["message"].clone() } else { Value::Null },
            })
        })
        .collect();
    check_tree(&spans);
    let logs = records("logs", "resourceLogs", "scopeLogs", "logRecords");
    let prompt = logs.iter().find(|log| log["eventName"] == "gemini_cli.user_prompt").unwrap();
    assert_eq!(prompt["body"]["stringValue"], "User prompt. Length: 4.");
    assert_eq!(attributes(&prompt["attributes"])["prompt"], "look");
    assert_eq!((&prompt["severityText"], prompt["traceId"].is_string()), (&json!("INFO"), true));
    let metrics = records("metrics", "resourceMetrics", "scopeMetrics", "metrics");
    let metric = |name: &str| metrics.iter().rfind(|metric| metric["name"] == name).unwrap().clone();
    let calls = metric("gemini_cli.tool.call.count");
    assert_eq!(calls["sum"]["aggregationTemporality"], "AGGREGATION_TEMPORALITY_CUMULATIVE");
    assert_eq!(calls["sum"]["isMonotonic"], true);
    let latency = metric("gemini_cli.tool.call.latency");
    let point = &latency["histogram"]["dataPoints"][0];
    let lengths =
        (point["bucketCounts"].as_array().unwrap().len(), point["explicitBounds"].as_array().unwrap().len());
    assert_eq!(lengths, (16, 15));
}

#[test]
fn the_published_packages_read_what_is_sent_over_http() {
    check_published("http", false);
    check_published("http", true);
}

#[test]
fn the_published_packages_read_what_is_sent_over_grpc() {
    check_published("grpc", false);
    check_published("grpc", true);
}

#[test]
fn a_collector_that_is_away_or_silent_costs_no_run() {
    let closed = ClosedPort::new();
    let absent = closed.url();
    let silent = FakeHttp::start(|_| HttpAnswer::status(200).body("xx").stall_after(1));
    let rude = FakeHttp::start(|_| HttpAnswer::hang_up());
    for (endpoint, protocol) in
        [(absent.as_str(), "http"), (&absent, "grpc"), (&silent.url(), "http"), (&rude.url(), "grpc")]
    {
        let scene = Scene::with(home(endpoint, json!({"otlpProtocol": protocol})), [reply().text("ok")]);
        let run = scene.run(&["-p", "x"]);
        assert_eq!((run.stdout.as_str(), run.code), ("ok\n", Some(0)), "{endpoint}: {}", run.stderr);
        assert!(!run.stderr.contains("telemetry"), "only on request: {}", run.stderr);
    }
    let scene = Scene::with(home(&absent, json!({})), [reply().text("ok")]);
    let run = scene.prompt(&["-p", "x", "--debug"]).env(PATIENT.0, PATIENT.1).run();
    let told: Vec<&str> = run.stderr.lines().filter(|line| line.contains("not delivered to")).collect();
    assert_eq!(told.len(), 1, "{}", run.stderr);
    assert!(told[0].contains(&absent) && told[0].contains("connection refused"), "{told:?}");
}

#[test]
fn an_interrupted_run_and_a_conversation_send_their_last_records_too() {
    let collector = FakeHttp::start(|_| HttpAnswer::status(200));
    let scene =
        Scene::with(home(&collector.url(), json!({})), [reply().text("Begun").text("x").stall_after(1)]);
    let running = scene.prompt(&["-p", "x"]).env(PATIENT.0, PATIENT.1).spawn();
    running.wait_for_stdout("Begun");
    running.signal("TERM");
    assert_eq!(running.wait().code, Some(143));
    let spans = all(&collector, "/v1/traces", spans);
    let turn = spans.iter().find(|span| span["name"] == "invoke_agent pollux").unwrap();
    assert_eq!(turn["attributes"]["pollux.turn.end"], "cancelled");

    let collector = FakeHttp::start(|_| HttpAnswer::status(200));
    let scene = Scene::with(home(&collector.url(), json!({})), [reply().text("Good morning.")]);
    let mut terminal = scene.prepare(&["-m", MODEL]).env(PATIENT.0, PATIENT.1).on_terminal();
    terminal.expect("User: ").say("hello").expect("Good morning.").expect("User: ").say("/quit");
    let (code, shown) = terminal.end();
    assert_eq!(code, Some(0), "{shown}");
    let logs = all(&collector, "/v1/logs", logs);
    assert!(logs.iter().any(|log| log["name"] == "gemini_cli.conversation_finished"), "{logs:?}");
}

#[test]
fn nothing_is_sent_unless_the_user_turns_it_on() {
    let collector = FakeHttp::start(|_| HttpAnswer::status(200));
    let telemetry =
        json!({"enabled": true, "otlpEndpoint": collector.url(), "otlpProtocol": "http", "logPrompts": true});
    let dotenv = format!(
        "GEMINI_TELEMETRY_ENABLED=true\nGEMINI_TELEMETRY_OTLP_PROTOCOL=http\nOTEL_EXPORTER_OTLP_ENDPOINT={0}\n\
         GEMINI_TELEMETRY_OTLP_ENDPOINT={0}\n",
        collector.url()
    );
    // The project asks for it in every way that it has.
    let home = TestHome::new()
        .project_settings(json!({"telemetry": telemetry}))
        .file(".env", &dotenv)
        .file(".gemini/.env", &dotenv)
        .env("OTEL_EXPORTER_OTLP_ENDPOINT", &collector.url());
    let scene = Scene::with(home, [reply().text("ok")]);
    assert_eq!(scene.run(&["-p", "x"]).code, Some(0));
    assert!(collector.requests().is_empty());
}

#[test]
fn a_project_redirects_no_telemetry_and_adds_no_header() {
    let (own, other) =
        (FakeHttp::start(|_| HttpAnswer::status(200)), FakeHttp::start(|_| HttpAnswer::status(200)));
    let dotenv = format!(
        "OTEL_EXPORTER_OTLP_ENDPOINT={}\nOTEL_EXPORTER_OTLP_HEADERS=x-project=1\nOTEL_SERVICE_NAME=project\n\
         OTEL_RESOURCE_ATTRIBUTES=project=1\n",
        other.url()
    );
    let home = home(&own.url(), json!({"logPrompts": false}))
        .project_settings(
            json!({"telemetry": {"otlpEndpoint": other.url(), "logPrompts": true, "traces": true}}),
        )
        .file(".env", &dotenv)
        .file(".gemini/.env", &dotenv);
    let scene = Scene::with(home, [reply().text("SECRET ANSWER")]);
    let run = scene.prompt(&["-p", "SECRET PROMPT"]).env(PATIENT.0, PATIENT.1).run();
    assert_eq!(run.code, Some(0), "{}", run.stderr);
    assert!(other.requests().is_empty());
    assert!(!own.requests().is_empty());
    for request in own.requests() {
        assert_eq!(request.header("x-project"), None);
        let resource = resource(&request.body);
        assert_eq!((&resource["service.name"], &resource["project"]), (&json!("gemini-cli"), &Value::Null));
        assert!(!String::from_utf8_lossy(&request.body).contains("SECRET"));
    }
}

#[test]
fn headers_reach_the_collector_and_no_child_file_or_output() {
    let collector = FakeHttp::start(|_| HttpAnswer::status(200));
    let hook = json!({"BeforeTool": [{"matcher": "*", "hooks": [{"type": "command", "command": "env > hook.txt"}]}]});
    let mut settings = json!({"telemetry": {"enabled": true, "otlpEndpoint": collector.url(), "otlpProtocol": "http",
        "logPrompts": true, "traces": true}});
    settings["hooks"] = hook;
    let print =
        "env; set; cat /proc/self/environ /proc/$PPID/environ | tr '\\0' '\\n'; echo said HEADER-CANARY";
    let scene = Scene::with(
        TestHome::new().settings(settings),
        [reply().call("run_shell_command", json!({"command": print})), reply().text("Done.")],
    );
    let run = scene
        .prompt(&["-p", "x", "--yolo", "--debug", "--sandbox=false"])
        .env(PATIENT.0, PATIENT.1)
        .env(HEADERS.0, HEADERS.1)
        .env("OTEL_EXPORTER_OTLP_TRACES_HEADERS", "x=TRACES-CANARY")
        .run();
    assert_eq!(run.code, Some(0), "{}", run.stderr);
    assert!(!format!("{}{}", run.stdout, run.stderr).contains("TRACES-CANARY"));
    let told = scene.server.request(1).body.to_string();
    assert!(told.contains("said HEADER-CANARY"), "the command ran: {told}");
    assert!(!told.contains("Bearer%20HEADER-CANARY") && !told.contains("TRACES-CANARY"), "{told}");
    let hook = fs::read_to_string(scene.home.project().join("hook.txt")).unwrap();
    assert!(hook.contains("PATH=") && !hook.contains("CANARY"), "{hook}");
    for file in all_files(&scene.home.home()) {
        let bytes = fs::read(&file).unwrap();
        let found = bytes.windows(13).any(|window| window == b"TRACES-CANARY");
        assert!(!found, "{}", file.display());
    }
    for request in collector.requests() {
        assert_eq!(request.header("authorization"), Some("Bearer HEADER-CANARY"));
        // Even if a command prints it: what opens the collector is not stored there.
        assert!(!String::from_utf8_lossy(&request.body).contains("CANARY"));
    }
}

#[test]
fn targets_and_protocols_that_do_not_exist_are_told() {
    let gcp = TestHome::new().settings(json!({"telemetry": {"enabled": true, "target": "gcp"}}));
    let scene = Scene::with(gcp, [reply().text("ok")]);
    let run = scene.run(&["-p", "x"]);
    assert_eq!((run.stdout.as_str(), run.code), ("ok\n", Some(0)), "{}", run.stderr);
    assert!(
        run.stderr.contains("Warning: telemetry is off") && run.stderr.contains("collector"),
        "{}",
        run.stderr
    );
    for (name, value) in [("GEMINI_TELEMETRY_OTLP_PROTOCOL", "udp"), ("GEMINI_TELEMETRY_TARGET", "moon")] {
        let scene = Scene::new([]);
        let run = scene.prompt(&["-p", "x"]).env("GEMINI_TELEMETRY_ENABLED", "1").env(name, value).run();
        assert_eq!(run.code, Some(52), "{}", run.stderr);
        assert!(run.stderr.contains(value), "{}", run.stderr);
        let off = Scene::new([reply().text("ok")]);
        assert_eq!(off.prompt(&["-p", "x"]).env(name, value).run().code, Some(0), "telemetry is off");
    }
}
