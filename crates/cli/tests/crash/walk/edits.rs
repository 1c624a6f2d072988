//! What else is done to sessions: rewound, renamed, deleted, and found as earlier releases left them.

use std::fs;

use pollux_session::{Message, load};
use serde_json::{Value, json};

use super::super::fixtures::FORMS;
use super::super::oracle::{Census, Kind, Verdict, demand, violation};
use super::Walk;
use crate::scene::binary;

impl Walk {
    /// Removes a prompt and all that follows; killed, it is all there or all gone.
    pub(super) fn rewind(&mut self) -> Verdict {
        let id = self.any_session();
        let held = self.known[&id].clone();
        let is_ours = |message: &Message| match message {
            Message::User(user) => super::super::oracle::text_of(&user.parts).starts_with("prompt"),
            _ => false,
        };
        // The first prompt stays: a session without a conversation cannot be resumed. An import begins with a notice.
        let first = held.iter().position(|message| matches!(message, Message::User(_))).unwrap_or(held.len());
        let prompts: Vec<usize> = (first + 1..held.len()).filter(|at| is_ours(&held[*at])).collect();
        if prompts.is_empty() {
            return self.resume();
        }
        let at = *self.chance.pick(&prompts);
        let to = held[at].id().to_owned();
        let args = ["sessions", "rewind", &id, "--to", &to, "--conversation", "--yes"];
        let end = self.end_of_command();
        let command = self.plain_command(&args, None);
        let run = self.carry_out(command, &end)?;
        self.tally.rewinds += 1;
        demand(end.is_kill() || run.code == Some(0), Kind::Conduct, || format!("rewinding {id}: {run:?}"))?;
        let now = self.sessions_by_id()?.remove(&id).map(|session| session.messages).unwrap_or_default();
        let is_done = now == held[..at];
        let is_right = is_done || (run.code != Some(0) && now == held);
        demand(is_right, Kind::Lost, || format!("{id} was rewound to {at} of {held:#?}: {now:#?}; {run:?}"))?;
        self.known.insert(id, now);
        Ok(())
    }

    /// Gives a session a title through the editors' protocol.
    pub(super) fn rename(&mut self) -> Verdict {
        let id = self.any_session();
        self.runs += 1;
        let title = format!("title {}", self.runs);
        let request = |id: usize, method: &str, params: Value| {
            format!("{}\n", json!({"jsonrpc": "2.0", "id": id, "method": method, "params": params}))
        };
        let opening = json!({"protocolVersion": 1, "clientCapabilities": {}});
        let words = request(1, "initialize", opening)
            + &request(2, "session/set_title", json!({"sessionId": id, "title": title}));
        let end = self.end_of_command();
        let command = self.plain_command(&["--acp"], Some(words));
        let run = self.carry_out(command, &end)?;
        self.tally.renames += 1;
        let answers = run.stdout.lines().filter_map(|line| serde_json::from_str::<Value>(line).ok());
        let is_told =
            answers.into_iter().any(|answer| answer["id"] == 2 && answer["result"]["title"] == title);
        demand(end.is_kill() || is_told, Kind::Conduct, || format!("renaming {id}: {run:?}"))?;
        let Some(session) = self.sessions_by_id()?.remove(&id) else {
            return Err(violation(Kind::Lost, format!("{id} is gone after a rename")));
        };
        let before = self.titles.get(&id);
        let is_right =
            session.summary.as_ref() == Some(&title) || (!is_told && session.summary.as_ref() == before);
        demand(is_right, Kind::Lost, || format!("{id} is called {:?}, not {title}", session.summary))?;
        if let Some(summary) = session.summary {
            self.titles.insert(id, summary);
        }
        Ok(())
    }

    pub(super) fn titles_are_kept(&self) -> Verdict {
        let found = self.sessions_by_id()?;
        for (id, title) in &self.titles {
            let now = found.get(id).and_then(|session| session.summary.as_ref());
            demand(now == Some(title), Kind::Lost, || format!("{id} was called {title}, now {now:?}"))?;
        }
        Ok(())
    }

    /// A session that another release wrote is found, and is from now on one of ours.
    pub(super) fn adopt(&mut self) -> Verdict {
        let (old, text) = *self.chance.pick(&FORMS);
        self.sessions += 1;
        let short = format!("{:08x}", 0xada0_0000_u32 + u32::try_from(self.sessions).unwrap_or(0));
        let id = old.replacen(old.split('-').next().unwrap_or_default(), &short, 1);
        let is_log = text.lines().next().is_some_and(|line| line.ends_with('}'));
        let name = format!("session-2026-01-02T03-04-{short}.{}", if is_log { "jsonl" } else { "json" });
        fs::create_dir_all(&self.chats).unwrap();
        let path = self.chats.join(name);
        fs::write(&path, text.replace(old, &id)).unwrap();
        let session = load(&path).map_err(|error| violation(Kind::Unreadable, error.to_string()))?;
        let all = format!("{:?}", session.messages);
        let is_read = ["read a.txt", "Reading it.", "an older question", "an older answer"]
            .iter()
            .filter(|words| all.contains(**words))
            .count();
        demand(is_read == 2, Kind::Lost, || format!("an earlier session is read as {all}"))?;
        self.tally.adopted += 1;
        self.known.insert(id, session.messages);
        Ok(())
    }

    pub(super) fn delete(&mut self, before: &Census) -> Verdict {
        let id = self.any_session();
        let run = self.home.command(binary(), ["--delete-session", &id]).run();
        demand(run.code == Some(0), Kind::Conduct, || format!("deleting {id}: {run:?}"))?;
        self.tally.deletions += 1;
        self.known.remove(&id);
        self.titles.remove(&id);
        self.nothing_vanished(before, Some(&id))?;
        let gone = !self.sessions_by_id()?.contains_key(&id);
        demand(gone, Kind::Conduct, || format!("{id} is still there"))?;
        self.all_is_readable()
    }
}
