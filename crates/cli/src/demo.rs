//! `pollux demo`: Pollux on a throwaway project with a scripted model, or with a real one on this machine.
//!
//! Without `--model` the model's responses come from a script; agent, tools, approvals and recorder are real. Nothing
//! outside the given folder is touched: it holds both the demo's project and its home.

pub(crate) mod local;

use std::fs::File;
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use pollux_config::groups::OutputFormat;
use pollux_diff::LineDiff;
use pollux_domain::approval::ApprovalMode;
use serde_json::Value;

/// The prompt of the demo.
pub(crate) const PROMPT: &str =
    "The total in this project is wrong: test.sh fails. Find the cause and fix it.";

/// Edits need no approval in the demo, and one command is allowed by name.
pub(crate) const APPROVAL: ApprovalMode = ApprovalMode::AutoEdit;
pub(crate) const ALLOWED_TOOLS: &[&str] = &["run_shell_command(sh test.sh)"];

const PROGRAM: &str = include_str!("demo/total.sh");
const TEST: &str = include_str!("demo/test.sh");
const REPLIES: &str = include_str!("demo/replies.jsonl");
/// The missing newline at the end is the bug to find, so no editor may add one.
const PRICES: &str = "12\n8\n15\n7";

/// The folders and files of one demo.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct DemoWorkspace {
    /// The project in which the agent works.
    pub(crate) project: PathBuf,
    /// Replaces the user's home, so that the user's settings and sessions have no effect.
    pub(crate) home: PathBuf,
    /// The scripted model, in the format of `--fake-responses`.
    pub(crate) replies: PathBuf,
    /// This program, for commands that work where it is not installed.
    pub(crate) program: PathBuf,
}

/// Writes the demo's files into `dir`.
pub(crate) fn prepare(dir: &Path) -> io::Result<DemoWorkspace> {
    let workspace = DemoWorkspace {
        project: dir.join("project"),
        home: dir.join("home"),
        replies: dir.join("replies.jsonl"),
        program: std::env::current_exe().unwrap_or_else(|_| PathBuf::from("pollux")),
    };
    std::fs::create_dir_all(&workspace.project)?;
    std::fs::create_dir_all(&workspace.home)?;
    put(&workspace.project.join("total.sh"), PROGRAM)?;
    put(&workspace.project.join("test.sh"), TEST)?;
    put(&workspace.project.join("prices.txt"), PRICES)?;
    put(&workspace.replies, REPLIES)?;
    Ok(workspace)
}

fn put(path: &Path, text: &str) -> io::Result<()> {
    File::create(path)?.write_all(text.as_bytes())
}

impl DemoWorkspace {
    /// Writes the settings of the demo's own home.
    pub(crate) fn settings(&self, settings: &Value) -> io::Result<()> {
        let folder = self.home.join(".gemini");
        std::fs::create_dir_all(&folder)?;
        put(&folder.join("settings.json"), &settings.to_string())
    }

    /// What the agent changed in the program, as a unified diff; empty if nothing.
    pub(crate) fn diff(&self) -> io::Result<String> {
        let now = std::fs::read_to_string(self.project.join("total.sh"))?;
        let diff = LineDiff::new(PROGRAM, &now, None);
        Ok(diff.unified(1, "total.sh (before)", "total.sh (after)"))
    }

    fn command(&self, rest: &str) -> String {
        let project = quoted(&self.project);
        let home = quoted(&self.home);
        let program = quoted(&self.program);
        format!("cd {project} && GEMINI_CLI_HOME={home} {program} {rest}")
    }
}

/// A path as a shell takes it.
fn quoted(path: &Path) -> String {
    let text = path.display().to_string();
    let plain = text.chars().all(|c| c.is_ascii_alphanumeric() || "/._-".contains(c));
    if plain { text } else { format!("'{}'", text.replace('\'', r"'\''")) }
}

/// Where the demo's prose goes: with machine-readable output, stdout is reserved for the events.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ProseTo {
    Stdout,
    Stderr,
}

impl ProseTo {
    pub(crate) fn with(format: OutputFormat) -> Self {
        match format {
            OutputFormat::Text => Self::Stdout,
            OutputFormat::Json | OutputFormat::StreamJson => Self::Stderr,
        }
    }
}

const SCRIPTED: &str = "\
The model is scripted: its responses and tool calls were written in advance, so the demo needs no key and no
network. Everything else is real: the agent runs the tools on real files, checks every call against the
approval rules, and records the session.";

/// The text before the agent starts; `model` is a real one.
pub(crate) fn introduction(workspace: &DemoWorkspace, model: Option<&str>) -> String {
    let about = match model {
        None => SCRIPTED.to_owned(),
        Some(model) => format!(
            "The model is real and runs on this machine. Nothing is scripted, so a small model may well fail. The first
reply can take minutes.

  model      {model}"
        ),
    };
    format!(
        "\
This is a demo of Pollux on a throwaway project.

{about}

  project    {}
  approvals  {APPROVAL}: edits are allowed, and the command `sh test.sh`
  prompt     {PROMPT}

",
        workspace.project.display()
    )
}

/// The text above the screen.
pub(crate) fn screen_introduction(workspace: &DemoWorkspace) -> String {
    format!(
        "\
This is a demo of Pollux on a throwaway project. The model is scripted, so it needs no key and no network; tools,
approvals and files are real. You will be asked to approve one change. /quit or Ctrl+C twice leaves.

  project    {}
",
        workspace.project.display()
    )
}

