//! The two ways to spend the day: a program behind pipes, and a person at a screen.

use std::io::{BufRead, BufReader, Read, Write};
use std::process::{Child, ChildStdin};
use std::sync::mpsc::{Receiver, channel};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use pollux_test_support::chance::Chance;
use pollux_test_support::{Screen, TestHome, program};
use serde_json::{Value, json};

use crate::day::{TurnKind, WIRE, answer};

/// How long a turn may take on a busy machine.
const PATIENCE: Duration = Duration::from_secs(180);

pub(crate) trait Front {
    /// One turn to its end.
    fn turn(&mut self, turn: usize, kind: TurnKind, chance: &mut Chance);

    fn pid(&self) -> u32;

    /// Whether it can begin another session.
    fn has_many_sessions(&self) -> bool;

    /// Ends the program in order.
    fn end(&mut self);
}

fn command(home: &TestHome, args: &[&str]) -> pollux_test_support::TestRun {
    let all = ["-m", WIRE.model(), "--yolo"].into_iter().chain(args.iter().copied());
    home.command(program(env!("CARGO_BIN_EXE_pollux")), all)
}

pub(crate) struct Pipes {
    child: Child,
    input: Option<ChildStdin>,
    lines: Receiver<String>,
    /// The end of what it said on stderr.
    errors: Arc<Mutex<String>>,
}

impl Pipes {
    pub(crate) fn start(home: &TestHome, _url: &str) -> Self {
        let args = ["--input-format", "stream-json", "--output-format", "stream-json"];
        let mut child = command(home, &args).start();
        let (sender, lines) = channel();
        let output = BufReader::new(child.stdout.take().unwrap());
        std::thread::spawn(move || {
            for line in output.lines().map_while(Result::ok) {
                let _ = sender.send(line);
            }
        });
        let errors = Arc::<Mutex<String>>::default();
        let (mut from, to) = (child.stderr.take().unwrap(), Arc::clone(&errors));
        std::thread::spawn(move || {
            let mut buffer = [0; 4096];
            while let Ok(count @ 1..) = from.read(&mut buffer) {
                let mut kept = to.lock().unwrap();
                if kept.len() > 1 << 16 {
                    kept.clear();
                }
                kept.push_str(&String::from_utf8_lossy(&buffer[..count]));
            }
        });
        let input = child.stdin.take();
        let mut pipes = Self { child, input, lines, errors };
        pipes.wait_for("READY");
        pipes
    }

    /// Everything up to an event of this type.
    fn wait_for(&mut self, kind: &str) -> Vec<Value> {
        let mut seen = Vec::new();
        loop {
            let Ok(line) = self.lines.recv_timeout(PATIENCE) else {
                panic!("no {kind} after {seen:#?}\n{}", self.errors.lock().unwrap())
            };
            let event: Value = serde_json::from_str(&line).unwrap_or_else(|_| panic!("not JSON: {line}"));
            let is_it = event["type"] == kind;
            seen.push(event);
            if is_it {
                return seen;
            }
        }
    }
}

impl Front for Pipes {
    fn turn(&mut self, turn: usize, kind: TurnKind, _chance: &mut Chance) {
        let message = match kind.command() {
            Some((name, args)) => json!({"type": "command", "name": name, "args": args}),
            None => json!({"type": "message", "content": kind.prompt(turn)}),
        };
        writeln!(self.input.as_mut().unwrap(), "{message}").unwrap();
        let seen = self.wait_for("RESULT");
        if kind.command().is_none() {
            let said = seen.iter().filter(|event| event["type"] == "MESSAGE" && event["role"] == "assistant");
            let said: String = said.filter_map(|event| event["content"].as_str()).collect();
            assert!(said.ends_with(&answer(turn)), "turn {turn} {kind:?}: {seen:#?}");
        }
    }

    fn pid(&self) -> u32 {
        self.child.id()
    }

    fn has_many_sessions(&self) -> bool {
        false
    }

    fn end(&mut self) {
        self.input.take();
        while self.lines.recv_timeout(PATIENCE).is_ok() {}
        assert_eq!(self.child.wait().unwrap().code(), Some(0), "{}", self.errors.lock().unwrap());
    }
}

impl Drop for Pipes {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// What stands in an empty composer.
const PLACEHOLDER: &str = "Type your message";

pub(crate) struct Window {
    screen: Screen,
}

impl Window {
    pub(crate) fn start(home: &TestHome, _url: &str) -> Self {
        let screen = command(home, &[]).on_screen(100, 40);
        screen.expect(PLACEHOLDER);
        Self { screen }
    }
}

impl Front for Window {
    fn turn(&mut self, turn: usize, kind: TurnKind, chance: &mut Chance) {
        if chance.one_in(5) {
            let (columns, rows) = (60 + chance.below(80), 20 + chance.below(40));
            self.screen.resize(u16::try_from(columns).unwrap(), u16::try_from(rows).unwrap());
        }
        match kind.command() {
            Some((name, args)) => {
                let line = format!("/{name} {args}").trim().to_owned();
                self.screen.type_text(&line).expect(&line).forget();
                // Its words may stand in the window already.
                self.screen.key("Enter").expect_raw(kind.told());
            }
            None => {
                self.screen.say(&kind.prompt(turn)).expect(&answer(turn));
            }
        }
        self.screen.expect(PLACEHOLDER);
        self.screen.forget();
    }

    fn pid(&self) -> u32 {
        self.screen.pid()
    }

    fn has_many_sessions(&self) -> bool {
        true
    }

    fn end(&mut self) {
        self.screen.say("/quit");
        assert_eq!(self.screen.wait_exit().code(), Some(0), "{}", self.screen.text());
    }
}
