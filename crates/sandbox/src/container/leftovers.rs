//! Containers that outlived their owner, if the engine itself was killed: found by a label and removed.

use std::fs;
use std::os::unix::fs::MetadataExt as _;

use super::Engine;
use super::engine::Client;
use crate::process_table;

pub(crate) const LABEL: &str = "pollux.owner";

/// A process, by everything that makes its number unique.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Owner {
    /// This start of the system, the table of processes, and the user.
    scope: String,
    process: i32,
    started: u64,
}

impl Owner {
    /// This process.
    pub(crate) fn current() -> Self {
        let boot = fs::read_to_string("/proc/sys/kernel/random/boot_id").unwrap_or_default();
        let boot: String = boot.chars().filter(char::is_ascii_hexdigit).take(12).collect();
        let table = fs::metadata("/proc/self/ns/pid").map(|meta| meta.ino()).unwrap_or_default();
        let user = rustix::process::getuid().as_raw();
        let process = std::process::id().cast_signed();
        Self {
            scope: format!("{boot}-{table}-{user}"),
            process,
            started: process_table::start_of(process).unwrap_or_default(),
        }
    }

    pub(crate) fn label(&self) -> String {
        format!("{}-{}-{}", self.scope, self.process, self.started)
    }

    fn parse(label: &str) -> Option<Self> {
        let (rest, started) = label.rsplit_once('-')?;
        let (scope, process) = rest.rsplit_once('-')?;
        Some(Self { scope: scope.to_owned(), process: process.parse().ok()?, started: started.parse().ok()? })
    }

    /// Whether it is known to be gone. Of processes elsewhere, nothing is known.
    fn is_gone(&self, here: &Self) -> bool {
        self.scope == here.scope && process_table::start_of(self.process) != Some(self.started)
    }
}

/// The identifiers in the engine's list whose owners are gone. Labels are `key=value` or `key:value`.
fn abandoned(list: &str, here: &Owner) -> Vec<String> {
    let owner = |line: &str| {
        let (_, after) = line.split_once(LABEL)?;
        let is_of_label = |letter: &char| letter.is_ascii_hexdigit() || *letter == '-';
        let label: String = after.chars().skip(1).take_while(is_of_label).collect();
        Owner::parse(&label)
    };
    let gone = list.lines().filter(|line| owner(line).is_some_and(|owner| owner.is_gone(here)));
    gone.filter_map(|line| line.split_whitespace().next()).map(str::to_owned).collect()
}

/// Removes them. What fails is tried again with the next session.
pub(crate) fn remove(engine: &Client) {
    let filter = format!("label={LABEL}");
    let list = engine.ask(&["ps", "--all", "--filter", &filter, "--format", "{{.ID}} {{.Labels}}"]);
    for id in abandoned(&list.unwrap_or_default(), &Owner::current()) {
        let _ = match engine.engine {
            Engine::Docker => engine.ask(&["rm", "--force", &id]),
            // It would wait for the container's first process.
            Engine::Podman => engine.ask(&["rm", "--force", "--time=0", &id]),
        };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_containers_of_dead_owners_on_this_system_are_removed() {
        let here = Owner::current();
        assert_eq!(Owner::parse(&here.label()).unwrap(), here);
        let with = |owner: &Owner| owner.label();
        let dead = Owner { started: here.started + 1, ..here.clone() };
        let elsewhere = Owner { scope: "0-1-2".to_owned(), ..dead.clone() };
        let list = format!(
            "aa pollux.owner={},x=y\nbb map[pollux.owner:{} z:1]\ncc pollux.owner={}\ndd other=1\nee pollux.owner=x\n",
            with(&here),
            with(&dead),
            with(&elsewhere)
        );
        assert_eq!(abandoned(&list, &here), ["bb"]);
    }
}
