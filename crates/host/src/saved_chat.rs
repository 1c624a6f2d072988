//! Conversations saved with `/chat`, and sessions that start from one.

use std::path::{Path, PathBuf};

use pollux_config::files::{self, Mode};
use pollux_domain::content::{Body, Content, FunctionCall, FunctionResponse, Part, Role};
use pollux_domain::event::CallStatus;
use pollux_domain::id::CallId;
use pollux_domain::time::{Clock, SystemClock, Timestamp};
use pollux_domain::tool::Display;
use pollux_session::{
    CallRecord, CallResult, Checkpoint, CheckpointError, RecordError, Recorder, ReplyRecord, RestoredTurn,
    delete_checkpoint_in, history, list_checkpoints_in, load, load_checkpoint_in, save_checkpoint,
};
use serde_json::Value;

use super::Prepared;

/// The first message of conversations by older gemini-cli releases; the model's answer follows.
const OLD_CONTEXT: &str = "This is the Gemini CLI. We are setting up the context for our chat.";

/// A conversation that was saved.
pub struct SavedChat {
    pub tag: String,
    pub saved: Timestamp,
}

/// Writes turns into a new session and returns them as a conversation, repaired where needed.
pub(super) fn record(recorder: &mut Recorder, turns: &[Content]) -> Vec<RestoredTurn> {
    if turns.is_empty() || write(recorder, turns).is_err() {
        return Vec::new();
    }
    let stored = recorder.path().and_then(|path| load(path).ok());
    stored.map(|stored| history(&stored)).unwrap_or_default()
}

fn write(recorder: &mut Recorder, turns: &[Content]) -> Result<(), RecordError> {
    let now = SystemClock.now();
    // Pending call ids with their tool names.
    let mut open: Vec<(String, CallId)> = Vec::new();
    for turn in spoken(turns) {
        match turn.role {
            Role::Model => {
                let first = open.len();
                open = turn
                    .calls()
                    .enumerate()
                    .map(|(n, call)| (call.name.clone(), id_of(call, first + n)))
                    .collect();
                recorder.reply(&reply(turn, &open), now)?;
            }
            Role::User => {
                let results: Vec<CallResult> =
                    turn.responses().filter_map(|response| result(response, &mut open)).collect();
                recorder.results(&results, now)?;
                let words: Vec<Part> = turn
                    .parts
                    .iter()
                    .filter(|part| !matches!(part.body, Body::Response(_)))
                    .cloned()
                    .collect();
                if !words.is_empty() {
                    recorder.user(&words, None, now)?;
                }
            }
        }
    }
    Ok(())
}

/// The turns without those that describe an outdated environment.
fn spoken(turns: &[Content]) -> &[Content] {
    let first = turns.first().map(Content::text).unwrap_or_default();
    let skipped = if first.starts_with("<session_context>") {
        1
    } else if first.starts_with(OLD_CONTEXT) {
        2
    } else {
        0
    };
    turns.get(skipped..).unwrap_or_default()
}

fn id_of(call: &FunctionCall, number: usize) -> CallId {
    CallId::new(&call.name, call.id.as_deref().unwrap_or(&format!("saved_{number}")))
}

fn reply(turn: &Content, ids: &[(String, CallId)]) -> ReplyRecord {
    let calls = turn.parts.iter().filter_map(|part| part.as_call().map(|call| (part, call)));
    let calls = calls.zip(ids).map(|((part, call), (_, id))| CallRecord {
        id: id.clone(),
        name: call.name.clone(),
        args: call.args.clone(),
        seal: part.seal.clone(),
        display_name: call.name.clone(),
        description: String::new(),
        markdown: false,
    });
    ReplyRecord {
        calls: calls.collect(),
        parts: turn.parts.iter().filter(|part| part.as_call().is_none()).cloned().collect(),
        thoughts: Vec::new(),
        usage: None,
        model: String::new(),
        origin: None,
    }
}

fn result(response: &FunctionResponse, open: &mut Vec<(String, CallId)>) -> Option<CallResult> {
    let wanted = response.id.as_deref().map(|id| CallId::new(&response.name, id));
    let by_id = open.iter().position(|(_, id)| wanted.as_ref() == Some(id));
    let at = by_id.or_else(|| open.iter().position(|(name, _)| *name == response.name))?;
    let (_, id) = open.remove(at);
    let mut answer = response.clone();
    answer.id = Some(id.as_str().to_owned());
    Some(CallResult {
        id,
        status: CallStatus::Success,
        result: vec![Part::response(answer)],
        display: Display::Nothing,
    })
}

