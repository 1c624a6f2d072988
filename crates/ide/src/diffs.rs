//! Changes that are open in the editor's diff view, and what became of them.

use std::collections::HashMap;
use std::sync::Mutex;

use pollux_domain::sync::Locked as _;
use serde_json::Value;
use tokio::sync::oneshot;

/// What the user did with a change.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum DiffAnswer {
    /// Accepted; the text may have been edited.
    Accepted(String),
    Rejected,
}

/// The open changes by the path that the editor was given.
#[derive(Default)]
pub(crate) struct Diffs(Mutex<HashMap<String, oneshot::Sender<DiffAnswer>>>);

impl Diffs {
    /// Expects an answer about a path. An earlier one is no longer waited for.
    pub(crate) fn expect(&self, path: &str) -> oneshot::Receiver<DiffAnswer> {
        let (sender, answer) = oneshot::channel();
        self.0.locked().insert(path.to_owned(), sender);
        answer
    }

    pub(crate) fn forget(&self, path: &str) {
        self.0.locked().remove(path);
    }

    pub(crate) fn forget_all(&self) {
        self.0.locked().clear();
    }

    /// Takes a notification about a change; those about others are ignored, because a companion tells every program
    /// that is connected.
    pub(crate) fn notified(&self, method: &str, params: &Value) {
        let text = |key: &str| params.get(key).and_then(Value::as_str);
        let Some(path) = text("filePath") else { return };
        let answer = match (method, text("content")) {
            ("ide/diffAccepted", Some(content)) => DiffAnswer::Accepted(content.to_owned()),
            // The second is the name in old versions.
            ("ide/diffRejected" | "ide/diffClosed", _) => DiffAnswer::Rejected,
            _ => return,
        };
        if let Some(waiting) = self.0.locked().remove(path) {
            let _ = waiting.send(answer);
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn the_first_answer_about_an_open_change_counts() {
        let diffs = Diffs::default();
        let mut answer = diffs.expect("/w/a");
        diffs.notified("ide/diffAccepted", &json!({"filePath": "/w/other", "content": "x"}));
        diffs.notified("ide/diffAccepted", &json!({"filePath": "/w/a"}));
        diffs.notified("ide/diffAccepted", &json!("nonsense"));
        assert!(answer.try_recv().is_err(), "nothing was said about it");
        diffs.notified("ide/diffAccepted", &json!({"filePath": "/w/a", "content": "edited"}));
        diffs.notified("ide/diffRejected", &json!({"filePath": "/w/a"}));
        assert_eq!(answer.try_recv(), Ok(DiffAnswer::Accepted("edited".to_owned())));
        let mut answer = diffs.expect("/w/a");
        diffs.notified("ide/diffClosed", &json!({"filePath": "/w/a", "content": "x"}));
        assert_eq!(answer.try_recv(), Ok(DiffAnswer::Rejected));
    }
}
