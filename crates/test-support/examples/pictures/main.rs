//! Renders the main screens of a real program, and a recording of a session: `pictures PROGRAM FOLDER [SCENE]`, with
//! subfolders for a light terminal and a narrow one. Run by `scripts/pictures.sh`.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::disallowed_methods,
    reason = "a scene that cannot be played has no picture"
)]

mod recording;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use pollux_test_support::picture::Palette;
use pollux_test_support::{Screen, picture};
use serde_json::{Value, json};

const PLACEHOLDER: &str = "Type your message or @path/to/file";

/// Draws its pictures.
type Scene = fn(&Stage);

fn main() {
    let mut args = std::env::args().skip(1);
    let (Some(program), Some(folder)) = (args.next(), args.next().map(PathBuf::from)) else {
        panic!("PROGRAM and FOLDER are wanted")
    };
    let wanted = args.next();
    let program = fs::canonicalize(program).unwrap();
    let scenes: [(&str, Scene); 6] = [
        ("welcome", Stage::welcome),
        ("task", Stage::task),
        ("sessions", Stage::sessions),
        ("settings", Stage::settings),
        ("stats", Stage::stats),
        ("session", Stage::session),
    ];
    for look in [Look::Dark, Look::Light, Look::Narrow] {
        let stage = Stage::new(program.clone(), folder.join(look.folder()), look);
        let scenes = scenes.iter().filter(|(name, _)| wanted.as_deref().is_none_or(|wanted| wanted == *name));
        // A recording has the size of a page.
        let scenes = scenes.filter(|(name, _)| *name != "session" || !matches!(look, Look::Narrow));
        scenes.for_each(|(_, play)| play(&stage));
    }
}

/// The terminal that the pictures are of.
#[derive(Clone, Copy)]
enum Look {
    Dark,
    Light,
    Narrow,
}

impl Look {
    fn folder(self) -> &'static str {
        match self {
            Self::Dark => "",
            Self::Light => "light",
            Self::Narrow => "narrow",
        }
    }

    /// Columns and rows.
    fn size(self) -> (u16, u16) {
        match self {
            Self::Dark | Self::Light => (96, 38),
            Self::Narrow => (40, 48),
        }
    }

    fn palette(self) -> &'static Palette {
        match self {
            Self::Dark | Self::Narrow => &picture::DARK,
            Self::Light => &picture::LIGHT,
        }
    }
}

/// A home and a project that look the same every time.
struct Stage {
    program: PathBuf,
    folder: PathBuf,
    home: PathBuf,
    look: Look,
}

impl Stage {
    fn new(program: PathBuf, folder: PathBuf, look: Look) -> Self {
        let home = std::env::temp_dir().join("pollux-pictures");
        let _ = fs::remove_dir_all(&home);
        let stage = Self { program, folder, home, look };
        if matches!(look, Look::Light) {
            let settings = json!({"ui": {"theme": "Default Light"}});
            put(&stage.home.join(".gemini/settings.json"), &settings.to_string());
        }
        put(
            &stage.project().join("src/greet.rs"),
            "pub fn greet(name: &str) -> String {\n    format!(\"Hello {name}\")\n}\n",
        );
        put(&stage.project().join("GEMINI.md"), "Be brief.\n");
        put(&stage.project().join(".git/HEAD"), "ref: refs/heads/main\n");
        stage
    }

    fn project(&self) -> PathBuf {
        self.home.join("greeter")
    }

    fn command(&self, args: &[&str], replies: &[Value]) -> Command {
        let script = self.home.join("replies.jsonl");
        put(&script, &replies.iter().map(|reply| format!("{reply}\n")).collect::<String>());
        let mut command = self.bare_command(&["-m", "gemini-2.5-pro", "--fake-responses"]);
        command.arg(script).args(args);
        command
    }

    /// The program in its project, without the user's environment.
    fn bare_command(&self, args: &[&str]) -> Command {
        let mut command = Command::new(&self.program);
        command.args(args).current_dir(self.project()).env_clear();
        let variables = [
            ("PATH", "/usr/local/bin:/usr/bin:/bin"),
            ("TERM", "xterm-256color"),
            ("COLORTERM", "truecolor"),
        ];
        command.envs(variables).env("LANG", "C.UTF-8").env("TZ", "UTC").env("HOME", &self.home);
        command.env("GEMINI_API_KEY", "a-key").env("GEMINI_CLI_TRUST_WORKSPACE", "true");
        command
    }

