//! Where questions about rights are asked: knows the person, and the commands that run.

use std::collections::HashSet;
use std::sync::{Arc, Mutex, RwLock, Weak};

use pollux_domain::BoxFuture;
use pollux_domain::approval::{ApprovalAnswer, Offer, Outcome, Person};
use pollux_domain::sandbox::{Grant, GrantScope, GrantedBy, Right, RightKind, RightQuestion};
use pollux_domain::sync::{Locked as _, SharedLocked as _};
use pollux_domain::terminal_text;
use pollux_egress::host::Host;
use pollux_egress::journal::Caller;
use pollux_egress::preset::{self, DownloadHost};
use pollux_egress::proxy::Identify;
use pollux_egress::question::{Asker, HostAnswer, Question};
use pollux_egress::rules::RuleBook;
use pollux_sandbox::{Sandbox, program_of};
use tokio::runtime::Handle;
use tokio_util::sync::CancellationToken;

use crate::connect::PROXY_PORT;
use crate::downloads::Downloads;
use crate::packages::OwnMachine;

/// Asks about hosts while connections wait, and names the command behind them.
pub(crate) struct HostDesk {
    person: RwLock<Option<(Arc<dyn Person>, Handle)>>,
    running: Mutex<Vec<Running>>,
    /// The sandboxes of the session, and whether their commands may use the proxy.
    sandboxes: Mutex<Vec<(Weak<Sandbox>, bool)>>,
    /// Hosts that a command may use until it ends.
    once: Mutex<HashSet<(String, Host, u16)>>,
    /// What was asked and granted, by command.
    asked: Mutex<Vec<Asked>>,
    pub(crate) rules: Arc<RuleBook>,
    pub(crate) machine: Arc<OwnMachine>,
    pub(crate) downloads: Arc<Downloads>,
    pub(crate) has_project: bool,
    /// Programs that reach every host, by the user's `sandbox.toml`.
    pub(crate) open_commands: Vec<String>,
}

#[derive(Debug, Clone)]
pub(crate) struct Running {
    pub(crate) id: String,
    pub(crate) command: String,
    pub(crate) cancel: CancellationToken,
}

/// A question about a host and its answer.
#[derive(Debug, Clone)]
pub(crate) struct Asked {
    pub(crate) command: Option<String>,
    pub(crate) right: Right,
    pub(crate) granted: Option<Grant>,
}

impl HostDesk {
    pub(crate) fn new(
        rules: Arc<RuleBook>,
        machine: OwnMachine,
        has_project: bool,
        open_commands: Vec<String>,
    ) -> Self {
        let machine = Arc::new(machine);
        Self {
            downloads: Arc::new(Downloads::new(Arc::clone(&machine), Arc::clone(&rules))),
            person: RwLock::default(),
            running: Mutex::default(),
            sandboxes: Mutex::default(),
            once: Mutex::default(),
            asked: Mutex::default(),
            rules,
            machine,
            has_project,
            open_commands,
        }
    }

    pub(crate) fn introduce(&self, person: Option<Arc<dyn Person>>) {
        let handle = Handle::try_current().ok();
        *self.person.write_locked() = person.zip(handle);
    }

    pub(crate) fn person(&self) -> Option<Arc<dyn Person>> {
        self.person.read_locked().as_ref().map(|(person, _)| Arc::clone(person))
    }

    /// Adds a sandbox, and whether its commands may use the proxy.
    pub(crate) fn watch(&self, sandbox: &Arc<Sandbox>, is_proxied: bool) {
        self.machine.open_to_commands(sandbox.open_to_commands());
        let mut sandboxes = self.sandboxes.locked();
        sandboxes.retain(|(known, _)| known.strong_count() > 0);
        sandboxes.push((Arc::downgrade(sandbox), is_proxied));
    }

    fn sandboxes(&self) -> Vec<(Arc<Sandbox>, bool)> {
        let known = self.sandboxes.locked();
        known.iter().filter_map(|(known, is_proxied)| Some((known.upgrade()?, *is_proxied))).collect()
    }

    /// The process with a connection to the proxy from this port of the commands' own network.
    fn client(&self, port: u16) -> Option<i32> {
        self.sandboxes().iter().find_map(|(sandbox, _)| sandbox.client(port, PROXY_PORT))
    }

