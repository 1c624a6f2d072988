//! Prompts that wait for the end of a turn. They are logged when they are queued, since a program that is killed loses
//! its memory, and not again when they are sent.

use std::sync::Mutex;

use pollux_domain::sync::Locked as _;

/// Entries that are kept: prompts that were removed from the queue are never sent.
const MAX_ENTRIES: usize = 256;

/// What the queue puts between prompts that it sends as one.
const SEPARATOR: &str = "\n\n";

/// The prompts that were queued and not sent yet.
#[derive(Debug, Default)]
pub(crate) struct QueuedPrompts(Mutex<Vec<QueuedPrompt>>);

#[derive(Debug)]
struct QueuedPrompt {
    text: String,
    is_logged: bool,
}

impl QueuedPrompts {
    /// Notes prompts that [`QueuedPrompts::log`] logs.
    pub(crate) fn add(&self, texts: Vec<String>) {
        let mut queued = self.0.locked();
        for text in texts {
            if !queued.iter().any(|known| known.text == text) {
                queued.push(QueuedPrompt { text, is_logged: false });
            }
        }
        let surplus = queued.len().saturating_sub(MAX_ENTRIES);
        queued.drain(..surplus);
    }

    /// Logs the new prompts. One that cannot be logged is logged when it is sent.
    pub(crate) fn log(&self, log: impl FnMut(&str) -> bool) {
        log_new(&mut self.0.locked(), log);
    }

    /// Whether a prompt that is sent consists of logged ones, which are sent with it.
    pub(crate) fn take(&self, sent: &str, log: impl FnMut(&str) -> bool) -> bool {
        let mut queued = self.0.locked();
        log_new(&mut queued, log);
        let mut parts = Vec::new();
        let mut rest = sent;
        loop {
            let fitting = queued.iter().filter_map(|known| {
                let after = rest.strip_prefix(&*known.text)?;
                let after = if after.is_empty() { after } else { after.strip_prefix(SEPARATOR)? };
                Some((known.text.clone(), after))
            });
            let Some((part, after)) = fitting.max_by_key(|(part, _)| part.len()) else { return false };
            parts.push(part);
            rest = after;
            if rest.is_empty() {
                break;
            }
        }
        queued.retain(|known| !parts.contains(&known.text));
        true
    }
}

fn log_new(queued: &mut Vec<QueuedPrompt>, mut log: impl FnMut(&str) -> bool) {
    queued.retain_mut(|prompt| {
        prompt.is_logged = prompt.is_logged || log(&prompt.text);
        prompt.is_logged
    });
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn queued_prompts_are_logged_once_whether_they_are_sent_alone_or_joined() {
        let queued = QueuedPrompts::default();
        let mut log = Vec::new();
        let mut write = |text: &str| {
            log.push(text.to_owned());
            text != "full disk"
        };
        queued.add(["one", "two", "two", "one\n\nand more", "full disk"].map(str::to_owned).to_vec());
        queued.log(&mut write);
        queued.log(&mut write);
        queued.add(vec!["three".to_owned()]);
        assert!(!queued.take("two, but edited", &mut write));
        assert!(queued.take("one\n\nand more\n\ntwo", &mut write));
        assert!(!queued.take("two", &mut write), "sent before");
        assert!(queued.take("one", &mut write) && queued.take("three", &mut write));
        assert!(!queued.take("full disk", &mut write));
        assert_eq!(log, ["one", "two", "one\n\nand more", "full disk", "three"]);
    }
}
