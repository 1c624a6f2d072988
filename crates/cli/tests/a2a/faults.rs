//! Faults of the store, of the network, of clocks and of clients, against the program itself: every call runs once, every
//! update is read once and in order, and the task ends in the right state.

use std::collections::HashSet;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, OnceLock};
use std::thread::{JoinHandle, spawn};
use std::time::{Duration, Instant};

use pollux_test_support::{BlobFault, FakeBlobs, HttpRequest, Reply, reply};
use serde_json::{Value, json};

use crate::http::Response;
use crate::server::{
    Executions, Server, Stage, automatic, decision, kinds, message, message_to, said, shell, until,
};

/// Machines that share a store, each on its own way to it.
struct Cluster {
    machines: Vec<Stage>,
    routes: Vec<FakeBlobs>,
    executions: Executions,
}

impl Cluster {
    fn new(size: usize, replies: impl FnOnce(&Executions) -> Vec<Reply>) -> Self {
        let executions = Executions::new();
        let first = Stage::new(replies(&executions));
        let others: Vec<Stage> = (1..size).map(|_| first.other_machine()).collect();
        let store = FakeBlobs::start();
        let ways: Vec<FakeBlobs> = (1..size).map(|_| store.another_route()).collect();
        let machines = [first].into_iter().chain(others).collect();
        Self { machines, routes: [store].into_iter().chain(ways).collect(), executions }
    }

    fn serve(&self, index: usize) -> Server {
        self.start(index, &[])
    }

    /// Starts the server of a machine with these variables.
    fn start(&self, index: usize, variables: &[(&str, &str)]) -> Server {
        let (machine, route) = (&self.machines[index], &self.routes[index]);
        let store = format!("s3://tasks/cluster?endpoint={}&region=test&path-style=true", route.url());
        let program = machine.program(&["--store", &store]);
        let program = program.env("AWS_ACCESS_KEY_ID", "key").env("AWS_SECRET_ACCESS_KEY", "secret");
        let program = variables.iter().fold(program, |program, (name, value)| program.env(name, value));
        machine.start(program).unwrap_or_else(|said| panic!("{said}"))
    }

    fn model_requests(&self) -> usize {
        self.machines[0].model.requests().len()
    }
}

/// What a stream showed.
struct Seen {
    first: Value,
    updates: Vec<Value>,
}

/// Reads a stream to its end in the background; the task's id is in its first event.
fn watch(mut stream: Response) -> (Value, JoinHandle<Seen>) {
    let first = stream.event().unwrap()["result"].clone();
    let id = first["id"].clone();
    assert!(first["kind"] == "task" && id.is_string(), "{first}");
    let updates = move || stream.events().into_iter().map(|event| event["result"].clone()).collect();
    (id, spawn(move || Seen { first, updates: updates() }))
}

fn subscribe(server: &Server, id: &Value) -> Response {
    server.stream("tasks/resubscribe", json!({"id": id}))
}

impl Seen {
    /// What the agent said: what the task had when the stream began, and what followed.
    fn text(&self) -> String {
        let mut text = history_text(&self.first);
        self.updates.iter().for_each(|update| text.push_str(update_text(update)));
        text
    }

    fn last_state(&self) -> &str {
        self.updates.last().unwrap_or(&self.first)["status"]["state"].as_str().unwrap_or_default()
    }

    /// The updates are the last ones of another stream, which began earlier: none is missing, none came twice.
    fn assert_ends_like(&self, whole: &Self) {
        let (ours, theirs) = (kinds(&self.updates), kinds(&whole.updates));
        assert!(whole.updates.ends_with(&self.updates), "{ours:?} are not the end of {theirs:?}");
        assert!(whole.updates.iter().all(|update| update["kind"] != "task"), "{theirs:?}");
        assert_eq!(self.text(), whole.text());
    }
}

fn history_text(task: &Value) -> String {
    let messages = task["history"].as_array().into_iter().flatten();
    let said = messages.filter(|message| message["role"] == "agent");
    said.flat_map(|message| message["parts"].as_array().unwrap())
        .filter_map(|part| part["text"].as_str())
        .collect()
}

fn update_text(update: &Value) -> &str {
    match update["metadata"]["coderAgent"]["kind"].as_str() {
        Some("text-content") => update["status"]["message"]["parts"][0]["text"].as_str().unwrap(),
        _ => "",
    }
}

/// A text of so many words, which arrive one by one.
fn words(count: usize) -> String {
    (0..count).map(|number| format!("word{number} ")).collect()
}

fn slowly(count: usize) -> Reply {
    let all = words(count);
    all.split_inclusive(' ').fold(reply(), |reply, word| reply.text(word)).pause(Duration::from_millis(100))
}

