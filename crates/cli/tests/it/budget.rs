//! Hard budgets: what is counted, where a run stops, and how it goes on.

use std::fs;
use std::time::{Duration, Instant};

use pollux_test_support::chat::{ChatReply, FakeChat};
use pollux_test_support::{Reply, Run, TestHome, reply, within_a_day};
use serde_json::{Value, json};

use crate::scene::{Scene, binary, lines, of_type, parse, until};

const SCOUT: &str =
    "---\nname: scout\ndescription: looks around\ntools: [glob]\nmax_turns: 50\n---\nScout.\n";

/// One dollar for a million tokens, of models that nobody knows.
fn priced(budget: Value) -> Value {
    let mut budget = budget;
    budget["unknownPrice"] = json!(1);
    json!({"budget": budget})
}

/// A call that never repeats, so that no loop is detected.
fn busy(number: usize) -> Reply {
    reply().call("glob", json!({"pattern": format!("*.{number}")})).usage(1_000, 10)
}

fn counters(scene: &Scene) -> Value {
    parse(&fs::read_to_string(scene.home.gemini_dir().join("budget.json")).unwrap())
}

fn asked(scene: &Scene) -> usize {
    scene.server.requests().len()
}

#[test]
fn a_runaway_with_parallel_subagents_stops_and_resumes_with_a_higher_limit() {
    let mut first = reply().usage(1_000, 10);
    for number in 0..4 {
        first =
            first.call("invoke_agent", json!({"agent_name": "scout", "prompt": format!("area {number}")}));
    }
    first = first.call("write_file", json!({"file_path": "late.txt", "content": "x"}));
    let home = TestHome::new().home_file(".gemini/agents/scout.md", SCOUT).settings(priced(json!({})));
    let scene = Scene::with(home, [first].into_iter().chain((0..200).map(busy)));
    let run = scene.run(&["-p", "go", "--yolo", "--sandbox=false", "-o", "json", "--max-budget-usd", "0.02"]);
    assert_eq!(run.code, Some(53), "{}", run.stderr);
    let document = parse(&run.stdout);
    let error = &document["error"];
    assert_eq!((&error["type"], &error["code"]), (&json!("BudgetExceeded"), &json!("BUDGET_EXCEEDED")));
    assert_eq!(
        (&error["scope"], &error["unit"], &error["limit"]),
        (&json!("session"), &json!("usd"), &json!(0.02))
    );
    let spent = document["stats"]["budget"]["spent"]["usd"].as_f64().unwrap();
    let requests = asked(&scene);
    // Every request is counted, none is left out, and estimates were above what the server counts.
    assert_eq!(document["stats"]["budget"]["spent"]["requests"], requests);
    assert!((spent - requests as f64 * 0.001_01).abs() < 1e-9, "{spent} for {requests}");
    assert!(spent <= 0.02 && (5..20).contains(&requests), "{spent} for {requests}");
    let message = error["message"].as_str().unwrap();
    let session = scene.session();
    let id = session["sessionId"].as_str().unwrap();
    assert!(message.starts_with("Budget reached: session 0.0"), "{message}");
    assert!(
        message.ends_with(&format!(
            "Nothing was lost. Continue: /budget +0.02 or pollux --resume {id} --max-budget-usd 0.04."
        )),
        "{message}"
    );
    assert!(run.stderr.contains("Budget: session 0.0"), "the notice at 80 %: {}", run.stderr);
    // The calls that ran have results, the last one was still to come.
    let calls = session["messages"][1]["toolCalls"].as_array().unwrap();
    assert_eq!(calls.len(), 5);
    assert!(calls.iter().all(|call| call["status"] != "pending"), "{calls:?}");
    assert!(calls[4]["result"].to_string().contains("interrupted: budget"), "{}", calls[4]);
    assert!(!scene.home.project().join("late.txt").exists());
    let kept = &session["messages"].as_array().unwrap().last().unwrap()["pollux"]["spent"];
    assert_eq!(kept["requests"], requests, "{session}");

    let again = scene.run(&["-p", "more", "--resume", id, "--max-budget-usd", "0.02", "-o", "json"]);
    assert_eq!((again.code, asked(&scene)), (Some(53), requests), "what was spent is kept");
    let go_on = scene.home.command(
        crate::scene::binary(),
        ["-m", crate::scene::MODEL, "-p", "more", "--resume", id, "--max-budget-usd", "1", "-o", "json"],
    );
    let other =
        pollux_test_support::FakeGemini::start_blocking_thread([reply().text("Done.").usage(1_000, 10)]);
    let go_on = go_on.env("GEMINI_CLI_TRUST_WORKSPACE", "true").against(&other).run();
    assert_eq!(go_on.code, Some(0), "{}", go_on.stderr);
    let document = parse(&go_on.stdout);
    assert_eq!(document["response"], "Done.");
    assert_eq!(document["stats"]["budget"]["spent"]["requests"], requests + 1);
    other.assert_valid();
}

