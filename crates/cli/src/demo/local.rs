//! The demo with a real model on this machine, and a report that does not flatter it.

use std::path::{Path, PathBuf};

use pollux_config::env::Env;
use pollux_domain::exit::ExitKind;
use pollux_domain::failure::Failure;
use serde_json::{Value, json};

/// Providers that need neither a key nor the network.
const PROVIDERS: &[&str] = &["gguf", "llamacpp", "lmstudio", "ollama", "vllm"];
/// Where `scripts/local-model.sh` puts a model and a server, below a checkout.
const INSTALLED: &str = "target/local-model";
/// A small model may go round in circles.
const MAX_REQUESTS: u64 = 8;
const MAX_OUTPUT: u64 = 400;

/// The model of a demo that is not scripted.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct LocalModel {
    /// As `--model` takes it.
    pub(crate) name: String,
    /// The settings of the demo's own home.
    pub(crate) settings: Value,
}

/// Finds the model that `--model` means.
pub(crate) fn find(wanted: &str, env: &Env) -> Result<LocalModel, Failure> {
    let (provider, model) = wanted.split_once('/').unwrap_or((wanted, ""));
    if wanted == "local" {
        let folder = env.cwd().join(INSTALLED);
        let file = installed(&folder).ok_or_else(|| {
            Failure::new(ExitKind::Config, "no local model is installed").hint(
                "run scripts/local-model.sh in a checkout of Pollux, or name a model: \
                 --model gguf//path/model.gguf, --model ollama/NAME",
            )
        })?;
        return Ok(served(&file, Some(&folder.join("bin/llama-server"))));
    }
    if !PROVIDERS.contains(&provider) || model.is_empty() {
        let text = format!("the demo runs only with a model on this machine, not with `{wanted}`");
        return Err(Failure::new(ExitKind::Input, text)
            .hint("use --model local, --model gguf//path/model.gguf or --model ollama/NAME"));
    }
    if provider == "gguf" {
        return Ok(served(&env.cwd().join(model), None));
    }
    Ok(LocalModel { name: wanted.to_owned(), settings: settings(provider) })
}

fn installed(folder: &Path) -> Option<PathBuf> {
    let files = std::fs::read_dir(folder).ok()?.flatten().map(|entry| entry.path());
    files.filter(|file| file.extension().is_some_and(|end| end == "gguf")).min()
}

fn served(file: &Path, server: Option<&Path>) -> LocalModel {
    let mut settings = settings("gguf");
    if let Some(server) = server {
        settings["local"] = json!({"serverCommand": [server]});
    }
    LocalModel { name: format!("gguf/{}", file.display()), settings }
}

/// Limits, so that the demo ends whatever the model does.
fn settings(provider: &str) -> Value {
    let mut settings = json!({"model": {"maxSessionTurns": MAX_REQUESTS}, "providers": {}});
    settings["providers"][provider] = json!({"extraBody": {"max_tokens": MAX_OUTPUT}});
    settings
}

/// How it went, from the recorded session: what was called, and whether the bug is gone.
pub(crate) fn report(model: &str, session_file: Option<&Path>, changed: bool, seconds: u64) -> String {
    let session = session_file.and_then(|file| std::fs::read_to_string(file).ok());
    let session: Value = session.and_then(|text| serde_json::from_str(&text).ok()).unwrap_or_default();
    let messages = session["messages"].as_array().map(Vec::as_slice).unwrap_or_default();
    let replies = messages.iter().filter(|message| message["type"] == "gemini").count();
    let calls: Vec<&Value> =
        messages.iter().flat_map(|message| message["toolCalls"].as_array().into_iter().flatten()).collect();
    let worked = calls.iter().filter(|call| call["status"] == "success").count();
    let tested = calls.iter().rev().find(|call| call["name"] == "run_shell_command");
    let verdict = match (changed, tested.is_some_and(|call| call["status"] == "success")) {
        (true, true) => "It changed total.sh, and the last command it ran succeeded.",
        (true, false) => {
            "It changed total.sh but did not run the test successfully; run `sh test.sh` there to check."
        }
        (false, _) => "It did not change total.sh, so the bug is still there.",
    };
    format!(
        "
How {model} did, in {seconds} s: {replies} replies, {} tool calls, {worked} of them successful.
{verdict}
",
        calls.len(),
    )
}

#[cfg(test)]
mod tests {
    #![allow(clippy::disallowed_methods, reason = "scratch files need no care")]

    use super::*;

    #[test]
    fn only_models_on_this_machine_are_taken() {
        let folder = tempfile::tempdir().unwrap();
        let env = Env::new([], folder.path().to_path_buf());
        let name = |wanted: &str| find(wanted, &env).map(|model| model.name);
        assert_eq!(name("ollama/qwen3").unwrap(), "ollama/qwen3");
        assert_eq!(name("gguf//m/a.gguf").unwrap(), "gguf//m/a.gguf");
        assert_eq!(name("gguf/a.gguf").unwrap(), format!("gguf/{}/a.gguf", folder.path().display()));
        for remote in ["anthropic/claude-x", "gemini-2.5-pro", "ollama", "ollama/", ""] {
            assert_eq!(name(remote).unwrap_err().exit, ExitKind::Input, "{remote}");
        }
        assert_eq!(name("local").unwrap_err().exit, ExitKind::Config);
        std::fs::create_dir_all(folder.path().join(INSTALLED)).unwrap();
        std::fs::write(folder.path().join(INSTALLED).join("m.gguf"), "").unwrap();
        let found = find("local", &env).unwrap();
        assert!(found.name.ends_with("target/local-model/m.gguf"), "{}", found.name);
        let server = found.settings["local"]["serverCommand"][0].as_str().unwrap();
        assert!(server.ends_with("target/local-model/bin/llama-server"), "{server}");
    }

    #[test]
    fn the_report_says_what_happened() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("s.json");
        let call = |name: &str, status: &str| json!({"name": name, "status": status});
        let calls = json!([call("replace", "success"), call("run_shell_command", "error")]);
        let session = json!({"messages": [{"type": "user"}, {"type": "gemini", "toolCalls": calls}, {"type": "gemini"}]});
        std::fs::write(&file, session.to_string()).unwrap();
        let text = report("m", Some(&file), true, 7);
        assert!(text.contains("How m did, in 7 s: 2 replies, 2 tool calls, 1 of them successful."), "{text}");
        assert!(text.contains("did not run the test successfully"), "{text}");
        assert!(report("m", None, false, 0).contains("0 replies, 0 tool calls"));
        assert!(report("m", None, false, 0).contains("the bug is still there"));
    }
}