/// Matches every request that changes the store, the first time that it is sent.
fn first_attempts() -> impl Fn(&HttpRequest) -> bool + Send {
    let seen = Mutex::<HashSet<(String, String, Vec<u8>)>>::default();
    move |request| {
        let attempt = (request.method.clone(), request.path.clone(), request.body.clone());
        request.method != "GET" && request.method != "HEAD" && seen.lock().unwrap().insert(attempt)
    }
}

#[test]
fn a_slow_store_delays_a_turn_and_loses_nothing() {
    let cluster = Cluster::new(2, |executions| vec![shell(&executions.command()), slowly(10)]);
    let (a, b) = (cluster.serve(0), cluster.serve(1));
    for route in &cluster.routes {
        route.fault(|_| true, BlobFault::Delay(Duration::from_millis(500)), usize::MAX);
    }
    let (id, whole) = watch(a.stream("message/stream", automatic("go")));
    let (_, elsewhere) = watch(subscribe(&b, &id));
    let (whole, elsewhere) = (whole.join().unwrap(), elsewhere.join().unwrap());
    assert_eq!((whole.text(), whole.last_state()), (words(10), "input-required"));
    elsewhere.assert_ends_like(&whole);
    assert_eq!(cluster.executions.count(), 1);
    for server in [&a, &b] {
        assert_eq!((server.counted("recovered"), server.counted("leases_lost")), (0, 0));
    }
}

#[test]
fn a_store_that_fails_for_ten_seconds_has_everything_afterwards() {
    let replies =
        |executions: &Executions| vec![shell(&executions.held()), slowly(10), reply().text("again")];
    let cluster = Cluster::new(2, replies);
    let a = cluster.serve(0);
    let (id, whole) = watch(a.stream("message/stream", automatic("go")));
    cluster.executions.until(1);
    let (refused, end) = (Arc::<AtomicUsize>::default(), Instant::now() + Duration::from_secs(10));
    let counter = Arc::clone(&refused);
    let is_down = move |_: &HttpRequest| {
        let is_down = Instant::now() < end;
        counter.fetch_add(usize::from(is_down), Ordering::SeqCst);
        is_down
    };
    cluster.routes[0].fault(is_down, BlobFault::Status(503), usize::MAX);
    // The turn ends while nothing can be stored.
    cluster.executions.release();
    let whole = whole.join().unwrap();
    assert_eq!((whole.text(), whole.last_state()), (words(10), "input-required"));
    assert!(refused.load(Ordering::SeqCst) > 0);
    let b = cluster.serve(1);
    let task = b.until(&id, &["input-required"]);
    assert_eq!(history_text(&task), words(10), "{task}");
    let more = b.rpc("message/send", message_to(&id, "once more"))["result"].clone();
    assert_eq!(said(&more), "again", "{more}");
    assert_eq!((cluster.executions.count(), a.counted("leases_lost")), (1, 0));
}

#[test]
fn a_server_without_its_store_starts_no_call_and_another_goes_on() {
    let replies = |executions: &Executions| {
        vec![shell(&executions.held()), shell(&executions.command()), reply().text("I see.")]
    };
    let cluster = Cluster::new(2, replies);
    let (a, b) = (cluster.serve(0), cluster.serve(1));
    let (id, stream) = watch(a.stream("message/stream", automatic("go")));
    cluster.executions.until(1);
    cluster.routes[0].fault(|_| true, BlobFault::LostRequest, usize::MAX);
    let task = b.until(&id, &["input-required"]);
    assert!(said(&task).contains("interrupted"), "{task}");
    // The first server goes on, and its model wants another call.
    cluster.executions.release();
    until("the model is asked again", || cluster.model_requests() == 2);
    let more = b.rpc("message/send", message_to(&id, "what happened?"))["result"].clone();
    assert_eq!(said(&more), "I see.", "{more}");
    cluster.routes[0].heal();
    until("the first server notices", || a.counted("leases_lost") == 1);
    let task = a.until(&id, &["input-required"]);
    assert_eq!((said(&task), &task["history"]), ("I see.", &more["history"]));
    assert_eq!(stream.join().unwrap().last_state(), "input-required");
    assert_eq!(cluster.executions.count(), 1);
}

