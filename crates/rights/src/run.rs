//! One command: its sandbox, the rights it asks for, and what is told about it afterwards.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use pollux_domain::approval::ApprovalAnswer;
use pollux_domain::sandbox::{
    Denial, Grant, GrantScope, GrantedBy, Right, RightKind, RightQuestion, SandboxReport, Strength,
};
use pollux_egress::variables::{Endpoint, ForCommand, SshConnector, variables};
use pollux_sandbox::{Level, Sandbox};
use tokio_util::sync::CancellationToken;

use crate::connect::ARGUMENT;
use crate::connect::PROXY_PORT;
use crate::denial::{self, FoundDenial, Scene};
use crate::desk::{Running, offers};
use crate::opening::{has_own_ssh, known_hosts};
use crate::session::SessionRights;

/// Questions that one command may raise, and runs that may follow.
const MAX_QUESTIONS: usize = 3;

/// A command that runs with the rights of a session.
pub struct CommandRun {
    rights: Arc<SessionRights>,
    id: String,
    command: String,
    directory: PathBuf,
    cancel: CancellationToken,
    sandbox: Arc<Sandbox>,
    once: Vec<Grant>,
    denials: Vec<Denial>,
    requested: Vec<Right>,
    granted: Vec<Grant>,
    questions: usize,
    rerun: bool,
}

impl SessionRights {
    /// Registers a command that is about to start.
    pub fn begin(
        self: &Arc<Self>,
        id: &str,
        command: &str,
        directory: &Path,
        cancel: &CancellationToken,
    ) -> CommandRun {
        let running = Running { id: id.to_owned(), command: command.to_owned(), cancel: cancel.clone() };
        self.desk.begin(running);
        if self.network().is_proxied() {
            self.desk.downloads.prepare();
        }
        let known_hosts = known_hosts(&self.desk.machine.home);
        with_connector(self.own_program().as_deref(), &known_hosts, |connector| {
            self.copies.make(&self.desk.machine, &known_hosts, connector);
        });
        CommandRun::new(Arc::clone(self), id, command, directory, cancel.clone())
    }
}

impl CommandRun {
    fn new(
        rights: Arc<SessionRights>,
        id: &str,
        command: &str,
        directory: &Path,
        cancel: CancellationToken,
    ) -> Self {
        Self {
            sandbox: rights.sandbox(),
            rights,
            id: id.to_owned(),
            command: command.to_owned(),
            directory: directory.to_owned(),
            cancel,
            once: Vec::new(),
            denials: Vec::new(),
            requested: Vec::new(),
            granted: Vec::new(),
            questions: 0,
            rerun: false,
        }
    }

    /// The sandbox to run it in.
    pub fn sandbox(&self) -> Arc<Sandbox> {
        Arc::clone(&self.sandbox)
    }

    /// Variables of this command beyond those of all of them; they replace others of the same name.
    pub fn variables(&self) -> Vec<(String, String)> {
        let git = self.rights.copies.of_git();
        let mut variables = vec![("GIT_CONFIG_GLOBAL".to_owned(), git.to_string_lossy().into_owned())];
        if !matches!(self.rights.level(), Level::Container(_)) {
            let set = |name: &str| self.rights.desk.machine.env.non_empty(name).is_some();
            variables.extend(missing_caches(&self.rights.desk.machine.home, set));
        }
        variables.extend(self.of_proxy());
        variables
    }

    /// Variables that only this program needs to find the proxy.
    fn of_proxy(&self) -> Vec<(String, String)> {
        if !self.rights.network().is_proxied() {
            return Vec::new();
        }
        let program = self.command.split_whitespace().next().and_then(|word| word.rsplit('/').next());
        let endpoint = Endpoint::inside(PROXY_PORT);
        let usual = variables(&endpoint, &ForCommand::default());
        let machine = &self.rights.desk.machine;
        let known_hosts = known_hosts(&machine.home);
        let connector = self.sandbox.own_program().filter(|_| !has_own_ssh(&machine.env));
        let own = with_connector(connector.as_deref(), &known_hosts, |ssh| {
            variables(&endpoint, &ForCommand { program, ssh: ssh.cloned() })
        });
        own.into_iter().filter(|variable| !usual.contains(variable)).collect()
    }

    /// Notes what the output of a run shows as refused.
    pub fn note_denials(&mut self, output: &str, failed: bool) {
        self.find(output, failed);
    }

    fn find(&mut self, output: &str, failed: bool) -> Vec<FoundDenial> {
        let request = &self.rights.request;
        let agent = denial::agent(&self.rights.desk.machine.env);
        let scene = Scene {
            sandbox: &self.sandbox,
            command: &self.command,
            directory: &self.directory,
            homes: &request.homes,
            own: &request.gemini_dir,
            agent: agent.as_deref(),
        };
        let found = denial::find(output, failed, &scene);
        for FoundDenial { denial, .. } in &found {
            if !self.denials.contains(denial) {
                self.denials.push(denial.clone());
            }
        }
        found
    }

    /// Asks for the rights that the output of a run shows as missing. Returns whether to run it again.
    pub async fn expand(&mut self, output: &str, failed: bool) -> bool {
        let mut granted = Vec::new();
        for found in self.find(output, failed) {
            let Some(right) = found.right.clone() else { continue };
            if let Some(grant) = self.ask(right, &found).await {
                granted.push(grant);
            }
        }
        if granted.is_empty() || self.cancel.is_cancelled() {
            return false;
        }
        self.apply(granted)
    }