#[test]
fn a_killed_process_leaves_its_reservation_spent() {
    within_a_day(|| {
        let home = TestHome::new().settings(priced(json!({"day": {"requests": 1}})));
        let scene = Scene::with(home, [Reply::never()]);
        let running = scene.prompt(&["-p", "x"]).spawn();
        until("the request arrived", || asked(&scene) == 1);
        running.signal("KILL");
        running.wait();
        let days = counters(&scene)["days"].clone();
        let today = days.as_object().unwrap().values().next().unwrap().clone();
        assert_eq!(today["requests"], 1);
        assert!(today["tokens"].as_u64().unwrap() > 1_000, "{today}");
        let next = scene.run(&["-p", "y", "-o", "json"]);
        assert_eq!((next.code, asked(&scene)), (Some(53), 1));
        let error = parse(&next.stdout)["error"].clone();
        assert_eq!(
            (&error["scope"], &error["limit"], &error["spent"]),
            (&json!("day"), &json!(1), &json!(1))
        );
    });
}

#[test]
fn a_killed_session_counts_the_request_that_was_open() {
    let scene = Scene::new([Reply::never(), reply().text("two"), reply().text("three")]);
    let running = scene.prompt(&["-p", "go", "--session-id", "cut", "--max-requests", "2"]).spawn();
    until("the request arrived", || asked(&scene) == 1);
    running.signal("KILL");
    running.wait();
    assert_eq!(counters(&scene)["sessions"]["cut"]["requests"], 1);
    assert_eq!(counters(&scene)["days"], json!({}), "days are counted only if they are limited");
    let refused = ["-p", "more", "--resume", "cut", "--max-requests", "1"];
    for _ in 0..3 {
        let run = scene.run(&refused);
        assert_eq!(run.code, Some(53), "{}", run.stderr);
        assert!(run.stderr.contains("session 1 of 1 requests"), "it is counted once: {}", run.stderr);
    }
    let resumed = ["-p", "more", "--resume", "cut", "--max-requests", "2"];
    let second = scene.run(&resumed);
    assert_eq!((second.code, second.stdout.trim()), (Some(0), "two"), "{}", second.stderr);
    let third = scene.run(&resumed);
    assert_eq!((third.code, asked(&scene)), (Some(53), 2), "{}", third.stderr);
    assert!(counters(&scene)["sessions"].is_null(), "nothing is reserved any more");
}

#[test]
fn a_limit_that_a_loop_reaches_is_reported_as_the_limit() {
    for most in 4..=8 {
        let same = || reply().call("glob", json!({"pattern": "*.same"})).usage(1_000, 10);
        let scene = Scene::new((0..20).map(|_| same()));
        let run = scene.run(&["-p", "x", "-o", "json", "--max-requests", &most.to_string()]);
        if asked(&scene) == most {
            assert_eq!(run.code, Some(53), "{most}: {}", run.stdout);
            assert_eq!(parse(&run.stdout)["error"]["type"], "BudgetExceeded", "{most}");
        }
    }
}

