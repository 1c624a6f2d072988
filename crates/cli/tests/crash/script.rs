//! What the model will say in one run, and what therefore may come to stand in the session.

use std::collections::HashMap;

use pollux_test_support::chance::Chance;
use serde_json::{Value, json};

/// A prompt and the replies to it, the last one without calls.
pub(super) struct Script {
    pub(super) prompt: String,
    pub(super) replies: Vec<Scripted>,
}

pub(super) struct Scripted {
    pub(super) text: String,
    pub(super) calls: Vec<ScriptedCall>,
}

pub(super) struct ScriptedCall {
    /// As the program names it.
    pub(super) id: String,
    pub(super) name: &'static str,
    pub(super) args: Value,
}

/// Makes scripts in which every text and every id is found only once.
#[derive(Default)]
pub(super) struct Author {
    words: usize,
}

impl Author {
    fn word(&mut self, kind: &str) -> String {
        self.words += 1;
        format!("{kind}{}.", self.words)
    }

    pub(super) fn script(&mut self, chance: &mut Chance) -> Script {
        let word = self.word("prompt");
        let prompt = match chance.below(12) {
            // Longer than what is stored apart, than a page, and with everything that has to be escaped.
            0 => format!("{word} {}", "long \u{e4}\"\\ ".repeat(8_000)),
            1 | 2 => format!("{word} {}", "a page and more ".repeat(400)),
            3 => format!("{word} \"quoted\" \\ {{]}} \u{1f600}\ttab\nline"),
            _ => word,
        };
        let steps = chance.below(4);
        let mut replies: Vec<Scripted> = (0..steps).map(|_| self.step(chance)).collect();
        replies.push(Scripted { text: self.text(chance), calls: Vec::new() });
        Script { prompt, replies }
    }

    fn text(&mut self, chance: &mut Chance) -> String {
        let word = self.word("reply");
        match chance.below(8) {
            // No two words are the same: a model that repeats itself is stopped.
            0 => {
                let many = (0..1_000 + chance.below(9_000)).map(|number| format!(" w{number}"));
                format!("{word}{}", many.collect::<String>())
            }
            1 => format!("{word} \"}}]\\ \u{fc}\u{1f680}\nsecond line"),
            _ => word,
        }
    }

    fn step(&mut self, chance: &mut Chance) -> Scripted {
        let count = 1 + if chance.one_in(2) { chance.below(4) } else { 0 };
        let text = self.text(chance);
        Scripted { text, calls: (0..count).map(|_| self.call(chance)).collect() }
    }

    fn call(&mut self, chance: &mut Chance) -> ScriptedCall {
        let word = self.word("call");
        let (name, args) = match chance.below(10) {
            0..=3 => ("glob", json!({"pattern": format!("{word}*")})),
            4 | 5 => ("read_file", json!({"file_path": "page.txt", "start_line": 1, "end_line": self.words})),
            6 => ("list_directory", json!({"dir_path": "."})),
            7 => {
                let content = word.repeat(1 + chance.below(2_000));
                ("write_file", json!({"file_path": format!("made-{}.txt", self.words), "content": content}))
            }
            8 => ("read_file", json!({"file_path": format!("{word}missing")})),
            _ => {
                let command = format!("seq 1 {} # {word}", 10 + chance.below(30_000));
                ("run_shell_command", json!({"command": command}))
            }
        };
        ScriptedCall { id: format!("{name}__{word}"), name, args }
    }

    /// A run that holds its session until a file is there: its name, and the text that tells that it holds.
    pub(super) fn holding(&mut self) -> (Script, String, String) {
        let word = self.word("call");
        let id = format!("run_shell_command__{word}");
        let mark = format!("\"callId\":\"{id}\",\"params\"");
        let gate = format!("gate-{word}");
        // It ends by itself if nobody opens.
        let command = format!("for i in $(seq 1000); do [ -e {gate} ] && break; sleep 0.03; done");
        let call = ScriptedCall { id, name: "run_shell_command", args: json!({"command": command}) };
        let replies = vec![
            Scripted { text: self.word("reply"), calls: vec![call] },
            Scripted { text: self.word("reply"), calls: Vec::new() },
        ];
        (Script { prompt: self.word("prompt"), replies }, mark, gate)
    }
}