    async fn ask(&mut self, right: Right, found: &FoundDenial) -> Option<Grant> {
        // What was granted is not what is missing.
        let is_granted = self.rights.grants().iter().any(|grant| grant.right == right);
        let known = is_granted || self.requested.contains(&right) || self.rights.is_refused(&right);
        let person = self.rights.desk.person()?;
        if known || self.questions >= MAX_QUESTIONS || self.cancel.is_cancelled() {
            return None;
        }
        self.questions += 1;
        self.requested.push(right.clone());
        let command = Some(self.command.clone());
        let question = RightQuestion {
            right: right.clone(),
            command,
            program: found.program.clone(),
            call: Some(self.id.clone()),
            note: found.note.clone(),
            rerun: true,
        };
        let has_project = self.rights.desk.has_project;
        let offers = offers(&right.target, found.danger.is_none(), has_project, None);
        let scope = match person.ask_right(question, found.danger.clone(), offers, &self.cancel).await {
            ApprovalAnswer::Once => GrantScope::Once,
            ApprovalAnswer::Session => GrantScope::Session,
            ApprovalAnswer::Project => GrantScope::Project,
            ApprovalAnswer::Saved => GrantScope::Always,
            ApprovalAnswer::SessionServer
            | ApprovalAnswer::Edited(_)
            | ApprovalAnswer::Refuse(_)
            | ApprovalAnswer::Cancel
            | ApprovalAnswer::Replies(_) => {
                self.rights.refuse(right);
                return None;
            }
        };
        // What was not offered counts for the session at most.
        let lasts = matches!(scope, GrantScope::Project | GrantScope::Always);
        let scope = if lasts && found.danger.is_some() { GrantScope::Session } else { scope };
        Some(Grant { right, scope, by: GrantedBy::User })
    }

    /// Gives the rights to the next run.
    fn apply(&mut self, granted: Vec<Grant>) -> bool {
        let lasting = granted.iter().any(|grant| grant.scope != GrantScope::Once);
        for grant in &granted {
            if grant.right.kind == RightKind::Write {
                // Only what exists can be written inside. If it cannot be created, the command is refused again.
                let _ = fs::create_dir_all(&grant.right.target);
            }
            if grant.scope == GrantScope::Once {
                self.rights.lend(&self.id, &grant.right);
                self.once.push(grant.clone());
            } else if let Some(error) = self.rights.keep(grant.clone()) {
                // The person is told with the result; the grant holds for the session.
                let rule = format!("could not save the grant: {error}");
                let kind = pollux_domain::sandbox::DenialKind::Limit;
                let target = grant.right.target.clone();
                self.denials.push(Denial { kind, target, port: None, strength: Strength::Certain, rule });
            }
        }
        let session = if lasting { self.rights.expand(&[]).ok() } else { None };
        let sandbox = if self.once.is_empty() { session } else { self.rights.expand(&self.once).ok() };
        let Some(sandbox) = sandbox else { return false };
        self.sandbox = sandbox;
        self.granted.extend(granted);
        self.rerun = true;
        true
    }

    /// Problems with the proxy and with saved grants since the last call, for the user.
    pub fn take_problems(&self) -> Vec<String> {
        self.rights.take_problems()
    }

    /// What the sandbox refused and what was granted. Ends the rights of this command.
    pub fn finish(mut self) -> SandboxReport {
        let mut denials = self.rights.network_denials(&self.id);
        denials.append(&mut self.denials);
        let asked = self.rights.desk.asked_by(&self.id);
        self.requested.extend(asked.iter().map(|asked| asked.right.clone()));
        self.granted.extend(asked.into_iter().filter_map(|asked| asked.granted));
        self.rights.record(&self.command, &denials);
        SandboxReport {
            level: self.rights.level().as_str().to_owned(),
            mode: self.rights.profile().as_str().to_owned(),
            network: self.rights.network().as_str().to_owned(),
            denials,
            requested: std::mem::take(&mut self.requested),
            granted: std::mem::take(&mut self.granted),
            rerun: self.rerun,
            tripwire: Vec::new(),
            hosts: self.rights.take_hosts(&self.id),
        }
    }
}

/// Calls back with the way that ssh takes through the proxy, if this program can be seen inside.
fn with_connector<T>(
    program: Option<&Path>,
    known_hosts: &Path,
    then: impl FnOnce(Option<&SshConnector<'_>>) -> T,
) -> T {
    let known_hosts = known_hosts.to_string_lossy();
    let program = program.map(Path::to_string_lossy);
    let command = program.as_deref().map(|program| [program, ARGUMENT]);
    let connector = command.as_ref().map(|command| SshConnector { command, known_hosts: &known_hosts });
    then(connector.as_ref())
}

/// Caches below the home that package managers create, the variables that name others, and those.
const CACHES: &[(&str, &str, &str)] = &[
    (".npm", "npm_config_cache", "npm"),
    (".cache", "XDG_CACHE_HOME", "cache"),
    (".local/share/pnpm", "npm_config_store_dir", "pnpm"),
    ("go", "GOPATH", "go"),
    (".gradle", "GRADLE_USER_HOME", "gradle"),
    (".bun", "BUN_INSTALL_CACHE_DIR", "bun"),
];

/// Variables for caches that do not exist: they cannot be created in the home, and a folder for temporary files will do.
fn missing_caches(home: &Path, is_set: impl Fn(&str) -> bool) -> Vec<(String, String)> {
    let missing = CACHES.iter().filter(|(folder, name, _)| !home.join(folder).exists() && !is_set(name));
    missing.map(|(_, name, cache)| ((*name).to_owned(), format!("/tmp/.sandbox-caches/{cache}"))).collect()
}

impl Drop for CommandRun {
    fn drop(&mut self) {
        self.rights.desk.end(&self.id);
        self.once.iter().for_each(|grant| self.rights.give_back(&self.id, &grant.right));
    }
}