#[test]
fn void_attempts_are_counted_and_reported_as_wasted() {
    let void = reply().text("half of it").text("more").usage(700, 9).without_finish();
    let scene = Scene::with(
        TestHome::new().settings(priced(json!({"session": {"usd": 5}}))),
        [void, reply().text("Done.").usage(1_000, 10)],
    );
    let run = scene.run(&["-p", "x", "-o", "json"]);
    assert_eq!(run.code, Some(0), "{}", run.stderr);
    let budget = parse(&run.stdout)["stats"]["budget"].clone();
    assert_eq!((&budget["spent"]["requests"], &budget["spent"]["tokens"]), (&json!(2), &json!(1_719)));
    assert_eq!((&budget["wasted"]["requests"], &budget["wasted"]["tokens"]), (&json!(1), &json!(709)));
    assert_eq!(budget["limits"]["session"]["usd"]["limit"], 5.0);
}

#[test]
fn requests_that_fail_at_the_server_count_what_was_sent() {
    let scene = Scene::with(
        TestHome::new().settings(json!({"general": {"maxAttempts": 2}})),
        (0..9).map(|_| Reply::error(529, "UNAVAILABLE", "overloaded")),
    );
    let run = scene.run(&["-p", "x", "-o", "json", "--max-tokens-total", "900000"]);
    assert_ne!(run.code, Some(0), "{}", run.stdout);
    let budget = parse(&run.stdout)["stats"]["budget"].clone();
    let sent = asked(&scene) as u64;
    assert_eq!(budget["spent"]["requests"], sent, "{budget}");
    assert!(budget["spent"]["tokens"].as_u64().unwrap() > 1_000 * sent, "{budget}");
    assert_eq!(budget["wasted"]["tokens"], budget["spent"]["tokens"]);
}

#[test]
fn an_unknown_price_is_reported_once_or_refused() {
    let replies = || [busy(1), reply().text("Done.").usage(1_000, 10)];
    let scene = Scene::new(replies());
    let run = scene.run(&["-p", "x", "-o", "json", "--max-budget-usd", "0.000001"]);
    assert_eq!(run.code, Some(0), "{}", run.stderr);
    assert_eq!(run.stderr.matches("The price of model `test-model` is unknown").count(), 1, "{}", run.stderr);
    let spent = parse(&run.stdout)["stats"]["budget"]["spent"].clone();
    assert_eq!((&spent["tokens"], &spent["usd"]), (&json!(2_020), &json!(0.0)));

    let refusing = TestHome::new().settings(json!({"budget": {"unknownPrice": "refuse"}}));
    let scene = Scene::with(refusing, replies());
    let run = scene.run(&["-p", "x", "-o", "json", "--max-budget-usd", "5"]);
    assert_eq!((run.code, asked(&scene)), (Some(53), 0));
    let error = parse(&run.stdout)["error"].clone();
    assert_eq!(error["type"], "BudgetExceeded");
    assert!(error["message"].as_str().unwrap().contains("price of model `test-model` is unknown"), "{error}");
    let run = scene.run(&["-p", "x"]);
    assert_eq!(run.code, Some(0), "without a limit in money no price is needed: {}", run.stderr);
}

#[test]
fn every_unit_and_scope_stops_a_run() {
    within_a_day(|| {
        for (args, scope, unit) in [
            (["--max-requests", "2"], "session", "requests"),
            (["--max-tokens-total", "9k"], "session", "tokens"),
            (["--budget", "turn.requests=2"], "turn", "requests"),
            (["--budget", "day.requests=2"], "day", "requests"),
            (["--budget", "project.requests=2"], "project", "requests"),
            (["--budget", "minutes=0"], "session", "minutes"),
            (["--budget", "usd=0"], "session", "usd"),
        ] {
            let home = TestHome::new().settings(priced(json!({})));
            let scene = Scene::with(home, (0..20).map(busy));
            let run = scene.run(&["-p", "x", "-o", "stream-json", args[0], args[1]]);
            assert_eq!(run.code, Some(53), "{args:?}: {}", run.stderr);
            let result = lines(&run.stdout).pop().unwrap();
            let error = &result["error"];
            assert_eq!(
                (&error["scope"], &error["unit"]),
                (&json!(scope), &json!(unit)),
                "{args:?}: {result}"
            );
            assert_eq!(error["type"], "BudgetExceeded");
            let most = if args[1].ends_with("=0") { 0 } else { 8 };
            assert!(asked(&scene) <= most, "{args:?}: {}", asked(&scene));
            if unit == "requests" {
                assert_eq!(asked(&scene), 2, "{args:?}");
            }
            let files = scene.home.gemini_dir().join("budget.json").exists();
            assert_eq!(files, scope != "turn" && most > 0, "{args:?}: a file only where it is needed");
        }
    });
}