/// The saved conversations of a project, for `/chat`.
impl Prepared<'_> {
    fn folders(&self) -> &[PathBuf] {
        self.loaded.project.state_dirs()
    }

    /// The conversations that were saved, oldest first.
    pub fn saved_chats(&self) -> Vec<SavedChat> {
        let saved = list_checkpoints_in(self.folders()).into_iter();
        saved.map(|info| SavedChat { tag: info.tag, saved: info.modified }).collect()
    }

    /// Saves a conversation under a name.
    pub fn save_chat(&self, tag: &str, turns: Vec<Content>, model: &str) -> Result<(), String> {
        let checkpoint = Checkpoint { history: turns, auth_type: self.auth_method(model) };
        let folder = self.loaded.project.temp_dir();
        save_checkpoint(folder, tag, &checkpoint).map(|_| ()).map_err(|error| words(&error))
    }

    /// Reads a saved conversation; the texts are upstream's.
    pub fn load_chat(&self, tag: &str, model: &str) -> Result<Vec<Content>, String> {
        let saved = load_checkpoint_in(self.folders(), tag).map_err(|error| words(&error))?;
        let saved = saved.filter(|saved| !saved.history.is_empty());
        let saved = saved.ok_or_else(|| format!("No saved checkpoint found with tag: {tag}."))?;
        match (&saved.auth_type, &self.auth_method(model)) {
            (Some(then), Some(now)) if then != now => Err(format!(
                "Cannot resume chat. It was saved with a different authentication method ({then}) than the current one ({now})."
            )),
            _ => Ok(saved.history),
        }
    }

    /// Deletes a saved conversation; the texts are upstream's.
    pub fn delete_chat(&self, tag: &str) -> Result<String, String> {
        match delete_checkpoint_in(self.folders(), tag).map_err(|error| words(&error))? {
            true => Ok(format!("Conversation checkpoint '{tag}' has been deleted.")),
            false => Err(format!("Error: No checkpoint found with tag '{tag}'.")),
        }
    }

    /// Exports a conversation as JSON or Markdown, depending on the file name. An existing file is only replaced with
    /// `--yes` behind its name.
    pub fn share_chat(&self, file: &str, turns: &[Content]) -> Result<PathBuf, String> {
        share(self.loaded.env.cwd(), file, turns)
    }

    /// The file that [`Self::share_chat`] would refuse to replace, to ask about it first.
    pub fn existing_share(&self, file: &str) -> Option<PathBuf> {
        let (name, is_confirmed) = confirmed(file);
        let path = self.loaded.env.cwd().join(name);
        (!is_confirmed && path.exists()).then_some(path)
    }
}

/// What confirms that a file may be replaced, as for `pollux sessions export`.
const YES: &str = " --yes";

/// The name of a file without `--yes`, and whether that was there.
fn confirmed(file: &str) -> (&str, bool) {
    file.strip_suffix(YES).map_or((file, false), |file| (file.trim_end(), true))
}

fn share(folder: &Path, file: &str, turns: &[Content]) -> Result<PathBuf, String> {
    let (name, is_confirmed) = confirmed(file);
    let path = folder.join(name);
    let text = match path.extension().and_then(|extension| extension.to_str()) {
        Some("json") => format!("{:#}", turns.iter().map(Content::to_json).collect::<Value>()),
        Some("md") => markdown(turns),
        _ => return Err("Invalid file format. Only .md and .json are supported.".to_owned()),
    };
    if !is_confirmed && path.exists() {
        return Err(format!("`{}` already exists. To overwrite it: /chat share {name}{YES}", path.display()));
    }
    files::write_output(&path, text.as_bytes(), Mode::Shared).map_err(|error| error.to_string())?;
    Ok(path)
}

fn words(error: &CheckpointError) -> String {
    let cause = std::error::Error::source(error).map(|cause| format!(": {cause}")).unwrap_or_default();
    format!("{error}{cause}")
}

/// As upstream writes it.
fn markdown(turns: &[Content]) -> String {
    let block = |title: &str, value: Value| format!("**{title}**:\n```json\n{value:#}\n```");
    let turn = |turn: &Content| {
        let title = if turn.role == Role::User { "## USER 🧑‍💻" } else { "## MODEL ✨" };
        let parts = turn.parts.iter().filter_map(|part| match &part.body {
            Body::Call(_) => Some(block("Tool Command", part.to_json())),
            Body::Response(_) => Some(block("Tool Response", part.to_json())),
            _ => part.spoken_text().map(str::to_owned),
        });
        format!("{title}\n\n{}", parts.collect::<Vec<_>>().join("\n\n"))
    };
    turns.iter().map(turn).collect::<Vec<_>>().join("\n\n---\n\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_that_exists_is_only_replaced_with_yes() {
        let dir = tempfile::tempdir().unwrap();
        let turns = [Content::user_text("hi")];
        let path = share(dir.path(), "x y.md", &turns).unwrap();
        assert_eq!(path, dir.path().join("x y.md"));
        files::replace(&path, b"mine", Mode::Shared).unwrap();
        let refused = share(dir.path(), "x y.md", &turns).unwrap_err();
        let named = path.display();
        assert_eq!(refused, format!("`{named}` already exists. To overwrite it: /chat share x y.md --yes"));
        assert_eq!(files::read_text(&path).unwrap().as_deref(), Some("mine"));
        share(dir.path(), "x y.md  --yes", &turns).unwrap();
        assert!(files::read_text(&path).unwrap().unwrap().ends_with("hi"));
        share(dir.path(), "new.json --yes", &turns).unwrap();
        assert!(share(dir.path(), "--yes", &turns).is_err());
    }
}