impl Script {
    /// The file for `--fake-responses`.
    pub(super) fn responses(&self) -> String {
        self.replies.iter().map(Scripted::line).collect()
    }

    /// Texts that appear on stdout one after the other while the run goes on.
    pub(super) fn marks(&self) -> Vec<String> {
        let mut marks = vec!["\"INIT\"".to_owned(), first_word(&self.prompt)];
        for reply in &self.replies {
            marks.push(first_word(&reply.text));
            for end in ["params", "status"] {
                marks.extend(reply.calls.iter().map(|call| format!("\"callId\":\"{}\",\"{end}\"", call.id)));
            }
        }
        marks
    }
}

fn first_word(text: &str) -> String {
    text.split_inclusive('.').next().unwrap_or_default().to_owned()
}

impl Scripted {
    /// Two pieces, the first of them the word that a run is waited for by.
    fn line(&self) -> String {
        let word = first_word(&self.text);
        let rest = self.text.strip_prefix(word.as_str()).unwrap_or_default();
        let calls = self.calls.iter().map(|call| {
            let id = call.id.split_once("__").map(|(_, id)| id);
            json!({"functionCall": {"id": id, "name": call.name, "args": call.args}})
        });
        let said = (!rest.is_empty()).then(|| json!({"text": rest}));
        let last: Vec<Value> = said.into_iter().chain(calls).collect();
        let chunks = json!([
            {"candidates": [{"content": {"role": "model", "parts": [{"text": word}]}}]},
            {"candidates": [{"content": {"role": "model", "parts": last}, "finishReason": "STOP"}]},
        ]);
        json!({"method": "generateContentStream", "response": chunks}).to_string() + "\n"
    }
}

/// What a run told before its end: all of it has to be in the file.
#[derive(Default, Clone)]
pub(super) struct Told {
    pub(super) session: Option<String>,
    pub(super) prompt: bool,
    /// Ids of calls that were asked for.
    pub(super) asked: Vec<String>,
    /// Status and text of calls that ended.
    pub(super) ended: HashMap<String, (String, String)>,
    /// The run came to its end.
    pub(super) finished: bool,
    /// The run reported that it no longer records. What came after that need not be in the file, unless the run also
    /// reported that it records again.
    pub(super) stopped: bool,
    /// The run reported that another program deleted or changed the file.
    pub(super) displaced: bool,
}

impl Told {
    /// Reads the events of a run; the last line may be cut.
    pub(super) fn read(stdout: &str) -> Self {
        let mut told = Self::default();
        let mut before_stop = None;
        for line in stdout.split_inclusive('\n').filter(|line| line.ends_with('\n')) {
            let Ok(event) = serde_json::from_str::<Value>(line) else { continue };
            let text = |key: &str| event[key].as_str().unwrap_or_default().to_owned();
            match event["type"].as_str().unwrap_or_default() {
                "INIT" => told.session = Some(text("sessionId")),
                "ERROR" if event["code"] == "RECORDING_STOPPED" => {
                    told.stopped = true;
                    before_stop = Some(told.clone());
                }
                "ERROR" if event["code"] == "RECORDING_RESUMED" => before_stop = None,
                "ERROR" if event["code"] == "SESSION_FILE" => told.displaced = true,
                "MESSAGE" if event["role"] == "user" => told.prompt = true,
                "TOOL_USE" => told.asked.push(text("callId")),
                "TOOL_RESULT" => {
                    let result = if event["result"].is_string() { text("result") } else { text("error") };
                    told.ended.insert(text("callId"), (text("status"), result));
                }
                "RESULT" => told.finished = event["success"] == true,
                _ => {}
            }
        }
        before_stop.unwrap_or(told)
    }
}