#[test]
fn processes_share_the_counters_of_a_day() {
    within_a_day(|| {
        let home = TestHome::new().settings(priced(json!({"day": {"requests": 4}})));
        let scene = Scene::with(home, (0..20).map(busy));
        let runs: Vec<_> = (0..3).map(|_| scene.prompt(&["-p", "x"]).spawn()).collect();
        let codes: Vec<Option<i32>> = runs.into_iter().map(|run| run.wait().code).collect();
        assert_eq!((codes, asked(&scene)), (vec![Some(53); 3], 4));
    });
}

#[test]
fn the_gemini_cli_dialect_reports_the_limit_too() {
    for (format, at) in [("json", "stderr"), ("stream-json", "stdout")] {
        let scene = Scene::new((0..3).map(busy));
        let run =
            scene.run(&["-p", "x", "-o", format, "--output-dialect", "gemini-cli", "--max-requests", "1"]);
        assert_eq!(run.code, Some(53), "{}", run.stderr);
        let error = match at {
            "stderr" => parse(run.stderr.get(run.stderr.find('{').unwrap()..).unwrap())["error"].clone(),
            _ => lines(&run.stdout).pop().unwrap()["error"].clone(),
        };
        assert_eq!(error["type"], "BudgetExceeded", "{error}");
        assert_eq!(
            (&error["scope"], &error["limit"], &error["spent"]),
            (&json!("session"), &json!(1), &json!(1))
        );
    }
}

#[test]
fn invalid_limits_are_errors() {
    let scene = Scene::new([]);
    for (flag, value, text) in [
        (
            "--max-budget-usd",
            "-1",
            "invalid value `-1` for `--max-budget-usd`: expected a non-negative number",
        ),
        ("--max-budget-usd", "NaN", "invalid value `NaN`"),
        ("--max-budget-usd", "inf", "invalid value `inf`"),
        ("--max-tokens-total", "many", "for `--max-tokens-total`: expected a non-negative whole number"),
        ("--max-requests", "1.5", "for `--max-requests`: expected a non-negative whole number"),
        ("--budget", "euro=5", "for `--budget`: expected a list such as"),
    ] {
        let run = scene.run(&["-p", "x", flag, value]);
        assert_eq!(run.code, Some(1), "{flag} {value}: {}", run.stderr);
        assert!(run.stderr.contains(text), "{flag} {value}: {}", run.stderr);
    }
    for (budget, text) in [
        (json!({"session": {"usd": -1}}), "`budget.session.usd`: expected a non-negative number, got -1"),
        (json!({"session": {"usd": "5"}}), "`budget.session.usd`"),
        (json!({"month": {"usd": 5}}), "`budget.month`"),
        (json!({"unknownPrice": "free"}), "`budget.unknownPrice`"),
    ] {
        let scene = Scene::with(TestHome::new().settings(json!({"budget": budget})), []);
        let run = scene.run(&["-p", "x"]);
        assert_eq!(run.code, Some(52), "{}", run.stderr);
        assert!(run.stderr.contains(text), "{}", run.stderr);
    }
}

#[test]
fn a_project_lowers_limits_and_cannot_raise_them() {
    let run = |project: Value| -> (Run, usize) {
        let home = TestHome::new().settings(priced(json!({"session": {"requests": 2}})));
        let scene = Scene::with(home.project_settings(json!({"budget": project})), (0..9).map(busy));
        let run = scene.run(&["-p", "x"]);
        (run, asked(&scene))
    };
    let (raised, requests) = run(json!({"session": {"requests": 99}, "unknownPrice": 0}));
    assert_eq!((raised.code, requests), (Some(53), 2), "{}", raised.stderr);
    assert!(raised.stderr.contains("`budget.session.requests`"), "{}", raised.stderr);
    let (lowered, requests) = run(json!({"session": {"requests": 1}}));
    assert_eq!((lowered.code, requests), (Some(53), 1));
    for odd in
        [json!({"session": {"requests": -5}}), json!({"session": null}), json!([]), json!({"x": {"usd": 1}})]
    {
        let (run, requests) = run(odd.clone());
        assert_eq!((run.code, requests), (Some(53), 2), "{odd}: {}", run.stderr);
    }
}