#[test]
fn writes_whose_responses_are_lost_count_once() {
    let replies = |executions: &Executions| vec![slowly(20), shell(&executions.command()), slowly(80)];
    let cluster = Cluster::new(2, replies);
    let (a, b) = (cluster.serve(0), cluster.serve(1));
    for route in &cluster.routes {
        route.fault(first_attempts(), BlobFault::LostResponse, usize::MAX);
    }
    let (id, whole) = watch(a.stream("message/stream", message("count")));
    let (_, elsewhere) = watch(subscribe(&b, &id));
    let whole = whole.join().unwrap();
    assert_eq!(whole.text(), words(20));
    elsewhere.join().unwrap().assert_ends_like(&whole);
    // Approved at another server. Its holder also learns from no attempt that a batch of updates was written.
    let asked = a.rpc("message/send", message_to(&id, "run it"))["result"].clone();
    let call = asked["status"]["message"]["parts"][0]["data"]["request"]["callId"].clone();
    assert!(call.is_string(), "{asked}");
    let batch = OnceLock::new();
    let is_batch = move |request: &HttpRequest| {
        let is_written = request.method == "PUT" && request.path.contains("/events/");
        is_written && *batch.get_or_init(|| request.path.clone()) == request.path
    };
    cluster.routes[0].heal();
    cluster.routes[0].fault(is_batch, BlobFault::LostResponse, 4);
    cluster.routes[0].fault(first_attempts(), BlobFault::LostResponse, usize::MAX);
    let events = b.stream("message/stream", decision(&id, &call, "proceed_once")).events();
    let text: String = events.iter().map(|event| update_text(&event["result"])).collect();
    assert_eq!(text, words(80));
    assert_eq!(kinds(&events).last().unwrap(), "state-change input-required final");
    assert_eq!(history_text(&a.until(&id, &["input-required"])), words(20) + &words(80));
    assert_eq!((cluster.executions.count(), cluster.model_requests()), (1, 3));
    for server in [&a, &b] {
        assert_eq!((server.counted("recovered"), server.counted("leases_lost")), (0, 0));
    }
}

#[test]
fn of_servers_that_race_for_an_abandoned_task_one_takes_it() {
    let replies = |executions: &Executions| {
        let endless = format!("{}; sleep 600", executions.command());
        vec![shell(&endless), reply().text("one"), reply().text("two")]
    };
    let cluster = Cluster::new(3, replies);
    let (mut a, b, c) = (cluster.serve(0), cluster.serve(1), cluster.serve(2));
    let id = a.begin(automatic("go"));
    cluster.executions.until(1);
    a.child.kill().unwrap();
    // Both look for its server, both take it over if they can, and both have a message for it.
    let race = |server: &Server, text: &str| {
        let task = server.until(&id, &["input-required", "working"]);
        assert_eq!(task["id"], id);
        let answer = server.rpc("message/send", message_to(&id, text));
        assert_eq!(answer["result"]["id"], id, "{answer}");
    };
    std::thread::scope(|scope| {
        scope.spawn(|| race(&b, "from b"));
        scope.spawn(|| race(&c, "from c"));
    });
    until("both messages are answered", || {
        let task = b.rpc("tasks/get", json!({"id": id}))["result"].clone();
        task["status"]["state"] == "input-required" && history_text(&task).len() == "onetwo".len()
    });
    let task = c.until(&id, &["input-required"]);
    let messages = task["history"].as_array().unwrap();
    let mut asked: Vec<&str> = messages
        .iter()
        .filter(|message| message["role"] == "user")
        .map(|message| message["parts"][0]["text"].as_str().unwrap())
        .collect();
    asked[1..].sort_unstable();
    assert_eq!(asked, ["go", "from b", "from c"], "{task}");
    assert_eq!(history_text(&task), "onetwo");
    assert_eq!(b.counted("recovered") + c.counted("recovered"), 1);
    assert_eq!((cluster.executions.count(), cluster.model_requests()), (1, 3));
}

#[test]
fn a_client_that_goes_from_server_to_server_reads_every_update_once() {
    let cluster = Cluster::new(2, |_| vec![slowly(80)]);
    let (a, b) = (cluster.serve(0), cluster.serve(1));
    let (id, whole) = watch(a.stream("message/stream", message("count")));
    for server in [&b, &a, &b, &a] {
        let mut stream = subscribe(server, &id);
        let mut read = history_text(&stream.event().unwrap()["result"]);
        // A few updates, and the connection breaks.
        for event in std::iter::from_fn(|| stream.event()).take(5) {
            read.push_str(update_text(&event["result"]));
        }
        assert!(words(80).starts_with(&read), "{read}");
    }
    let (_, rest) = watch(subscribe(&b, &id));
    let (whole, rest) = (whole.join().unwrap(), rest.join().unwrap());
    assert_eq!(whole.text(), words(80));
    rest.assert_ends_like(&whole);
}

