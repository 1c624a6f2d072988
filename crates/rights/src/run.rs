//! One command: its sandbox, the rights it asks for, and what is told about it afterwards.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use pollux_domain::approval::Answer;
use pollux_domain::sandbox::{
    Denial, Grant, GrantScope, GrantedBy, Right, RightQuestion, SandboxReport, Strength,
};
use pollux_egress::variables::{Endpoint, ForCommand, SshConnector, variables};
use pollux_sandbox::Sandbox;
use tokio_util::sync::CancellationToken;

use crate::connect::ARGUMENT;
use crate::denial::{self, Found, Scene};
use crate::desk::offers;
use crate::gate::PROXY_PORT;
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

impl CommandRun {
    pub(crate) fn new(
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

    /// Variables that only this program needs to find the proxy.
    pub fn variables(&self) -> Vec<(String, String)> {
        if !self.rights.network().is_proxied() {
            return Vec::new();
        }
        let program = self.command.split_whitespace().next().and_then(|word| word.rsplit('/').next());
        let endpoint = Endpoint::inside(PROXY_PORT);
        let usual = variables(&endpoint, &ForCommand::default());
        let connector = self.sandbox.own_program().map(|program| program.to_string_lossy().into_owned());
        let command = connector.as_ref().map(|program| [program.as_str(), ARGUMENT]);
        let known_hosts = self.rights.known_hosts.as_ref().map(|file| file.to_string_lossy());
        let ssh = command.as_ref().zip(known_hosts.as_ref());
        let ssh = ssh.map(|(command, known_hosts)| SshConnector { command, known_hosts });
        let own = variables(&endpoint, &ForCommand { program, ssh });
        own.into_iter().filter(|variable| !usual.contains(variable)).collect()
    }

    /// Asks for the rights that the output of a failed run shows as missing. Returns whether to run it again.
    pub async fn expand(&mut self, output: &str) -> bool {
        let request = &self.rights.request;
        let scene = Scene {
            sandbox: &self.sandbox,
            command: &self.command,
            directory: &self.directory,
            homes: &request.homes,
            own: &request.gemini_dir,
        };
        let mut granted = Vec::new();
        for found in denial::find(output, &scene) {
            if !self.denials.contains(&found.denial) {
                self.denials.push(found.denial.clone());
            }
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

    async fn ask(&mut self, right: Right, found: &Found) -> Option<Grant> {
        let known = self.requested.contains(&right) || self.rights.is_refused(&right);
        let person = self.rights.desk.person()?;
        if known || self.questions >= MAX_QUESTIONS || self.cancel.is_cancelled() {
            return None;
        }
        self.questions += 1;
        self.requested.push(right.clone());
        let command = Some(self.command.clone());
        let question = RightQuestion { right: right.clone(), command, rerun: true };
        let has_project = self.rights.desk.has_project;
        let offers = offers(&right.target, found.danger.is_none(), has_project, None);
        let scope = match person.ask_right(question, found.danger.clone(), offers, &self.cancel).await {
            Answer::Once => GrantScope::Once,
            Answer::Session => GrantScope::Session,
            Answer::Project => GrantScope::Project,
            Answer::Saved => GrantScope::Always,
            Answer::SessionServer
            | Answer::Edited(_)
            | Answer::Refuse(_)
            | Answer::Cancel
            | Answer::Replies(_) => {
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
            if grant.scope == GrantScope::Once {
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
        }
    }
}

impl Drop for CommandRun {
    fn drop(&mut self) {
        self.rights.desk.end(&self.id);
    }
}