#[test]
fn a_system_limit_cannot_be_raised() {
    let home = TestHome::new().settings(priced(json!({})));
    let system = home.home().join("system.json");
    fs::write(&system, json!({"budget": {"session": {"requests": 2}}}).to_string()).unwrap();
    let home = home.env("GEMINI_CLI_SYSTEM_SETTINGS_PATH", system.to_str().unwrap());
    let scene = Scene::with(home, (0..9).map(busy));
    let run = scene.run(&["-p", "x", "--max-requests", "50"]);
    assert_eq!((run.code, asked(&scene)), (Some(53), 2), "{}", run.stderr);
    assert!(run.stderr.contains("limited by system settings"), "{}", run.stderr);
    assert!(run.stderr.contains("The limit is set in system settings."), "{}", run.stderr);
}

#[test]
fn requests_that_cannot_be_counted_are_not_sent() {
    for spoil in [
        |scene: &Scene| fs::write(scene.home.gemini_dir().join("budget.json"), "{").unwrap(),
        // A folder in its place can be neither read nor replaced.
        |scene: &Scene| fs::create_dir_all(scene.home.gemini_dir().join("budget.json/x")).unwrap(),
    ] {
        let home = TestHome::new().settings(priced(json!({"day": {"usd": 5}})));
        let scene = Scene::with(home, (0..9).map(busy));
        spoil(&scene);
        let run = scene.run(&["-p", "x"]);
        assert_eq!((run.code, asked(&scene)), (Some(53), 0), "{}", run.stderr);
        assert!(run.stderr.contains("could not track the budget"), "{}", run.stderr);
    }
}

#[test]
fn hooks_read_the_budget() {
    let hook = json!({"BeforeModel": [{"hooks": [{"type": "command", "command": "cat >> seen.jsonl; echo >> seen.jsonl"}]}]});
    let limited = priced(json!({"session": {"usd": 5}}));
    for (settings, told) in [(limited, true), (json!({}), false)] {
        let mut settings = settings;
        settings["hooks"] = hook.clone();
        let home = TestHome::new().settings(settings);
        let scene = Scene::with(home, [busy(1), reply().text("Done.").usage(1_000, 10)]);
        let run = scene.run(&["-p", "x"]);
        assert_eq!(run.code, Some(0), "{}", run.stderr);
        let seen = lines(&scene.home.read("seen.jsonl"));
        assert_eq!(seen.len(), 2);
        assert_eq!(seen[1].get("budget").is_some(), told);
        if told {
            assert_eq!(
                seen[1]["budget"]["limits"]["session"]["usd"],
                json!({"limit": 5.0, "spent": 0.001_01})
            );
            assert_eq!(seen[1]["budget"]["spent"]["requests"], 1);
        }
    }
}

#[test]
fn a_session_without_a_budget_is_counted_when_it_gets_one() {
    let scene = Scene::with(
        TestHome::new().settings(priced(json!({}))),
        [reply().text("Hi.").usage(1_000, 10), busy(1)],
    );
    assert_eq!(scene.run(&["-p", "x"]).code, Some(0));
    let session = scene.session();
    assert!(!session.to_string().contains("pollux\":"), "{session}");
    let (events, code) = scene.events(&["-p", "y", "--resume", "--max-requests", "1"]);
    assert_eq!((code, asked(&scene)), (Some(53), 1), "the request of the first run counts");
    assert_eq!(of_type(&events, "RESULT")[0]["error"]["spent"], 1);
}

#[test]
fn the_limit_can_be_shown_and_raised_in_a_session() {
    let scene = Scene::with(
        TestHome::new().settings(priced(json!({}))),
        [reply().text("One.").usage(1_000, 10), reply().text("Two.").usage(1_000, 10)],
    );
    let args = ["-m", crate::scene::MODEL, "--screen-reader", "--max-requests", "1"];
    let mut terminal = scene.prepare(&args).on_terminal();
    terminal.expect("User: ").say("first").expect("One.");
    terminal.expect("User: ").say("second").expect("Budget reached: session 1 of 1 requests");
    terminal.expect("User: ").say("/budget").expect("Limit per session: 1 of 1 requests");
    terminal.expect("User: ").say("/budget +1 requests").expect("Limit per session: 1 of 2 requests");
    terminal.expect("User: ").say("third").expect("Two.");
    terminal.expect("User: ").say("/budget off").expect("No limits.");
    terminal.expect("User: ").say("/stats").expect("Spent:").expect("User: ").say("/quit");
    assert_eq!(terminal.end().0, Some(0));
}

