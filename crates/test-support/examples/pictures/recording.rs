//! Plays a short session in a terminal and records it.

use std::time::{Duration, Instant};

use pollux_test_support::picture::Recording;
use pollux_test_support::{Exhausted, FakeGemini, Reply, Screen, reply};
use serde_json::json;

use crate::{PLACEHOLDER, Stage, put};

const COLUMNS: u16 = 88;
const ROWS: u16 = 27;
/// The picture is part of a page that people load.
const MOST_BYTES: usize = 200_000;
/// A window is looked at so often.
const TICK: Duration = Duration::from_millis(100);
const KEY: Duration = Duration::from_millis(60);
const LIMIT: Duration = Duration::from_secs(60);
const ANSWER: &str = "The greeting lacks a comma, and it ends without a mark. I will change the format string, so that \
    `greet(\"Ada\")` returns `Hello, Ada!`.\n\n";
const END: &str = "Done. `greet` adds the comma and the exclamation mark.";

impl Stage {
    /// A prompt, an answer, a change that needs approval, and the end.
    pub(crate) fn session(&self) {
        let server = FakeGemini::start_with(replies(), Exhausted::Fail(400));
        let mut command = self.bare_command(&["-m", "gemini-2.5-pro"]);
        command.env("GOOGLE_GEMINI_BASE_URL", server.url());
        let screen = Screen::start(&command, COLUMNS, ROWS);
        screen.expect(PLACEHOLDER).expect("Authenticated");
        let mut film = Film { screen: &screen, recording: Recording::new(self.look.palette()) };
        film.hold(Duration::from_millis(900));
        film.type_text("greet people properly");
        film.hold(Duration::from_millis(400));
        screen.key("Enter");
        film.watch("Apply this change?");
        screen.expect_gone("pause to answer");
        film.hold(Duration::from_millis(2_600));
        film.recording.mark_still();
        screen.key("Enter");
        film.watch("exclamation mark.");
        screen.expect_gone("esc to cancel");
        film.hold(Duration::from_millis(4_000));
        let svg = film.recording.svg("A session: a prompt, an answer, and a change that is approved");
        assert!(svg.len() < MOST_BYTES, "{} bytes in {} windows", svg.len(), film.recording.len());
        put(&self.folder.join("session.svg"), &svg);
    }
}

/// Replies that arrive piece by piece, as from a model.
fn replies() -> Vec<Reply> {
    let pause = Duration::from_millis(160);
    let words = |text: &str| {
        let words: Vec<&str> = text.split_inclusive(' ').collect();
        words.chunks(3).fold(reply(), |reply, few| reply.text(&few.concat()))
    };
    let edit = json!({"file_path": "src/greet.rs", "instruction": "Add the comma and the mark",
        "old_string": "Hello {name}", "new_string": "Hello, {name}!"});
    vec![
        reply()
            .call("read_file", json!({"file_path": "src/greet.rs"}))
            .usage(1_200, 20)
            .delay(Duration::from_millis(700)),
        words(ANSWER).call("replace", edit).usage(1_300, 90).delay(pause).pause(pause),
        words(END).usage(1_450, 30).delay(pause).pause(pause),
    ]
}

/// A screen that is being recorded.
struct Film<'a> {
    screen: &'a Screen,
    recording: Recording,
}

impl Film<'_> {
    fn take(&mut self, shown: Duration) {
        self.screen.look(|window| self.recording.add(window, shown));
    }

    /// Shows what is there for so long.
    fn hold(&mut self, time: Duration) {
        self.take(time);
    }

    fn type_text(&mut self, text: &str) {
        let mut typed = String::new();
        for letter in text.chars() {
            typed.push(letter);
            self.screen.type_text(&letter.to_string()).expect(&typed);
            self.take(KEY);
        }
    }

    /// Records what happens until the window shows this.
    fn watch(&mut self, text: &str) {
        let started = Instant::now();
        while !self.screen.text().contains(text) {
            assert!(started.elapsed() < LIMIT, "`{text}` did not appear on:\n{}", self.screen.text());
            self.take(TICK);
            std::thread::sleep(TICK);
        }
    }
}