    /// Whether something runs that an earlier command left behind.
    fn has_leftovers(&self, commands: usize) -> bool {
        self.sandboxes().iter().map(|(sandbox, _)| sandbox.running()).sum::<usize>() > commands
    }

    pub(crate) fn begin(&self, running: Running) {
        self.running.locked().push(running);
    }

    pub(crate) fn end(&self, id: &str) {
        self.running.locked().retain(|running| running.id != id);
        self.once.locked().retain(|(command, ..)| command != id);
    }

    /// The questions about hosts that a command raised.
    pub(crate) fn asked_by(&self, id: &str) -> Vec<Asked> {
        let asked = self.asked.locked();
        asked.iter().filter(|asked| asked.command.as_deref() == Some(id)).cloned().collect()
    }

    /// The hosts that were granted beyond one command.
    pub(crate) fn granted(&self) -> Vec<Grant> {
        let asked = self.asked.locked();
        let lasting = |grant: &Grant| grant.scope != GrantScope::Once;
        asked.iter().filter_map(|asked| asked.granted.clone()).filter(lasting).collect()
    }

    pub(crate) fn forget(&self, right: &Right) {
        self.asked.locked().retain(|asked| asked.right != *right);
    }

    fn running(&self, id: Option<&str>) -> Option<Running> {
        let running = self.running.locked();
        running.iter().find(|running| Some(running.id.as_str()) == id).cloned()
    }

    fn note(&self, question: &Question, answer: Option<HostAnswer>) {
        let right = right(question);
        let scope = answer.and_then(scope);
        let grant = scope.map(|scope| Grant { right: right.clone(), scope, by: GrantedBy::User });
        let command = question.caller.command.clone();
        self.asked.locked().push(Asked { command, right, granted: grant });
    }
}

/// Whether the user opened the network for a command. One that runs several programs is not meant, and neither is a
/// file that has the name of such a program.
fn is_open_command(command: &str, open: &[String]) -> bool {
    let runs_more = command.contains(['\n', ';', '&', '|', '<', '>', '$', '`', '(', '{']);
    let program = command.split_whitespace().next();
    !runs_more && program.is_some_and(|program| open.iter().any(|name| name == program))
}

fn right(question: &Question) -> Right {
    Right { kind: RightKind::Host, target: format!("{}:{}", question.host, question.port) }
}

fn scope(answer: HostAnswer) -> Option<GrantScope> {
    match answer {
        HostAnswer::Once => Some(GrantScope::Once),
        HostAnswer::Session => Some(GrantScope::Session),
        HostAnswer::Project => Some(GrantScope::Project),
        HostAnswer::Always => Some(GrantScope::Always),
        HostAnswer::No => None,
    }
}

/// The answers that a question offers.
pub(crate) fn offers(target: &str, lasting: bool, project: bool, packages: Option<String>) -> Vec<Offer> {
    let target = &terminal_text::name(target);
    let offer = |outcome, covers: &str| Offer { outcome, covers: covers.to_owned() };
    let mut offers = vec![offer(Outcome::Once, ""), offer(Outcome::Session, target)];
    offers.extend(packages.map(|covers| offer(Outcome::SessionServer, &covers)));
    if lasting {
        if project {
            offers.push(offer(Outcome::Project, target));
        }
        offers.push(offer(Outcome::Saved, target));
    }
    offers.push(offer(Outcome::Refuse, ""));
    offers
}

/// Ends a question that nobody waits for any more.
struct Withdraw(CancellationToken);

impl Drop for Withdraw {
    fn drop(&mut self) {
        self.0.cancel();
    }
}

impl Asker for HostDesk {
    fn is_present(&self) -> bool {
        self.person.read_locked().is_some()
    }

