//! Assembles the text of an answer from its events.

use pollux_domain::terminal_text::plain;

use crate::protocol::{ArtifactUpdate, Message, Role, TaskState, Update};

/// Limit of text bytes kept of one answer.
const MAX_TEXT: usize = 1024 * 1024;
const MAX_ARTIFACTS: usize = 200;
/// Characters of an artifact's name.
const MAX_NAME: usize = 200;
const CUT: &str = "\n[Output exceeds the size limit; the rest is omitted.]";

/// Upstream's words.
const AUTH_REQUIRED: &str = "[Authorization Required] The agent has indicated it requires authorization to proceed. \
                             Please follow the agent's instructions.";

/// The answer so far.
#[derive(Debug, Default)]
pub(crate) struct AnswerText {
    messages: Vec<String>,
    artifacts: Vec<ArtifactText>,
    /// Bytes of text in all.
    size: usize,
    cut: bool,
    state: Option<TaskState>,
    heard: bool,
}

#[derive(Debug)]
struct ArtifactText {
    id: String,
    name: Option<String>,
    text: String,
}

impl AnswerText {
    /// Takes an event in.
    pub(crate) fn take(&mut self, reply: Update) {
        self.heard = true;
        if let Some(state) = reply.state() {
            self.state = Some(state);
            if state == TaskState::AuthRequired && !self.messages.iter().any(|known| known == AUTH_REQUIRED) {
                self.messages.push(AUTH_REQUIRED.to_owned());
            }
        }
        match reply {
            Update::Message(message) => self.say(&message),
            Update::Status(update) => update.status.message.iter().for_each(|message| self.say(message)),
            Update::Artifact(ArtifactUpdate { artifact, append, .. }) => {
                let text = artifact.text();
                self.keep(artifact.id, artifact.name, &text, append);
            }
            Update::Task(task) => {
                task.status.message.iter().for_each(|message| self.say(message));
                for artifact in task.artifacts {
                    let text = artifact.text();
                    self.keep(artifact.id, artifact.name, &text, false);
                }
                if task.status.state.is_final() && self.messages.is_empty() && self.artifacts.is_empty() {
                    let last = task.history.iter().rev().find(|message| message.role == Role::Agent);
                    last.into_iter().for_each(|message| self.say(message));
                }
            }
        }
    }

    /// Whether any event arrived.
    pub(crate) fn is_heard(&self) -> bool {
        self.heard
    }

    /// Whether there is anything to show.
    pub(crate) fn has_text(&self) -> bool {
        self.size > 0 || !self.messages.is_empty()
    }

    /// The last known state of the task.
    pub(crate) fn state(&self) -> Option<TaskState> {
        self.state
    }

    /// Messages, then artifacts.
    pub(crate) fn text(&self) -> String {
        let said = self.messages.concat();
        let blocks = self.artifacts.iter().map(|kept| match &kept.name {
            Some(name) => format!("Artifact ({name}):\n{}", kept.text),
            None => format!("Artifact:\n{}", kept.text),
        });
        let blocks = blocks.collect::<Vec<_>>().join("\n\n");
        let gap = if said.is_empty() || blocks.is_empty() { "" } else { "\n\n" };
        let cut = if self.cut { CUT } else { "" };
        format!("{said}{gap}{blocks}{cut}")
    }

    fn say(&mut self, message: &Message) {
        let text = message.text();
        if message.role == Role::User || text.is_empty() {
            return;
        }
        let text = self.room_for(&text, 0);
        if !text.is_empty() && self.messages.last() != Some(&text) {
            self.size += text.len();
            self.messages.push(text);
        }
    }

