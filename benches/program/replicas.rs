//! A2A servers that share a store: tasks per second, what a turn costs the store, and what open tasks cost in memory.

use std::io::{BufRead as _, BufReader};
use std::process::{Child, Stdio};
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use pollux_test_support::{BlobTraffic, Exhausted, FakeBlobs, FakeGemini, HttpRequest, Reply, reply};
use serde_json::{Value, json};

use crate::http::{self, Response};
use crate::measure::resident_kib;
use crate::scenes::Bench;

const MODEL: &str = "gemini-2.5-flash";
const PATIENCE: Duration = Duration::from_secs(300);
/// Clients that give tasks at the same time, and how many tasks each of them gives in a round.
const CLIENTS: usize = 8;
/// Turns of one task whose cost is shown.
const TURNS: [usize; 3] = [1, 10, 50];
const KINDS: [&str; 4] = ["write", "read", "list", "delete"];
const OPEN: usize = 500;
/// A store without requests for so long has everything of a turn.
const QUIET: Duration = Duration::from_secs(1);

pub(crate) fn a2a(bench: &Bench) {
    throughput(bench);
    turns(bench);
    open_tasks(bench);
}

/// A server with its own home and its own way to the store. Ends with this.
struct Replica {
    child: Child,
    port: u16,
}

impl Replica {
    fn start(bench: &Bench, name: &str, model: &FakeGemini, route: &FakeBlobs) -> Self {
        let place = bench.place(name);
        let store = format!("s3://bench/{name}?endpoint={}&region=bench&path-style=true", route.url());
        let max = (2 * OPEN).to_string();
        let args = ["--model", MODEL, "--sandbox=false", "a2a", "serve", "--no-token", "--max-tasks", &max];
        let mut command = place.command(&bench.pollux(), Some(model), &args);
        command.args(["--store", &store]).env("AWS_ACCESS_KEY_ID", "bench");
        command.env("AWS_SECRET_ACCESS_KEY", "bench");
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::piped());
        let mut child = command.spawn().expect("start the server");
        let mut lines = BufReader::new(child.stderr.take().expect("stderr is piped")).lines();
        let port = lines.by_ref().map_while(Result::ok).find_map(|line| {
            let url = line.strip_prefix("[CoreAgent] Agent Server started on ")?;
            url.rsplit(':').next()?.parse().ok()
        });
        std::thread::spawn(move || lines.for_each(drop));
        Self { child, port: port.expect("the server starts") }
    }

    fn call(&self, method: &str, params: &Value) -> Response {
        let body = json!({"jsonrpc": "2.0", "id": 1, "method": method, "params": params}).to_string();
        http::send(self.port, "POST", "/", &[], Some(&body))
    }

    fn sessions(&self) -> usize {
        let text = http::send(self.port, "GET", "/metrics", &[], None).text();
        let line = text.lines().find_map(|line| line.strip_prefix("pollux_a2a_sessions_open "));
        line.and_then(|count| count.parse().ok()).unwrap_or(0)
    }
}

