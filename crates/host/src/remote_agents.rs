//! Remote agents: connections and credential commands.

use std::ffi::OsString;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use pollux_a2a::{RunCommand, Setup, remote_agent};
use pollux_config::env::Env;
use pollux_domain::remote_agent::{RemoteAgent, RemoteTarget};
use pollux_exec::background::Background;
use pollux_exec::program::{Program, ProgramEnding, run};
use tokio_util::sync::CancellationToken;

use super::{Loaded, mcp};

/// Time and output limits of a credential command.
const COMMAND_LIMIT: Duration = Duration::from_secs(60);
const MAX_PRINTED: usize = 64 * 1024;

/// Creates the remote agents of one conversation.
pub(super) struct RemoteAgents<'a> {
    loaded: &'a Loaded,
    background: &'a Arc<Background>,
    /// Created on first use: for the user's own agents, and for those of projects and extensions.
    own: OnceLock<Arc<Setup>>,
    others: OnceLock<Arc<Setup>>,
}

impl<'a> RemoteAgents<'a> {
    /// Opens nothing.
    pub(super) fn new(loaded: &'a Loaded, background: &'a Arc<Background>) -> Self {
        Self { loaded, background, own: OnceLock::new(), others: OnceLock::new() }
    }

    /// An agent that connects on its first call.
    pub(super) fn agent(&self, target: RemoteTarget, is_users_own: bool) -> Arc<dyn RemoteAgent> {
        let slot = if is_users_own { &self.own } else { &self.others };
        let setup = slot.get_or_init(|| {
            let sign_in = mcp::sign_in(self.loaded);
            let env = if is_users_own { self.loaded.env.clone() } else { self.loaded.lent_env() };
            Arc::new(Setup {
                http: sign_in.http,
                user_home: sign_in.user_home,
                clock: sign_in.clock,
                oauth: sign_in.oauth,
                run: commands(self.loaded, &env, self.background),
                env,
            })
        });
        remote_agent(target, Arc::clone(setup))
    }
}

/// Runs `!command` of a definition. It fetches a secret for Pollux, so credentials are not removed.
fn commands(loaded: &Loaded, env: &Env, background: &Arc<Background>) -> RunCommand {
    let environment: Vec<(String, String)> =
        env.iter().map(|(name, value)| (name.to_owned(), value.to_owned())).collect();
    let (directory, background) = (loaded.project.root().to_path_buf(), Arc::clone(background));
    Arc::new(move |command: String| {
        let program = Program {
            program: OsString::from("bash"),
            arguments: vec!["-c".to_owned(), command],
            directory: directory.clone(),
            environment: environment.clone(),
            input: Vec::new(),
            time_limit: Some(COMMAND_LIMIT),
            output_limit: MAX_PRINTED,
            sandbox: None,
        };
        let background = Arc::clone(&background);
        Box::pin(async move {
            // The caller drops this future to stop waiting.
            let ended = run(&program, &background, &CancellationToken::new()).await;
            let ended = ended.map_err(|error| format!("could not start it: {error}"))?;
            // Its output may contain the secret, so only the exit status is reported.
            match ended.ending {
                ProgramEnding::Exited(0) => {
                    String::from_utf8(ended.stdout).map_err(|_| "it printed no text".to_owned())
                }
                ProgramEnding::Exited(code) => Err(format!("it exited with code {code}")),
                ProgramEnding::Signalled(signal) => Err(format!("it was killed by signal {signal}")),
                ProgramEnding::TimedOut => Err("it timed out".to_owned()),
                ProgramEnding::TooMuchOutput => Err("it printed too much".to_owned()),
                ProgramEnding::Cancelled => Err("it was cancelled".to_owned()),
            }
        })
    })
}