#[test]
fn after_a_limit_is_raised_the_same_request_is_sent() {
    let scene = Scene::new([reply().text("one"), reply().text("two")]);
    let mut screen = scene.prompt(&["--max-requests", "1"]).on_screen(100, 40);
    screen.expect("Type your message").say("first").expect("✦ one");
    screen.expect("Type your message").say("second").expect("Budget reached").expect("Raise the limit");
    screen.key("2").expect("✦ two").say("/quit");
    assert_eq!(screen.wait_exit().code(), Some(0), "{}", screen.text());
    let body = scene.server.request(1).body.to_string();
    assert!(body.contains("second"), "{body}");
    assert!(!body.contains("interrupted") && !body.contains("Continue."), "{body}");
}

/// A run with a model at one dollar for a million tokens read and ten for a million written.
fn run_lab(server: &FakeChat, provider: Value, args: &[&str]) -> Run {
    let home = TestHome::new();
    run_in(&home.settings(lab(server, provider)), args)
}

fn lab(server: &FakeChat, mut provider: Value) -> Value {
    provider["baseUrl"] = json!(server.url());
    provider["models"] =
        json!({"m": {"context": 100_000, "output": 4096, "price": {"input": 1, "output": 10}}});
    json!({"providers": {"lab": provider}, "general": {"maxAttempts": 1}})
}

fn run_in(home: &TestHome, args: &[&str]) -> Run {
    let args: Vec<&str> = ["-m", "lab/m", "-p", "hi"].into_iter().chain(args.iter().copied()).collect();
    home.command(binary(), args).without_env("GEMINI_API_KEY").run()
}

#[test]
fn the_reserved_length_is_on_the_wire_whatever_extra_body_says() {
    for extra in [json!({}), json!({"max_tokens": 40_000, "n": 3}), json!({"max_tokens": 40_000.5})] {
        let server = FakeChat::start([ChatReply::said("hello")]);
        let run = run_lab(&server, json!({"extraBody": extra}), &["--max-tokens-total", "70000"]);
        assert_eq!(run.code, Some(0), "{}", run.stderr);
        let body = server.body(0);
        assert_eq!((&body["max_tokens"], body.get("n")), (&json!(4096), None), "{extra}: {body}");
    }
    let server = FakeChat::start([ChatReply::said("hello")]);
    run_lab(&server, json!({"extraBody": {"max_tokens": 40_000}}), &[]);
    assert_eq!(server.body(0)["max_tokens"], 40_000, "without a budget it is the user's choice");
}

#[test]
fn a_server_that_writes_without_end_is_cut() {
    let thought = json!({"reasoning_content": "pondering the question ".repeat(200)});
    // No passage repeats, which would end the turn as a loop.
    let word = |number: usize| format!("w{:x} ", (number as u64).wrapping_mul(0x9E37_79B9_7F4A_7C15));
    let piece = |number: usize| (0..100).map(|at| word(number * 100 + at)).collect::<String>();
    type Endless = fn(ChatReply, usize, &Value, &str) -> ChatReply;
    let kinds: [(&str, Endless); 3] = [
        ("thoughts", |reply, _, thought, _| reply.delta(thought)),
        ("text", |reply, _, _, text| reply.text(text)),
        ("calls", |reply, number, _, text| {
            reply.call(number as u64, &format!("c{number}"), "glob", &json!({"pattern": text}).to_string())
        }),
    ];
    for (kind, add) in kinds {
        let endless = || {
            (0..200).fold(ChatReply::stream().role(), |reply, number| {
                add(reply, number, &thought, &piece(number))
            })
        };
        let server = FakeChat::start((0..6).map(|_| endless().wait(60_000)));
        let args = ["--max-tokens-total", "40000", "-o", "json"];
        let began = Instant::now();
        let run = run_lab(&server, json!({}), &args);
        assert!(began.elapsed() < Duration::from_secs(50), "{kind}: {:?}", began.elapsed());
        let spent = parse(&run.stdout)["stats"]["budget"]["spent"]["tokens"].as_u64().unwrap();
        assert!(spent <= 48_000, "{kind}: {spent} {}", run.stderr);
        assert!(run.stderr.contains("ignores the output limit"), "{kind}: {}", run.stderr);
    }
}

