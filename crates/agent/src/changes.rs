//! Records file changes of tool calls: before they run, after they ran, and before an approval.

use std::time::Duration;

use pollux_domain::changes::ImpendingCall;
use pollux_domain::event::{NoticeCode, Severity};
use pollux_domain::tool::Effect;
use pollux_policy::request::{Request, Verdict};
use pollux_policy::shell::{CommandAnalysis, Part, is_known_safe_within};
use tokio_util::sync::CancellationToken;

use crate::call::{Finished, Ready};
use crate::conversation::{Conversation, Prompted};
use crate::emitter::Emitter;
use crate::services::Services;

/// Longer waits are announced.
const SILENCE: Duration = Duration::from_secs(1);

const SHELL: &str = "run_shell_command";

/// Git commands that do not write. `status` and `diff` update the index, so they are not listed.
#[rustfmt::skip]
const GIT_READS: &[&str] = &[
    "blame", "branch", "cat-file", "log", "ls-files", "ls-tree", "merge-base", "remote", "rev-list", "rev-parse",
    "shortlog", "show", "tag",
];

/// A prompt starts; the following calls belong to it.
pub(crate) fn began(services: &Services, message: &str) {
    if let Some(changes) = services.changes.as_ref().filter(|_| !message.is_empty()) {
        changes.prompt(message);
    }
}

/// An edit is about to be approved.
pub(crate) async fn keep_asked(
    services: &Services,
    emitter: &Emitter,
    conversation: &Conversation,
    ready: &Ready,
) {
    let Some(changes) = services.changes.as_ref().filter(|_| matches!(ready.effect, Effect::Edit(_))) else {
        return;
    };
    let lines =
        changes.asked(&impending(ready, &conversation.prompted), &conversation.history.contents()).await;
    say(emitter, lines).await;
}

/// Saves what these calls could change. A cancel does not wait for it.
pub(crate) async fn keep_before(
    services: &Services,
    emitter: &Emitter,
    prompted: &Prompted,
    group: &[Ready],
    cancel: &CancellationToken,
) {
    let Some(changes) = &services.changes else { return };
    for ready in group.iter().filter(|ready| ready.may_run()) {
        let call = impending(ready, prompted);
        let keeping = changes.before(&call);
        tokio::pin!(keeping);
        let mut explained = false;
        let lines = loop {
            tokio::select! {
                biased;
                () = cancel.cancelled() => return,
                lines = &mut keeping => break lines,
                () = tokio::time::sleep(SILENCE), if !explained => {
                    explained = true;
                    let text = "Taking a snapshot of the workspace so that changes can be undone...";
                    emitter.notice(Severity::Info, NoticeCode::Rewind, text).await;
                }
            }
        };
        say(emitter, lines).await;
    }
}

/// Records what these calls changed.
pub(crate) async fn keep_after(services: &Services, emitter: &Emitter, finished: &[Finished]) {
    let Some(changes) = &services.changes else { return };
    for done in finished {
        let lines = changes.after(&done.call.id).await;
        say(emitter, lines).await;
    }
}

async fn say(emitter: &Emitter, lines: Vec<String>) {
    for line in lines {
        emitter.notice(Severity::Warning, NoticeCode::Rewind, line).await;
    }
}

fn impending<'a>(ready: &'a Ready, prompted: &'a Prompted) -> ImpendingCall<'a> {
    ImpendingCall {
        call: &ready.call.id,
        tool: ready.spec.as_ref().map_or(ready.call.name.as_str(), |spec| spec.name.as_str()),
        args: &ready.args,
        effect: &ready.effect,
        reads_only: ready.reads_only,
        message: &prompted.message,
        prompt_id: &prompted.id,
    }
}

/// Whether a call certainly changes no files. Nothing is known about MCP tools.
pub(crate) fn reads_only(request: &Request<'_>, verdict: &Verdict) -> bool {
    match request.effect {
        Effect::Edit(_) => false,
        Effect::Execute { .. } => {
            request.tool == SHELL && verdict.shell.as_ref().is_some_and(command_reads_only)
        }
        Effect::Read(_) | Effect::Fetch(_) | Effect::Dialog | Effect::None => request.server.is_none(),
    }
}

fn command_reads_only(command: &CommandAnalysis) -> bool {
    let keeps_nothing = |target: Option<&str>| target == Some("/dev/null");
    command.doubts.is_empty()
        && !command.parts.is_empty()
        && command.redirections.iter().all(|to| !to.writes || keeps_nothing(to.target.as_deref()))
        && command.parts.iter().all(part_reads_only)
}

fn part_reads_only(part: &Part) -> bool {
    // Variables may change what a command does, so a command with assignments is not read-only.
    let is_plain = part.assignments.is_empty() && part.behind.is_empty();
    let mut words = part.words.iter().map(|word| word.as_deref().unwrap_or_default());
    let program = words.next().unwrap_or_default();
    let program = program.rsplit('/').next().unwrap_or_default();
    let is_quiet = match program {
        "" | "export" | "declare" | "typeset" | "local" | "readonly" | "npm" | "tee" | "tar" | "unzip" => {
            false
        }
        "git" => GIT_READS.contains(&words.next().unwrap_or_default()),
        _ => true,
    };
    is_plain && is_quiet && is_known_safe_within(part, &|_| true)
}

#[cfg(test)]
mod tests {
    use super::*;
    use pollux_policy::shell::analyse;

    #[test]
    fn a_command_only_reads_when_nothing_of_it_can_write() {
        for command in
            ["ls -l", "cat a | grep b", "git log --oneline", "cd src && wc -l *.rs", "ls 2>/dev/null"]
        {
            assert!(command_reads_only(&analyse(command)), "{command}");
        }
        let writing = [
            "",
            "touch a",
            "cat a > b",
            "ls; rm a",
            "echo $(rm a)",
            "git status",
            "git log --output=x",
            "git -C x log",
            "find . -delete",
            "sed -i s/a/b/ a",
            "awk '{print > \"b\"}' a",
            "sort -o b a",
            "PATH=. ls",
            "export PATH=.; ls",
            "xargs cat",
            "ls | tee b",
            "./ls",
            "eval ls",
            "$cmd",
            "cat <<E >b\nE",
            "cargo test",
            "npm --version; make",
            "if true; then rm a; fi",
            "ls &> b",
            "alias ls=rm; ls a",
            "ls() { rm a; }; ls",
            "trap 'rm a' EXIT",
            ". ./x",
            "uniq a b",
            "xxd a b",
            "xxd -r a b",
            "date -s now",
            "tree -o b",
            "file -C -m m",
            "jq . a > b",
            "read x < a; $x",
        ];
        for command in writing {
            assert!(!command_reads_only(&analyse(command)), "{command}");
        }
    }
}