impl Drop for Replica {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn message(number: usize, task: Option<&Value>) -> Value {
    let parts = json!([{"kind": "text", "text": "What is to be done next?"}]);
    let mut message =
        json!({"kind": "message", "role": "user", "messageId": format!("m{number}"), "parts": parts});
    if let Some(task) = task {
        message["taskId"] = task.clone();
    }
    json!({"message": message})
}

/// A model that says the same again and again.
fn model(reply: Reply) -> FakeGemini {
    FakeGemini::start_with([reply], Exhausted::RepeatLast)
}

fn answer() -> Reply {
    reply().text(&"The next step is small and safe. ".repeat(20))
}

fn percentile(times: &[Duration], percent: usize) -> f64 {
    times[(times.len() - 1) * percent / 100].as_secs_f64() * 1000.0
}

/// Short tasks on one, two and four servers. A task is one turn; its client reads the whole stream.
fn throughput(bench: &Bench) {
    let tasks = bench.rounds * CLIENTS;
    println!("\nA2A: {tasks} tasks of one turn from {CLIENTS} clients");
    println!("  {:<10} {:>10} {:>18} {:>18}", "servers", "tasks/s", "first event, p50", "p95");
    for count in [1, 2, 4] {
        let model = model(answer());
        let store = FakeBlobs::start();
        let routes: Vec<FakeBlobs> = (0..count).map(|_| store.another_route()).collect();
        let start = |(index, route)| Replica::start(bench, &format!("a2a-{count}-{index}"), &model, route);
        let replicas: Vec<Replica> = routes.iter().enumerate().map(start).collect();
        let (next, firsts) = (AtomicUsize::new(0), Mutex::new(Vec::new()));
        let client = || {
            loop {
                let number = next.fetch_add(1, Ordering::SeqCst);
                if number >= tasks {
                    return;
                }
                let began = Instant::now();
                let mut stream = replicas[number % count].call("message/stream", &message(number, None));
                stream.event().expect("a first event");
                firsts.lock().unwrap().push(began.elapsed());
                let last = stream.events().pop().expect("more events");
                assert_eq!(last["result"]["status"]["state"], "input-required", "{last}");
            }
        };
        let began = Instant::now();
        std::thread::scope(|scope| (0..CLIENTS).for_each(|_| drop(scope.spawn(client))));
        let speed = tasks as f64 / began.elapsed().as_secs_f64();
        let mut firsts = firsts.into_inner().unwrap();
        firsts.sort();
        let (half, most) = (percentile(&firsts, 50), percentile(&firsts, 95));
        println!("  {count:<10} {speed:>10.1} {half:>15.1} ms {most:>15.1} ms");
    }
}

/// What happened at a store until it is quiet.
fn settled(store: &FakeBlobs) -> BlobTraffic {
    let began = Instant::now();
    loop {
        let before = store.traffic();
        std::thread::sleep(QUIET);
        if store.traffic() == before {
            return before;
        }
        assert!(began.elapsed() < PATIENCE, "the store is never quiet");
    }
}

fn kind(request: &HttpRequest) -> &'static str {
    match request.method.as_str() {
        "PUT" => "write",
        "DELETE" => "delete",
        _ if request.query.contains("list-type") => "list",
        _ => "read",
    }
}

/// The same message and the same answer in one task, again and again.
fn turns(bench: &Bench) {
    let model = model(answer());
    let store = FakeBlobs::start();
    let replica = Replica::start(bench, "a2a-turns", &model, &store);
    println!("\nA2A: what a turn of one task costs the store");
    print!("  {:<6} {:>10}", "turn", "requests");
    KINDS.iter().for_each(|kind| print!(" {kind:>7}"));
    println!(" {:>12} {:>12}", "bytes sent", "received");
    let mut task = None;
    for turn in 1..=TURNS[TURNS.len() - 1] {
        // The turn before as well: each one also cleans up after it.
        let is_near = TURNS.contains(&turn) || TURNS.contains(&(turn + 1));
        let before = is_near.then(|| settled(&store)).filter(|_| TURNS.contains(&turn));
        let result = replica.call("message/send", &message(turn, task.as_ref())).json()["result"].clone();
        assert_eq!(result["status"]["state"], "input-required", "{result}");
        task = Some(result["id"].clone());
        if let Some(before) = before {
            let now = settled(&store);
            print!("  {turn:<6} {:>10}", now.requests - before.requests);
            let requests = store.requests().split_off(before.requests);
            for wanted in KINDS {
                print!(" {:>7}", requests.iter().filter(|request| kind(request) == wanted).count());
            }
            println!(" {:>12} {:>12}", now.sent - before.sent, now.received - before.received);
        }
    }
}

/// Tasks that all wait for the model.
fn open_tasks(bench: &Bench) {
    let model = model(Reply::never());
    let store = FakeBlobs::start();
    let replica = Replica::start(bench, "a2a-open", &model, &store);
    let mib = || resident_kib(replica.child.id()) as f64 / 1024.0;
    println!("\nA2A: a server without tasks: {:.1} MiB", mib());
    let next = AtomicUsize::new(0);
    let client = || {
        loop {
            let number = next.fetch_add(1, Ordering::SeqCst);
            if number >= OPEN {
                return;
            }
            let mut params = message(number, None);
            params["configuration"] = json!({"blocking": false});
            let answer = replica.call("message/send", &params).json();
            assert!(answer["result"]["id"].is_string(), "{answer}");
        }
    };
    std::thread::scope(|scope| (0..CLIENTS).for_each(|_| drop(scope.spawn(client))));
    let began = Instant::now();
    while replica.sessions() < OPEN || model.requests().len() < OPEN {
        assert!(began.elapsed() < PATIENCE, "{} of {OPEN} tasks are open", replica.sessions());
        std::thread::sleep(Duration::from_millis(500));
    }
    println!("  with {OPEN} open tasks: {:.1} MiB", mib());
}