#[test]
fn updates_of_a_killed_server_are_neither_lost_nor_repeated() {
    let cluster = Cluster::new(3, |_| vec![slowly(2_000)]);
    let (mut a, b, c) = (cluster.serve(0), cluster.serve(1), cluster.serve(2));
    let id = a.begin(message("count"));
    let mut stream = subscribe(&b, &id);
    let first = stream.event().unwrap()["result"].clone();
    let mut updates = Vec::new();
    while updates.iter().map(update_text).filter(|text| !text.is_empty()).count() < 5 {
        updates.push(stream.event().unwrap()["result"].clone());
    }
    a.child.kill().unwrap();
    updates.extend(stream.events().into_iter().map(|event| event["result"].clone()));
    let seen = Seen { first, updates };
    assert!(words(2_000).starts_with(&seen.text()), "{}", seen.text());
    assert_eq!(kinds(&seen.updates).last().unwrap(), "state-change input-required final");
    assert!(said(seen.updates.last().unwrap()).contains("interrupted"));
    let task = c.until(&id, &["input-required"]);
    assert_eq!(history_text(&task), seen.text());
}

/// A library that makes the clock of a program wrong.
#[cfg(all(target_os = "linux", target_env = "gnu"))]
fn wrong_clock(folder: &std::path::Path, seconds: i64) -> String {
    let (source, library) = (folder.join("clock.c"), folder.join("clock.so"));
    let code = "#define _GNU_SOURCE\n#include <sys/syscall.h>\n#include <time.h>\n#include <unistd.h>\n\
        int clock_gettime(clockid_t clock, struct timespec *now) {\n\
        int failed = (int)syscall(SYS_clock_gettime, clock, now);\n\
        if (!failed && clock == CLOCK_REALTIME) now->tv_sec += SECONDS;\n\
        return failed;\n}\n";
    std::fs::write(&source, code).unwrap();
    let mut compiler = std::process::Command::new("cc");
    compiler.arg(format!("-DSECONDS={seconds}")).args(["-shared", "-fPIC", "-o"]).args([&library, &source]);
    assert!(compiler.status().unwrap().success());
    library.display().to_string()
}

/// A server whose clock is wrong keeps its task while it lives, and loses it when it dies.
#[cfg(all(target_os = "linux", target_env = "gnu"))]
fn wrong_by(seconds: i64) {
    use pollux_domain::time::{Clock as _, SystemClock, Timestamp};
    let replies = |executions: &Executions| {
        let endless = format!("{}; sleep 600", executions.command());
        vec![shell(&executions.held()), slowly(10), shell(&endless), reply().text("I see.")]
    };
    let cluster = Cluster::new(2, replies);
    let clock = wrong_clock(cluster.executions.folder(), seconds);
    let (mut a, b) = (cluster.start(0, &[("LD_PRELOAD", &clock)]), cluster.serve(1));
    let (id, whole) = watch(a.stream("message/stream", automatic("go")));
    cluster.executions.until(1);
    let at = |server: &Server| {
        let task = server.rpc("tasks/get", json!({"id": id}))["result"].clone();
        assert_eq!(task["status"]["state"], "working", "{task}");
        Timestamp::parse(task["status"]["timestamp"].as_str().unwrap()).unwrap().millis()
    };
    let now = SystemClock.now().millis();
    let skew = (at(&a) - now) / 1000;
    assert!((skew - seconds).abs() < 120, "the clock is off by {skew} s");
    // The other server looks at the lease again and again, and leaves it alone.
    b.until(&id, &["working"]);
    let (_, elsewhere) = watch(subscribe(&b, &id));
    for _ in 0..20 {
        at(&b);
        std::thread::sleep(Duration::from_millis(200));
    }
    cluster.executions.release();
    let (whole, elsewhere) = (whole.join().unwrap(), elsewhere.join().unwrap());
    assert_eq!((whole.text(), whole.last_state()), (words(10), "input-required"));
    elsewhere.assert_ends_like(&whole);
    assert_eq!((b.counted("recovered"), a.counted("leases_lost")), (0, 0));
    // It dies in the next turn.
    assert_eq!(a.begin(message_to(&id, "and on")), id);
    cluster.executions.until(2);
    a.child.kill().unwrap();
    let task = b.until(&id, &["input-required"]);
    assert!(said(&task).contains("interrupted"), "{task}");
    let more = b.rpc("message/send", message_to(&id, "what happened?"))["result"].clone();
    assert_eq!(said(&more), "I see.", "{more}");
    assert_eq!(cluster.executions.count(), 2);
}

#[test]
#[cfg(all(target_os = "linux", target_env = "gnu"))]
fn a_server_whose_clock_is_five_minutes_fast_keeps_and_loses_tasks_as_others_do() {
    wrong_by(300);
}

#[test]
#[cfg(all(target_os = "linux", target_env = "gnu"))]
fn a_server_whose_clock_is_five_minutes_slow_keeps_and_loses_tasks_as_others_do() {
    wrong_by(-300);
}
