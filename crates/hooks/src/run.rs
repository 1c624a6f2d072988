//! Runs one hook to its end, within limits.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use pollux_domain::JsonObject;
use pollux_domain::terminal_text::plain;
use pollux_exec::program::{Excess, Program, ProgramEnd, ProgramEnding, run_with};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use crate::answer::{Decision, HookAnswer, HookOutput, cut, read};
use crate::command_line::quoted;
use crate::definition::Hook;
use crate::ending::HookEnding;
use crate::scene::{HookScene, HookServices};

/// So much of stdout and of stderr is read; a request with a long history fits.
const MAX_OUTPUT: usize = 8 << 20;
/// Limit of each stream that is kept for display.
const MAX_SHOWN: usize = 64 << 10;

/// Variables that every hook gets.
const VARIABLES: [&str; 5] =
    ["GEMINI_PROJECT_DIR", "GEMINI_CWD", "CLAUDE_PROJECT_DIR", "GEMINI_SESSION_ID", "GEMINI_PLANS_DIR"];

/// A hook that ran.
#[derive(Debug, Clone)]
pub struct HookRun {
    pub hook: Arc<Hook>,
    /// Its input.
    pub input: JsonObject,
    pub ending: HookEnding,
    pub duration: Duration,
    /// Its beginning, without control sequences.
    pub stdout: String,
    /// Its beginning, without control sequences.
    pub stderr: String,
    pub answer: HookAnswer,
    /// The problem, without the hook's name.
    pub warning: Option<String>,
    /// It was run again, because another hook changed the arguments it had judged.
    pub again: bool,
}

impl HookRun {
    /// Whether it ended in order; as upstream's telemetry has it.
    pub fn success(&self) -> bool {
        self.ending == HookEnding::Exited(0)
    }

    /// The code that it ended with.
    pub fn exit_code(&self) -> Option<i32> {
        match self.ending {
            HookEnding::Exited(code) => Some(code),
            HookEnding::Signalled(_)
            | HookEnding::TimedOut { .. }
            | HookEnding::Cancelled
            | HookEnding::NotStarted(_)
            | HookEnding::Failed(_) => None,
        }
    }
}

/// Runs a hook with this input.
pub(crate) async fn run(
    hook: &Arc<Hook>,
    input: JsonObject,
    scene: &HookScene,
    services: &HookServices,
    cancel: &CancellationToken,
    call: Option<&str>,
) -> HookRun {
    let started = Instant::now();
    let changed = hook.scripts.changed();
    let (ending, stdout, stderr) = match &hook.callback {
        Some(callback) => {
            let (ending, answer) = callback.call(hook, call, &input, cancel).await;
            (ending, answer, Vec::new())
        }
        None => match changed {
            None => started_and_ended(hook, &input, scene, services, cancel).await,
            Some(file) => (HookEnding::NotStarted(why_not(file, scene)), Vec::new(), Vec::new()),
        },
    };
    let cut_off = stdout.len() > MAX_OUTPUT || stderr.len() > MAX_OUTPUT;
    let (stdout, stderr) = (String::from_utf8_lossy(&stdout), String::from_utf8_lossy(&stderr));
    let mut reading = read(&HookOutput { ending: &ending, stdout: &stdout, stderr: &stderr, cut: cut_off });
    // A model could switch a guard off by changing it.
    let is_required = hook.required || hook.event.can_block() && changed.is_some();
    if reading.failed && is_required && reading.answer.decision < Decision::Deny {
        let required = if hook.required { "required " } else { "" };
        let why = reading.warning.clone().unwrap_or_else(|| format!("failed: {ending}"));
        reading.answer.decision = Decision::Deny;
        reading.answer.reason = Some(format!("The {required}hook `{}` {why}", plain(hook.title())));
    }
    HookRun {
        hook: Arc::clone(hook),
        input,
        duration: started.elapsed(),
        stdout: shown(&stdout),
        stderr: shown(&stderr),
        answer: reading.answer,
        warning: reading.warning,
        again: false,
        ending,
    }
}

fn why_not(file: &Path, scene: &HookScene) -> String {
    let file = file.strip_prefix(&scene.cwd).unwrap_or(file).display().to_string();
    format!("`{}` changed in this session; restart Pollux to review and use it", plain(&file))
}

async fn started_and_ended(
    hook: &Hook,
    input: &JsonObject,
    scene: &HookScene,
    services: &HookServices,
    cancel: &CancellationToken,
) -> (HookEnding, Vec<u8>, Vec<u8>) {
    let not_started = |why: String| (HookEnding::NotStarted(why), Vec::new(), Vec::new());
    if cancel.is_cancelled() {
        return (HookEnding::Cancelled, Vec::new(), Vec::new());
    }
    if !scene.cwd.is_dir() {
        return not_started(format!("folder `{}` does not exist", scene.cwd.display()));
    }
    let input = match serde_json::to_vec(input) {
        Ok(input) => input,
        Err(error) => return not_started(error.to_string()),
    };
    let variables: Vec<&str> = hook.variables.iter().map(String::as_str).collect();
    let mut program = Program {
        program: "bash".into(),
        arguments: vec!["-c".to_owned(), quoted(&hook.command, &VARIABLES, &variables)],
        directory: scene.cwd.clone(),
        environment: environment(hook, scene, services),
        input,
        time_limit: Some(hook.timeout),
        // One more than allowed shows that the limit was exceeded.
        output_limit: MAX_OUTPUT + 1,
        sandbox: None,
    };
    let mut ended = run_with(&program, Excess::Dropped, &services.background, cancel).await;
    if ended.as_ref().is_err_and(|error| error.kind() == std::io::ErrorKind::NotFound) {
        // Small systems have no bash.
        program.program = "/bin/sh".into();
        ended = run_with(&program, Excess::Dropped, &services.background, cancel).await;
    }
    match ended {
        Ok(ProgramEnd { ending, stdout, stderr }) => {
            let ending = match ending {
                ProgramEnding::Exited(code) => HookEnding::Exited(code),
                ProgramEnding::Signalled(signal) => HookEnding::Signalled(signal),
                ProgramEnding::Cancelled => HookEnding::Cancelled,
                ProgramEnding::TimedOut => HookEnding::TimedOut { after_ms: hook.timeout.as_millis() },
                // Output is dropped instead.
                ProgramEnding::TooMuchOutput => HookEnding::NotStarted("it printed too much".to_owned()),
            };
            (ending, stdout, stderr)
        }
        Err(error) => not_started(error.to_string()),
    }
}

fn environment(hook: &Hook, scene: &HookScene, services: &HookServices) -> Vec<(String, String)> {
    let cwd = scene.cwd.display().to_string();
    let plans = scene.plans_dir.as_ref().map(|folder: &PathBuf| folder.display().to_string());
    let values = [cwd.clone(), cwd.clone(), cwd, scene.session_id.clone(), plans.unwrap_or_default()];
    let own = VARIABLES.iter().map(|name| (*name).to_owned()).zip(values);
    services.environment.iter().cloned().chain(own).chain(hook.env.iter().cloned()).collect()
}

fn shown(text: &str) -> String {
    let beginning = text.get(..text.floor_char_boundary(2 * MAX_SHOWN)).unwrap_or(text);
    cut(plain(beginning).trim_end().to_owned(), MAX_SHOWN)
}