    fn settle(&self) -> BoxFuture<'_, ()> {
        Box::pin(self.downloads.settle_in_background())
    }

    fn ask<'a>(&'a self, question: &'a Question) -> BoxFuture<'a, HostAnswer> {
        Box::pin(async move {
            let running = self.running(question.caller.command.as_deref());
            let key = running.as_ref().map(|run| (run.id.clone(), question.host.clone(), question.port));
            if key.as_ref().is_some_and(|key| self.once.locked().contains(key))
                || running.as_ref().is_some_and(|run| is_open_command(&run.command, &self.open_commands))
            {
                return HostAnswer::Once;
            }
            let Some((person, handle)) = self.person.read_locked().clone() else { return HostAnswer::No };
            let right = right(question);
            let is_package = |host: &&DownloadHost| host.pattern.to_string() == right.target;
            let packages = self.downloads.hosts_in_background().await;
            let known = packages.iter().any(|host| is_package(&host)).then(|| {
                let hosts: Vec<String> = packages.iter().map(|host| host.pattern.to_string()).collect();
                hosts.join(", ")
            });
            let dangerous = question.is_dangerous();
            let offers = offers(&right.target, !dangerous, self.has_project, known);
            let danger =
                dangerous.then(|| format!("{} is not on the internet but on your own network", right.target));
            let cancel = running.as_ref().map(|run| run.cancel.child_token()).unwrap_or_default();
            let withdraw = Withdraw(cancel.clone());
            let client = question.caller.port.and_then(|port| self.client(port));
            let program = client.and_then(program_of);
            let (command, call) = running.map(|run| (run.command, run.id)).unzip();
            let asked = RightQuestion { right, command, program, call, note: None, rerun: false };
            // Hooks may run before the question: on the session's runtime, not on the proxy's thread.
            let reply = handle.spawn(async move { person.ask_right(asked, danger, offers, &cancel).await });
            let reply = reply.await.unwrap_or(ApprovalAnswer::Cancel);
            drop(withdraw);
            let answer = match reply {
                ApprovalAnswer::Once => HostAnswer::Once,
                ApprovalAnswer::Session => HostAnswer::Session,
                ApprovalAnswer::SessionServer => {
                    self.rules.grant_all(&preset::rules(packages));
                    HostAnswer::Session
                }
                ApprovalAnswer::Project => HostAnswer::Project,
                ApprovalAnswer::Saved => HostAnswer::Always,
                ApprovalAnswer::Edited(_)
                | ApprovalAnswer::Refuse(_)
                | ApprovalAnswer::Cancel
                | ApprovalAnswer::Replies(_) => HostAnswer::No,
            };
            if let (HostAnswer::Once, Some(key)) = (answer, key) {
                self.once.locked().insert(key);
            }
            self.note(question, Some(answer));
            answer
        })
    }
}

impl Identify for HostDesk {
    /// A connection comes from the command that runs, if nothing else does. A server that an earlier command left
    /// running must not use what was granted to this one.
    fn caller(&self, _: Option<i32>) -> Caller {
        let running = self.running.locked().clone();
        match running.as_slice() {
            [only] if !self.has_leftovers(1) => {
                let program = only.command.split_whitespace().next().map(str::to_owned);
                Caller { command: Some(only.id.clone()), program, port: None }
            }
            _ => Caller::default(),
        }
    }

    /// A mode without the network may share its loopback with one that has the proxy.
    fn admits(&self, port: Option<u16>) -> bool {
        let sandboxes = self.sandboxes();
        let closed: Vec<&Arc<Sandbox>> =
            sandboxes.iter().filter(|(_, is_proxied)| !is_proxied).map(|(sandbox, _)| sandbox).collect();
        if closed.is_empty() {
            return true;
        }
        let client = port.and_then(|port| self.client(port));
        client.is_some_and(|client| !closed.iter().any(|sandbox| sandbox.is_of_these_rights(client)))
    }

    /// The way to a port is open for all processes inside, but granted only to those that started with the right.
    fn admits_to(&self, to: u16, from: Option<u16>) -> bool {
        from.is_some_and(|from| self.sandboxes().iter().any(|(sandbox, _)| sandbox.lets_through(from, to)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_network_is_open_for_the_named_program_alone() {
        let open = ["git".to_owned()];
        assert!(is_open_command("git push origin main", &open));
        for other in [
            "curl x",
            "./git push",
            "/w/git push",
            "git push; curl x",
            "git push && curl x",
            "git log | curl x",
            "git push\ncurl x",
            "git push $(curl x)",
            "git push `curl x`",
            "X=1 git push",
        ] {
            assert!(!is_open_command(other, &open), "{other}");
        }
    }
}
