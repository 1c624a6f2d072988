//! Sessions that become two, and files that other programs take away.

use std::fs;

use pollux_session::Message;
use serde_json::Value;

use super::super::oracle::{Kind, Ran, Verdict, demand, violation};
use super::super::script::Told;
use super::Walk;
use crate::scene::panicked;

impl Walk {
    /// Continues in a copy; the original stays as it was.
    pub(super) fn fork(&mut self) -> Verdict {
        let id = self.any_session();
        let script = self.author.script(&mut self.chance);
        let run = self.command(&["--resume", &id, "--fork"], &script).run();
        self.tally.copies += 1;
        let told = Told::read(&run.stdout);
        let is_fine = run.code == Some(0) && !panicked(&run);
        let new = told.session.clone().filter(|new| is_fine && *new != id);
        let new = new.ok_or_else(|| violation(Kind::Conduct, format!("forking {id}: {run:?}")))?;
        self.known.insert(new.clone(), self.known[&id].clone());
        self.settle(&new, &[Ran { script: &script, told, admitted: true }])
    }

    /// A session that was exported and imported has the same conversation.
    pub(super) fn export_and_import(&mut self) -> Verdict {
        let id = self.any_session();
        self.runs += 1;
        let file = format!("exported-{}.json", self.runs);
        let export = self.plain_command(&["sessions", "export", &id, "--output", &file], None).run();
        demand(export.code == Some(0), Kind::Conduct, || format!("exporting {id}: {export:?}"))?;
        let import = self.plain_command(&["sessions", "import", &file, "--json"], None).run();
        self.tally.copies += 1;
        let told: Value = serde_json::from_str(&import.stdout).unwrap_or_default();
        let new = told["sessionId"].as_str().map(str::to_owned);
        let new = new.ok_or_else(|| violation(Kind::Conduct, format!("importing {id}: {import:?}")))?;
        let messages = self.sessions_by_id()?.remove(&new).map(|session| session.messages);
        let messages = messages.unwrap_or_default();
        let said = |messages: &[Message]| -> Vec<Message> {
            let is_said = |message: &&Message| matches!(message, Message::User(_) | Message::Reply(_));
            messages.iter().filter(is_said).cloned().collect()
        };
        let (before, now) = (said(&self.known[&id]), said(&messages));
        demand(before == now, Kind::Lost, || format!("{before:#?} were imported as {now:#?}"))?;
        self.known.insert(new, messages);
        Ok(())
    }

    /// Two processes start a session with the same id; one of them is told that it exists.
    pub(super) fn start_twice(&mut self) -> Verdict {
        self.sessions += 1;
        let id = format!("twice-{}", self.sessions);
        let scripts = [self.author.script(&mut self.chance), self.author.script(&mut self.chance)];
        let running: Vec<_> =
            scripts.iter().map(|script| self.command(&["--session-id", &id], script).spawn()).collect();
        self.tally.copies += 1;
        let mut runs = Vec::new();
        for (running, script) in running.into_iter().zip(&scripts) {
            let run = running.wait();
            let refused = run.code == Some(42) && run.stderr.contains("already exists");
            let is_fine = (refused || run.code == Some(0)) && !panicked(&run);
            demand(is_fine, Kind::Conduct, || format!("started twice: {run:?}"))?;
            if !refused {
                runs.push(Ran { script, told: Told::read(&run.stdout), admitted: true });
            }
        }
        demand(runs.len() == 1, Kind::Conduct, || format!("{} runs recorded {id}", runs.len()))?;
        self.settle(&id, &runs)
    }

    /// Another program deletes or replaces the file of a session that is being recorded.
    pub(super) fn displace(&mut self) -> Verdict {
        let id = self.any_session();
        let Some(session) = self.sessions_by_id()?.remove(&id) else {
            return Err(violation(Kind::Lost, format!("{id} has no file")));
        };
        let (path, earlier) = (session.path.clone(), fs::read(&session.path).unwrap());
        let (script, mark, gate) = self.author.holding();
        let holder = self.command(&["--resume", &id], &script).spawn();
        holder.wait_for_stdout(&mark);
        let kind = self.chance.below(3);
        let side = path.with_extension("side");
        match kind {
            0 => fs::remove_file(&path).unwrap(),
            // A copy of it, and an earlier copy.
            1 => fs::copy(&path, &side).map(drop).unwrap(),
            _ => fs::write(&side, &earlier).unwrap(),
        }
        if kind > 0 {
            fs::rename(&side, &path).unwrap();
        }
        fs::write(self.home.project().join(gate), "").unwrap();
        let run = holder.wait();
        self.tally.displaced += 1;
        let told = Told::read(&run.stdout);
        let is_fine = run.code == Some(0) && !panicked(&run);
        demand(is_fine, Kind::Conduct, || format!("without its file: {run:?}"))?;
        // A copy that was made during a write is another file.
        let is_told = told.displaced || kind == 1;
        demand(is_told, Kind::Conduct, || format!("nothing was told of the file: {run:?}"))?;
        let found = self.sessions_by_id()?;
        let new: Vec<&String> =
            found.keys().filter(|found| **found != id && !self.known.contains_key(*found)).collect();
        let ran = [Ran { script: &script, told, admitted: true }];
        match new.as_slice() {
            [] => {
                demand(kind < 2, Kind::Lost, || format!("{id} has no new file: {run:?}"))?;
                self.settle(&id, &ran)
            }
            [new] => {
                demand(kind > 0, Kind::Conduct, || format!("{id} got a new id: {run:?}"))?;
                let new = (*new).clone();
                let held = self.known[&id].clone();
                // What the replaced file holds is what the other program put there.
                let left = found.get(&id).map(|session| session.messages.clone()).unwrap_or_default();
                let is_kept = left.get(..held.len()) == Some(&held[..]);
                demand(is_kept, Kind::Lost, || format!("{id} held {held:#?}, now {left:#?}"))?;
                self.known.insert(id, left);
                self.known.insert(new.clone(), held);
                self.settle(&new, &ran)
            }
            _ => Err(violation(Kind::Conduct, format!("{id} has several new files: {new:?}"))),
        }
    }
}
