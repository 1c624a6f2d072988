//! The program with prompts: alone, killed, and several at once.

use std::fs;

use super::super::oracle::{Kind, Ran, Verdict, demand};
use super::super::script::Told;
use super::{End, Walk};
use crate::scene::{binary, panicked};

impl Walk {
    pub(super) fn start(&mut self) -> Verdict {
        self.sessions += 1;
        // Some share the eight characters that files are named by, or differ only in case.
        let id = match self.chance.below(4) {
            0 => format!("s{}-of-its-own", self.sessions),
            1 => format!("CRASHING-{}", self.sessions / 2),
            _ => format!("crashing-{}", self.sessions / 2 + 100 * (self.sessions % 2)),
        };
        if self.known.contains_key(&id) || !self.used.insert(id.clone()) {
            return Ok(());
        }
        let script = self.author.script(&mut self.chance);
        let end = self.end(&script);
        let run = self.execute(&["--session-id", &id], &script, &end)?;
        self.settle(&id, &[Ran { script: &script, told: Told::read(&run.stdout), admitted: true }])
    }

    pub(super) fn resume(&mut self) -> Verdict {
        let id = self.any_session();
        let latest = self.latest()?;
        // With a clock that jumped, the latest session may be one that nobody may touch.
        let is_latest = self.chance.one_in(2) && self.known.contains_key(&latest);
        let (which, id) = if is_latest { ("latest".to_owned(), latest) } else { (id.clone(), id) };
        let script = self.author.script(&mut self.chance);
        let end = self.end(&script);
        self.tally.resumes += 1;
        let run = self.execute(&["--resume", &which], &script, &end)?;
        let told = Told::read(&run.stdout);
        if let Some(session) = &told.session {
            demand(*session == id, Kind::Conduct, || format!("resumed {session} in place of {id}"))?;
        }
        self.settle(&id, &[Ran { script: &script, told, admitted: true }])
    }

    /// A second process that comes while the first has the session is told so.
    pub(super) fn hold(&mut self) -> Verdict {
        let id = self.any_session();
        let (script, mark, gate) = self.author.holding();
        let holder = self.command(&["--resume", &id], &script).spawn();
        holder.wait_for_stdout(&mark);
        let rival = self.author.script(&mut self.chance);
        let second = self.execute(&["--resume", &id], &rival, &End::ByItself)?;
        let is_told = second.code == Some(42) && second.stderr.contains("in use by process");
        demand(is_told, Kind::Conduct, || format!("a second process: {second:?}"))?;
        let deletion = self.home.command(binary(), ["--delete-session", &id]).run();
        demand(deletion.code != Some(0), Kind::Conduct, || format!("deleted while in use: {deletion:?}"))?;
        self.tally.rivals += 1;
        let gate = self.home.project().join(gate);
        let open = || fs::write(&gate, "").unwrap();
        let first = if self.chance.one_in(2) {
            let killed = self.kill(holder);
            // The command may have outlived the program.
            open();
            killed
        } else {
            open();
            holder.wait()
        };
        self.settle(&id, &[Ran { script: &script, told: Told::read(&first.stdout), admitted: true }])
    }

    /// Two processes go for the same session at once; one may be killed.
    pub(super) fn race(&mut self) -> Verdict {
        let id = self.any_session();
        let scripts = [self.author.script(&mut self.chance), self.author.script(&mut self.chance)];
        let running: Vec<_> =
            scripts.iter().map(|script| self.command(&["--resume", &id], script).spawn()).collect();
        let killed = self.chance.below(4);
        let delay = self.chance.micros(60_000);
        self.tally.rivals += 1;
        let mut runs = Vec::new();
        for (index, (running, script)) in running.into_iter().zip(&scripts).enumerate() {
            let run = if index == killed {
                std::thread::sleep(delay);
                self.kill(running)
            } else {
                running.wait()
            };
            let refused = run.code == Some(42)
                && (run.stderr.contains("in use by") || run.stderr.contains("changed while it was"));
            let is_fine = refused || index == killed || run.code == Some(0);
            demand(is_fine && !panicked(&run), Kind::Conduct, || format!("in a race: {run:?}"))?;
            runs.push(Ran { script, told: Told::read(&run.stdout), admitted: !refused });
        }
        self.settle(&id, &runs)
    }
}
