//! The tool `save_memory`: adds a fact to the user's context file.

use std::path::PathBuf;
use std::sync::Arc;

use pollux_config::edit_file::edit_text;
use pollux_config::files::{self, FileError, FileLock, LockError, Mode};
use pollux_domain::tool::{
    ArgError, Display, Effect, Invocation, Tool, ToolContext, ToolErrorKind, ToolKind, ToolOutcome, ToolSpec,
};
use pollux_domain::{BoxFuture, JsonObject};
use serde_json::json;

use crate::arguments::Arguments;
use crate::file_scope::on_thread;

/// Upstream's heading, under which it looks, too.
const SECTION: &str = "## Gemini Added Memories";
/// A fact is a sentence or two, no document.
const MAX_CHARS: usize = 4000;

/// The tool.
pub(crate) struct SaveMemory {
    spec: Arc<ToolSpec>,
    file: PathBuf,
    /// The real path of the file: some users keep it in another folder and link to it.
    target: PathBuf,
}

struct Call {
    file: PathBuf,
    target: PathBuf,
    fact: String,
}

/// Why a fact was not saved.
#[derive(Debug, thiserror::Error)]
enum SaveError {
    #[error(transparent)]
    Lock(#[from] LockError),
    #[error(transparent)]
    File(#[from] FileError),
    #[error("`{}` has been replaced by a link to another path since the session began", file.display())]
    Moved { file: PathBuf },
}

impl SaveMemory {
    /// `file` is the context file of the user, `~/.gemini/GEMINI.md`.
    pub(crate) fn new(file: PathBuf) -> Self {
        let spec = ToolSpec {
            name: "save_memory".to_owned(),
            display_name: "SaveMemory".to_owned(),
            description:
                "Keeps one fact about the user for all later sessions, such as a lasting preference. \
                Use it when the user asks to remember something or states what clearly holds for good. One \
                short sentence that stands by itself. Not for what matters in this conversation only, and \
                never for secrets."
                    .to_owned(),
            kind: ToolKind::Think,
            parameters: json!({
                "type": "object",
                "properties": {
                    "fact": {"type": "string", "description": "The fact, as one short sentence."}
                },
                "required": ["fact"],
                "additionalProperties": false
            }),
            output_is_markdown: true,
            offloads_long_output: false,
        };
        let target = files::follow(&file).unwrap_or_else(|_| file.clone());
        Self { spec: Arc::new(spec), file, target }
    }
}

impl Tool for SaveMemory {
    fn spec(&self) -> &Arc<ToolSpec> {
        &self.spec
    }

    fn prepare(&self, args: &JsonObject) -> Result<Box<dyn Invocation>, ArgError> {
        let fact = as_list_item(Arguments(args).text("fact")?.unwrap_or_default());
        if fact.is_empty() {
            return Err(ArgError("Parameter \"fact\" must be a non-empty string.".to_owned()));
        }
        if fact.chars().count() > MAX_CHARS {
            return Err(ArgError(format!("Parameter \"fact\" is longer than {MAX_CHARS} characters.")));
        }
        Ok(Box::new(Call { file: self.file.clone(), target: self.target.clone(), fact }))
    }
}

/// One line without a list mark: a fact cannot bring headings or further items with it.
fn as_list_item(fact: &str) -> String {
    let plain: String = fact.chars().map(|c| if c.is_control() { ' ' } else { c }).collect();
    let words: Vec<&str> = plain.split_whitespace().collect();
    words.join(" ").trim_start_matches(['-', ' ']).to_owned()
}

impl Invocation for Call {
    fn describe(&self) -> String {
        format!("in {}", self.file.display())
    }

    fn effect(&self) -> Effect {
        Effect::Edit(self.target.clone())
    }

    fn run<'a>(self: Box<Self>, context: &'a ToolContext) -> BoxFuture<'a, ToolOutcome> {
        Box::pin(on_thread(context, move |_| match self.save() {
            Ok(()) => {
                let message = format!("Okay, I've remembered that: \"{}\"", self.fact);
                let answer = json!({"success": true, "message": message});
                ToolOutcome::text(answer.to_string(), Display::Text(message))
            }
            Err(error) => ToolOutcome::failed(ToolErrorKind::MemoryToolExecutionError, error.to_string()),
        }))
    }
}

