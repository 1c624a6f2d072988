//! Finds the core, or starts it.

use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use pollux_config::env::Env;
use pollux_domain::exit::ExitKind;
use pollux_domain::failure::Failure;

use crate::client::Client;
use crate::environment::core_environment;
use crate::log::append;
use crate::place::CorePlace;

/// How long a core may take to answer after its start, as long as its process lives.
const READY: Duration = Duration::from_secs(60);
/// How long another core may take to answer after the process has ended.
const OTHER_READY: Duration = Duration::from_secs(1);
const PAUSE: Duration = Duration::from_millis(10);

/// Connects to the core; `None` if it does not run. `kind` names the front end.
pub async fn connect(env: &Env, kind: &str) -> Result<Option<Client>, Failure> {
    Client::connect(&CorePlace::of(env)?, kind).await.map_err(|unusable| unusable.failure)
}

/// Connects to the core, which is started if it does not run.
pub async fn connect_or_start(env: &Env, kind: &str) -> Result<Client, Failure> {
    start(env, kind).await.map(|(client, _)| client)
}

/// The same; also whether it was started.
pub(crate) async fn start(env: &Env, kind: &str) -> Result<(Client, bool), Failure> {
    if let Some(client) = connect(env, kind).await? {
        return Ok((client, false));
    }
    let place = CorePlace::of(env)?;
    place.prepare()?;
    let log = place.log_file();
    let before = std::fs::metadata(&log).map_or(0, |data| data.len());
    let mut child = spawn(&place, env)?;
    let began = Instant::now();
    let mut ended = None;
    loop {
        if let Some(client) = connect(env, kind).await? {
            if client.welcome.pid != child.id() {
                // Another start was faster. Left alone, ours could become the core once the other has stopped.
                let _ = child.kill();
                let _ = child.wait();
            }
            return Ok((client, true));
        }
        // One that ended may have lost against another start, which is about to answer.
        if ended.is_none() && child.try_wait().is_ok_and(|status| status.is_some()) {
            ended = Some(Instant::now());
        }
        let is_late = match ended {
            Some(ended) => ended.elapsed() > OTHER_READY,
            None => began.elapsed() > READY,
        };
        if is_late {
            let said = std::fs::read_to_string(&log).unwrap_or_default();
            let said = said.get(usize::try_from(before).unwrap_or(0)..).unwrap_or_default();
            let last = said.lines().rfind(|line| !line.trim().is_empty()).map(str::to_owned);
            let mut failure = Failure::new(ExitKind::Failure, "the core did not start")
                .hint("run `pollux core logs` to see why");
            failure.causes.extend(last);
            return Err(failure);
        }
        tokio::time::sleep(PAUSE).await;
    }
}

fn spawn(place: &CorePlace, env: &Env) -> Result<Child, Failure> {
    let failed =
        |error: &std::io::Error| Failure::new(ExitKind::Failure, "could not start the core").because(error);
    let program = program().map_err(|error| failed(&error))?;
    let log = append(&place.log_file()).ok_or_else(|| {
        Failure::new(ExitKind::Failure, format!("could not open `{}`", place.log_file().display()))
    })?;
    let other = log.try_clone().map_err(|error| failed(&error))?;
    Command::new(program)
        .args(["core", "run", "--detached"])
        .env_clear()
        .envs(core_environment(env))
        .current_dir("/")
        .stdin(Stdio::null())
        .stdout(log)
        .stderr(other)
        .spawn()
        .map_err(|error| failed(&error))
}

/// This program; its new version if it was replaced while it runs.
fn program() -> std::io::Result<PathBuf> {
    let path = std::env::current_exe()?;
    let text = path.to_string_lossy();
    Ok(text.strip_suffix(" (deleted)").map_or_else(|| path.clone(), PathBuf::from))
}