    fn open(&self, args: &[&str], replies: &[Value]) -> Screen {
        let (columns, rows) = self.look.size();
        let screen = Screen::start(&self.command(args, replies), columns, rows);
        screen.expect(PLACEHOLDER);
        screen
    }

    fn keep(&self, screen: &Screen, name: &str, title: &str) {
        let drawn = screen.look(|window| picture::svg(window, title, self.look.palette()));
        put(&self.folder.join(format!("{name}.svg")), &drawn);
    }

    fn welcome(&self) {
        let screen = self.open(&[], &[]);
        screen.expect("Authenticated").type_text("explain @src/greet.rs").expect("explain @src/greet.rs");
        self.keep(&screen, "welcome", "The first screen, with a prompt");
    }

    fn task(&self) {
        let edit = json!({"functionCall": {"name": "replace", "args": {
            "file_path": "src/greet.rs", "instruction": "Add the missing comma",
            "old_string": "Hello {name}", "new_string": "Hello, {name}!"}}});
        let said =
            "The greeting lacks a comma. I will add it:\n\n```rust\nformat!(\"Hello, {name}!\")\n```\n";
        let read = json!({"functionCall": {"name": "read_file", "args": {"file_path": "src/greet.rs"}}});
        let replies =
            [reply(&[read]), reply(&[json!({"text": said}), edit]), reply(&[json!({"text": "Done."})])];
        let screen = self.open(&[], &replies);
        screen.say("greet people properly").expect("Apply this change?").expect("Hello, {name}!");
        screen.expect_gone("pause to answer");
        self.keep(&screen, "approval", "A change waits for an answer");
    }

    fn sessions(&self) {
        let prompts = [
            "Why does the second test fail?",
            "Write a changelog entry for the last three commits",
            "Move the parser into a module of its own",
        ];
        for prompt in prompts {
            let done =
                self.command(&["-p", prompt], &[reply(&[json!({"text": "It is done."})])]).output().unwrap();
            assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stderr));
        }
        let screen = self.open(&[], &[]);
        screen.say("/resume").expect("Chat Sessions").expect("Move the parser");
        self.keep(&screen, "sessions", "The browser of sessions");
    }

    fn settings(&self) {
        let screen = self.open(&[], &[]);
        screen.say("/settings").expect("Search to filter").expect("Colour theme");
        self.keep(&screen, "settings", "The settings");
    }

    fn stats(&self) {
        let turns = [
            ("what is here?", "A greeter.", 1_800, 220),
            ("and what is missing?", "A farewell.", 2_600, 90),
            ("write it, please", "It is written.", 3_900, 640),
        ];
        let replies: Vec<Value> =
            turns.iter().map(|(_, text, sent, said)| used(text, *sent, *said)).collect();
        let screen = self.open(&["--session-id", "5e551047-0000-4000-8000-000000000000"], &replies);
        for (prompt, text, ..) in turns {
            screen.say(prompt).expect(&format!("✦ {text}")).expect_gone("esc to cancel").expect(PLACEHOLDER);
        }
        screen
            .key("Ctrl+L")
            .say("/stats")
            .expect("Session Stats")
            .expect("Tokens per Turn")
            .expect(PLACEHOLDER);
        self.keep(&screen, "stats", "What a session took");
    }
}

/// One line of a script: a reply with these parts.
fn reply(parts: &[Value]) -> Value {
    let chunk = json!({"candidates": [{"content": {"role": "model", "parts": parts}, "finishReason": "STOP"}],
        "usageMetadata": {"promptTokenCount": 1200, "candidatesTokenCount": 80, "totalTokenCount": 1280}});
    json!({"method": "generateContentStream", "response": [chunk]})
}

fn used(text: &str, sent: u64, said: u64) -> Value {
    let mut reply = reply(&[json!({"text": text})]);
    reply["response"][0]["usageMetadata"] =
        json!({"promptTokenCount": sent, "candidatesTokenCount": said, "totalTokenCount": sent + said});
    reply
}

fn put(path: &Path, text: &str) {
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    fs::write(path, text).unwrap();
}