#[test]
fn a_reply_ends_with_the_time_of_the_budget() {
    // It would take 200 s.
    let slow = (0..400).fold(ChatReply::stream().role(), |reply, _| reply.text("x").wait(500));
    let server = FakeChat::start([slow.finish("stop").done()]);
    let began = Instant::now();
    let run = run_lab(&server, json!({}), &["--budget", "minutes=0.03"]);
    assert_eq!(run.code, Some(53), "{}", run.stderr);
    assert!(began.elapsed() < Duration::from_secs(60), "{:?}", began.elapsed());
}

#[test]
fn usage_that_says_nothing_is_estimated_and_huge_usage_does_no_harm() {
    let call = |number: usize, usage: &Value| {
        let args = json!({"pattern": format!("*.{number}")}).to_string();
        ChatReply::stream()
            .role()
            .call(0, &format!("c{number}"), "glob", &args)
            .finish("tool_calls")
            .event(&json!({"choices": [], "usage": usage}))
            .done()
    };
    let zero = json!({"prompt_tokens": 0, "completion_tokens": 0, "total_tokens": 0});
    let free = json!({"prompt_tokens": 9_000, "completion_tokens": 20, "cost": 0});
    for usage in [zero, json!({"prompt_tokens": -5, "completion_tokens": -7}), json!({}), free] {
        let server = FakeChat::start((0..30).map(|number| call(number, &usage)));
        let run = run_lab(
            &server,
            json!({}),
            &["--max-budget-usd", "0.06", "--yolo", "--sandbox=false", "-o", "json"],
        );
        assert_eq!(run.code, Some(53), "{usage}: {}", run.stderr);
        assert!(server.requests().len() < 20, "{usage}: {}", server.requests().len());
        assert!(parse(&run.stdout)["stats"]["budget"]["spent"]["usd"].as_f64().unwrap() > 0.0, "{usage}");
    }
    let huge = json!({"prompt_tokens": u64::MAX, "completion_tokens": u64::MAX, "total_tokens": u64::MAX});
    let replies = [call(0, &huge), call(1, &huge), ChatReply::said("hello")];
    let run = run_lab(&FakeChat::start(replies), json!({}), &["--yolo", "--sandbox=false", "-o", "json"]);
    assert_eq!(run.code, Some(0), "{}", run.stderr);
    assert_eq!(parse(&run.stdout)["response"], "hello", "{}", run.stdout);
}

#[test]
fn a_resumed_session_counts_what_it_spent_at_the_users_prices() {
    let reply = || ChatReply::stream().role().text("x").finish("stop").usage(200_000, 20_000).done();
    let server = FakeChat::start([reply(), reply(), reply()]);
    let home = TestHome::new();
    let home = home.settings(lab(&server, json!({})));
    assert_eq!(run_in(&home, &[]).code, Some(0));
    assert_eq!(run_in(&home, &["--resume", "latest"]).code, Some(0));
    let run = run_in(&home, &["--resume", "latest", "--max-budget-usd", "0.1"]);
    assert_eq!((run.code, server.requests().len()), (Some(53), 2), "{}", run.stderr);
}

#[test]
fn a_question_about_the_server_is_no_request_of_a_model() {
    let server = FakeChat::start([ChatReply::json(200, &json!({})), ChatReply::said("hello")]);
    let home = TestHome::new().settings(json!({"providers": {"llamacpp": {"baseUrl": server.url()}}}));
    let args = ["-m", "llamacpp/m", "-p", "hi", "--max-requests", "1"];
    let run = home.command(binary(), args).without_env("GEMINI_API_KEY").run();
    assert_eq!((run.code, run.stdout.as_str()), (Some(0), "hello\n"), "{}", run.stderr);
}