impl Call {
    fn save(&self) -> Result<(), SaveError> {
        // The approval covers a change of the file that the link pointed to then.
        if files::follow(&self.file)? != self.target {
            return Err(SaveError::Moved { file: self.file.clone() });
        }
        // Held from reading to writing, or two facts at once would be one. An editor takes no lock.
        let _lock = FileLock::acquire(&self.target)?;
        let fact = without_imports(&self.fact);
        edit_text(&self.target, Mode::Private, |old| Ok(Some(with_fact(old.unwrap_or_default(), &fact))))
    }
}

/// `@path` at the start of a word would bring a file into every later session; escaped, it is plain text.
fn without_imports(fact: &str) -> String {
    let words =
        fact.split(' ').map(|word| if word.starts_with('@') { format!("\\{word}") } else { word.to_owned() });
    words.collect::<Vec<_>>().join(" ")
}

/// The text with the fact appended to its section, which is created if missing.
fn with_fact(old: &str, fact: &str) -> String {
    let is_heading = |line: &str| line.trim_end() == SECTION;
    let lines: Vec<&str> = old.lines().collect();
    let Some(at) = lines.iter().position(|line| is_heading(line)) else {
        let kept = old.trim_end();
        let gap = if kept.is_empty() { "" } else { "\n\n" };
        return format!("{kept}{gap}{SECTION}\n- {fact}\n");
    };
    let after = at + 1;
    let is_next = |line: &&str| line.starts_with("## ") || line.starts_with("# ");
    let section_len = lines.iter().skip(after).position(is_next).unwrap_or(lines.len() - after);
    let (head, rest) = lines.split_at(after + section_len);
    let filled = head.iter().rposition(|line| !line.trim().is_empty()).map_or(0, |last| last + 1);
    let line_end = if old.contains("\r\n") { "\r\n" } else { "\n" };
    let item = format!("- {fact}");
    let mut new: Vec<&str> = head.iter().take(filled).copied().collect();
    new.push(&item);
    if !rest.is_empty() {
        new.push("");
        new.extend(rest);
    }
    let mut text = new.join(line_end);
    text.push_str(line_end);
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn facts_are_appended_to_their_section() {
        let cases = [
            ("", "## Gemini Added Memories\n- f\n"),
            ("# Mine\nx\n", "# Mine\nx\n\n## Gemini Added Memories\n- f\n"),
            ("## Gemini Added Memories\n- a\n", "## Gemini Added Memories\n- a\n- f\n"),
            ("## Gemini Added Memories", "## Gemini Added Memories\n- f\n"),
            (
                "a\n\n## Gemini Added Memories\n- a\n\n\n## Other\nz\n",
                "a\n\n## Gemini Added Memories\n- a\n- f\n\n## Other\nz\n",
            ),
            ("## Gemini Added Memories\r\n- a\r\n", "## Gemini Added Memories\r\n- a\r\n- f\r\n"),
            (
                "see `## Gemini Added Memories`\n",
                "see `## Gemini Added Memories`\n\n## Gemini Added Memories\n- f\n",
            ),
        ];
        for (old, new) in cases {
            assert_eq!(with_fact(old, "f"), new, "{old:?}");
        }
    }

    #[test]
    fn a_fact_is_one_line_without_a_bullet() {
        assert_eq!(as_list_item(" - -- likes\n## Heading\r\n- tea\u{1b}[0m "), "likes ## Heading - tea [0m");
        assert_eq!(as_list_item("\n-\n"), "");
        assert_eq!(as_list_item("well-known"), "well-known");
        let fact = "@oauth_creds.json is (@b) of me@example.com @";
        assert_eq!(without_imports(fact), "\\@oauth_creds.json is (@b) of me@example.com \\@");
    }
}