    fn keep(&mut self, id: String, name: Option<String>, text: &str, append: bool) {
        let known = self.artifacts.iter().find(|kept| kept.id == id);
        let gone = known.filter(|_| !append).map_or(0, |kept| kept.text.len());
        let text = self.room_for(text, gone);
        self.size = self.size + text.len() - gone;
        let full = self.artifacts.len() >= MAX_ARTIFACTS;
        let name = name.map(|name| plain(&name).chars().take(MAX_NAME).collect());
        match self.artifacts.iter_mut().find(|kept| kept.id == id) {
            Some(kept) if append => kept.text.push_str(&text),
            Some(kept) => {
                kept.text = text;
                kept.name = name;
            }
            None if !full => self.artifacts.push(ArtifactText { id, name, text }),
            None => self.cut = true,
        }
    }

    /// The part of a text that fits when `gone` bytes are freed, without terminal control characters.
    fn room_for(&mut self, text: &str, gone: usize) -> String {
        let room = MAX_TEXT.saturating_sub(self.size - gone);
        let text = plain(text);
        if text.len() <= room {
            return text.into_owned();
        }
        self.cut = true;
        let end = (0..=room).rev().find(|end| text.is_char_boundary(*end)).unwrap_or(0);
        text.get(..end).unwrap_or_default().to_owned()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{Value, json};

    fn answer(events: &[Value]) -> AnswerText {
        let mut answer = AnswerText::default();
        for event in events {
            answer.take(Update::read(event).unwrap());
        }
        answer
    }

    fn said(role: &str, text: &str) -> Value {
        json!({"kind": "message", "role": role, "parts": [{"kind": "text", "text": text}]})
    }

    fn artifact(id: &str, text: &str, append: bool) -> Value {
        json!({"kind": "artifact-update", "append": append, "artifact":
            {"artifactId": id, "name": format!("n{id}"), "parts": [{"kind": "text", "text": text}]}})
    }

    #[test]
    fn messages_come_first_and_echoes_are_dropped() {
        let answer = answer(&[
            said("user", "question"),
            said("agent", "one "),
            said("agent", "one "),
            said("agent", "two"),
            artifact("1", "a", false),
            artifact("1", "b", true),
            artifact("2", "old", false),
            artifact("2", "new", false),
        ]);
        assert_eq!(answer.text(), "one two\n\nArtifact (n1):\nab\n\nArtifact (n2):\nnew");
    }

    #[test]
    fn a_task_without_output_falls_back_to_its_history() {
        let task = json!({"kind": "task", "id": "t", "status": {"state": "completed"}, "history":
            [said("agent", "first"), said("user", "q"), said("agent", "last")]});
        assert_eq!(answer(&[task]).text(), "last");
    }

    #[test]
    fn terminal_controls_are_removed_and_size_is_bounded() {
        let mut events = vec![said("agent", "\u{1b}]0;title\u{7}red\u{1b}[31m")];
        events.extend((0..40).map(|number| said("agent", &format!("{number}{}", "é".repeat(50_000)))));
        let text = answer(&events).text();
        assert!(text.starts_with("red0"), "{}", text.chars().take(40).collect::<String>());
        assert!(text.len() <= MAX_TEXT + CUT.len() && text.ends_with(CUT));
        let many: Vec<Value> = (0..300).map(|id| artifact(&id.to_string(), "x", false)).collect();
        assert!(answer(&many).text().ends_with(CUT));
        let growing: Vec<Value> = (0..50).map(|_| artifact("1", &"y".repeat(100_000), true)).collect();
        assert!(answer(&growing).text().len() < MAX_TEXT + 200);
        let replaced: Vec<Value> = (0..50).map(|_| artifact("1", &"y".repeat(100_000), false)).collect();
        assert!(!answer(&replaced).text().ends_with(CUT));
    }

    #[test]
    fn the_name_of_a_replaced_artifact_is_limited_too() {
        let named = |name: &str| json!({"kind": "artifact-update", "artifact": {"artifactId": "1", "name": name, "parts": []}});
        let text = answer(&[named("short"), named(&"n".repeat(5_000))]).text();
        assert_eq!(text, format!("Artifact ({}):\n", "n".repeat(MAX_NAME)));
    }
}