/// The text below the screen.
pub(crate) fn screen_conclusion(workspace: &DemoWorkspace, diff: &str) -> String {
    let diff = if diff.is_empty() { "(total.sh did not change)\n" } else { diff };
    format!(
        "
What changed on disk:

{diff}
List the sessions of the demo:

  {}

In your own project, run `{}`. To remove the demo, delete
  {}
",
        workspace.command("--list-sessions"),
        quoted(&workspace.program),
        workspace.project.parent().unwrap_or(&workspace.project).display(),
    )
}

/// The text after the agent is done.
pub(crate) fn conclusion(
    workspace: &DemoWorkspace,
    diff: &str,
    session_id: &str,
    session_file: Option<&Path>,
) -> String {
    let diff = if diff.is_empty() { "(total.sh did not change)\n" } else { diff };
    let file = session_file.map_or_else(|| "(not recorded)".to_owned(), |path| path.display().to_string());
    let program = quoted(&workspace.program);
    format!(
        "
What changed on disk:

{diff}
The whole session, with every tool call and result, is in

  {file}

List the sessions of this project, or resume this one (with a real model, so it needs a key):

  {}
  {}

In your own project, run `{program} -p \"…\"`. To remove the demo, delete
  {}
",
        workspace.command("--list-sessions"),
        workspace.command(&format!("--resume {session_id} -p \"Explain the fix once more\"")),
        workspace.project.parent().unwrap_or(&workspace.project).display(),
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::process::Command;

    /// The calls of the script, in order.
    fn scripted_calls() -> Vec<(String, Value)> {
        let mut calls = Vec::new();
        for line in REPLIES.lines() {
            let line: Value = serde_json::from_str(line).unwrap();
            assert_eq!(line["method"], "generateContentStream");
            let chunks = line["response"].as_array().unwrap();
            let last = chunks.last().unwrap();
            assert_eq!(last["candidates"][0]["finishReason"], "STOP");
            assert!(last["usageMetadata"]["totalTokenCount"].is_u64());
            for chunk in chunks {
                for part in chunk["candidates"][0]["content"]["parts"].as_array().unwrap() {
                    if let Some(call) = part.get("functionCall") {
                        calls.push((call["name"].as_str().unwrap().to_owned(), call["args"].clone()));
                    }
                }
            }
        }
        calls
    }

    fn test_passes(workspace: &DemoWorkspace) -> (bool, String) {
        let output = Command::new("sh").arg("test.sh").current_dir(&workspace.project).output().unwrap();
        (output.status.success(), String::from_utf8(output.stdout).unwrap())
    }

    #[test]
    fn the_script_reads_fixes_and_tests_and_its_fix_works() {
        let dir = tempfile::tempdir().unwrap();
        let workspace = prepare(dir.path()).unwrap();
        assert_eq!(test_passes(&workspace), (false, "FAILED: the total is 35, not 42\n".to_owned()));

        let calls = scripted_calls();
        let names: Vec<&str> = calls.iter().map(|(name, _)| name.as_str()).collect();
        assert_eq!(names, ["read_file", "read_file", "read_file", "replace", "run_shell_command"]);
        let edit = &calls[3].1;
        let (old, new) = (edit["old_string"].as_str().unwrap(), edit["new_string"].as_str().unwrap());
        assert_eq!(PROGRAM.matches(old).count(), 1);
        put(&workspace.project.join("total.sh"), &PROGRAM.replace(old, new)).unwrap();
        assert_eq!(test_passes(&workspace), (true, "ok: the total is 42\n".to_owned()));

        let command = calls[4].1["command"].as_str().unwrap();
        assert_eq!(ALLOWED_TOOLS, [format!("run_shell_command({command})")]);
    }

    #[test]
    fn the_diff_shows_the_one_changed_line() {
        let dir = tempfile::tempdir().unwrap();
        let workspace = prepare(dir.path()).unwrap();
        assert_eq!(workspace.diff().unwrap(), "");
        put(&workspace.project.join("total.sh"), &PROGRAM.replace("sum=0", "sum=1")).unwrap();
        let diff = workspace.diff().unwrap();
        assert!(diff.contains("-sum=0\n+sum=1\n"), "{diff}");
    }

    #[test]
    fn the_prose_is_honest_and_gives_commands_that_can_be_pasted() {
        let workspace = DemoWorkspace {
            project: "/tmp/a b/project".into(),
            home: "/tmp/h".into(),
            replies: "/tmp/r".into(),
            program: "/bin/pollux".into(),
        };
        assert!(introduction(&workspace, None).contains("The model is scripted"));
        let real = introduction(&workspace, Some("gguf//m.gguf"));
        assert!(
            real.contains("The model is real")
                && real.contains("gguf//m.gguf")
                && !real.contains("is scripted:")
        );
        let text = conclusion(&workspace, "", "s-1", Some(Path::new("/tmp/h/s.json")));
        assert!(
            text.contains("cd '/tmp/a b/project' && GEMINI_CLI_HOME=/tmp/h /bin/pollux --list-sessions\n")
        );
        assert!(text.contains("--resume s-1 ") && text.contains("  /tmp/h/s.json\n"));
    }

    #[test]
    fn prose_leaves_stdout_to_the_protocol() {
        assert_eq!(ProseTo::with(OutputFormat::Text), ProseTo::Stdout);
        assert_eq!(ProseTo::with(OutputFormat::StreamJson), ProseTo::Stderr);
    }
}
