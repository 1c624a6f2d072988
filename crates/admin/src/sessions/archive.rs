//! The sessions behind `pollux sessions`.

use std::io::Write;
use std::path::{Path, PathBuf};

use pollux_catalogue::{Filter, Origin};
use pollux_config::env::Env;
use pollux_domain::exit::ExitKind;
use pollux_domain::failure::Failure;
use pollux_domain::time::{Clock, SystemClock, Timestamp};
use pollux_host::request::Request;
use pollux_host::sessions::pick::{Own, Reach, SelectedSession, pick};
use pollux_host::sessions::places::{SessionPlaces, source_word, unreadable};
use pollux_host::sessions::{SessionSource, Wanted, Which};
use pollux_host::sessions::{removals, rows};
use pollux_host::trust::home;
use pollux_session::{
    NameMatch, Problem as Wrong, ProjectSearch, Proof, RepairNote, default_bases, export, find_project, list,
    relative_time, repair, verify,
};
use serde_json::Value;

use super::{
    Candidate, Checked, Details, Hit, Imported, Problem, Proposal, Removals, Removed, RewindWhat, Rewound,
    SessionRow, Statistics, TranscriptFormat, WayBack, details, going_back, incoming,
};
use crate::output_file;

/// How deep projects are looked for below the usual folders.
const DEPTH: usize = 3;

/// All sessions of this machine's user. Only [`Proposal::carry_out`], imports and repairs change anything.
pub struct Archive {
    options: Request,
    places: SessionPlaces,
    notes: Vec<String>,
}

/// The sessions visible from this folder. Reads nothing yet.
pub fn archive(options: &Request, env: &Env, watched: bool) -> Result<Archive, Failure> {
    let places = SessionPlaces::new(env, home(env)?, watched);
    Ok(Archive { options: options.clone(), places, notes: Vec::new() })
}

impl Archive {
    /// This project's sessions without an index: only the beginnings of files are read.
    fn listed_here(&mut self, now: Timestamp) -> Vec<SessionRow> {
        let listing = list(self.places.project.read_chat_dirs(), now);
        self.notes.extend(unreadable(&listing.unreadable));
        let root = self.places.project.root();
        let numbered = listing.sessions.iter().enumerate();
        numbered
            .map(|(index, info)| SessionRow {
                number: Some(index + 1),
                ..rows::from_info(info, Some(root), now)
            })
            .collect()
    }

    /// Notes what is damaged in a file that was read nevertheless.
    fn note_damage(&mut self, file: &Path, damage: Option<&RepairNote>) {
        self.notes.extend(damage.map(|damage| format!("Warning: `{}`: {damage}", file.display())));
    }

    fn own(&self, which: &Which, doing: &str) -> Result<Own, Failure> {
        match pick(&self.places, which, Reach::AsTold)? {
            SelectedSession::Own(own) => Ok(own),
            SelectedSession::Foreign(found) => Err(Failure::new(
                ExitKind::Input,
                format!("sessions of {} are read-only: {doing}", found.store.agent.label()),
            )
            .hint("import it into this project with `pollux sessions import`")),
        }
    }
}

impl Archive {
    pub fn list(&mut self, wanted: &Wanted) -> Result<Vec<SessionRow>, Failure> {
        let now = SystemClock.now();
        let mut catalogue = self.places.open_catalogue();
        let is_plain =
            wanted.source == Some(SessionSource::Gemini) && !wanted.all_projects && !wanted.subagents;
        if is_plain && !catalogue.is_kept() {
            return Ok(self.listed_here(now));
        }
        let refreshed = self.places.refresh(&mut catalogue, &self.places.sources(wanted));
        self.notes.extend(unreadable(&refreshed.unreadable));
        let listed = catalogue.list(&self.places.filter(wanted));
        Ok(rows::arranged(listed, &self.places, now, wanted.in_full))
    }

    pub fn details(&mut self, which: &Which) -> Result<Details, Failure> {
        match pick(&self.places, which, Reach::Anywhere)? {
            SelectedSession::Own(own) => {
                let (details, damage) = details::of_own(&own, &self.places)?;
                self.note_damage(&own.info.path, damage.as_ref());
                Ok(details)
            }
            SelectedSession::Foreign(found) => details::of_foreign(&found),
        }
    }

    pub fn search(
        &mut self,
        words: &str,
        wanted: &Wanted,
        limit: Option<usize>,
    ) -> Result<Vec<Hit>, Failure> {
        if !words.chars().any(char::is_alphanumeric) {
            return Err(Failure::new(ExitKind::Input, "no search terms given"));
        }
        let now = SystemClock.now();
        let mut catalogue = self.places.open_catalogue();
        self.places.refresh(&mut catalogue, &self.places.sources(wanted));
        self.places.refresh_texts(&mut catalogue);
        let filter = Filter { limit, ..self.places.filter(wanted) };
        let hits = catalogue.search(words, &filter, now);
        let age = |time: Timestamp| relative_time(time, now);
        Ok(hits
            .into_iter()
            .map(|hit| Hit {
                session: rows::from_record(&hit.session.record, hit.session.origin, now, wanted.in_full),
                role: hit.kind.as_str(),
                message: hit.message_id,
                time: hit.time,
                age: age(hit.time.unwrap_or(hit.session.record.last_updated)),
                snippet: hit.snippet.text,
                matches: hit.snippet.matches,
            })
            .collect())
    }

    pub fn transcript(
        &mut self,
        which: &Which,
        form: TranscriptFormat,
        out: &mut dyn Write,
    ) -> Result<(), Failure> {
        match pick(&self.places, which, Reach::Anywhere)? {
            SelectedSession::Own(own) => {
                let damage = details::own_transcript(&own, form, out)?;
                self.note_damage(&own.info.path, damage.as_ref());
                Ok(())
            }
            SelectedSession::Foreign(found) => details::foreign_transcript(&found, form, out),
        }
    }

    /// The projects that fit, best first.
    pub fn find_project(&mut self, name: &str) -> Vec<Candidate> {
        let now = SystemClock.now();
        // Projects are in the user's home, wherever settings and sessions are.
        let user_home = self.places.env.non_empty("HOME").map(Path::new).filter(|home| home.is_absolute());
        let bases = default_bases(user_home.unwrap_or_else(|| self.places.home.user_home()));
        let homes = [self.places.home.clone()];
        let search = ProjectSearch { homes: &homes, bases: &bases, name, depth: DEPTH };
        find_project(&search, now)
            .into_iter()
            .map(|found| Candidate {
                matched: match found.matched {
                    NameMatch::Exact => "exact",
                    NameMatch::Prefix => "prefix",
                    NameMatch::Substring => "substring",
                },
                proof: match found.proof {
                    Proof::Register => "register",
                    Proof::Hash => "hash",
                    Proof::PathsAndHash => "paths and hash",
                    Proof::Inferred => "paths",
                },
                inferred: found.proof == Proof::Inferred,
                folders: found.chats_dirs,
                sessions: found
                    .sessions
                    .iter()
                    .map(|info| rows::from_info(info, Some(&found.root), now))
                    .collect(),
                root: found.root,
            })
            .collect()
    }

    /// The whole record of a session.
    pub fn record(&mut self, which: &Which) -> Result<Value, Failure> {
        match pick(&self.places, which, Reach::Anywhere)? {
            SelectedSession::Own(own) => {
                let (record, damage) = export(&own.info.path)
                    .map_err(|error| Failure::from_error(ExitKind::Input, &error))?;
                self.note_damage(&own.info.path, damage.as_ref());
                Ok(record)
            }
            SelectedSession::Foreign(found) => Err(Failure::new(
                ExitKind::Input,
                format!("cannot export a session of {}; only sessions of Pollux and gemini-cli can be exported", found.store.agent.label()),
            )
            .hint("import it first with `pollux sessions import`, or use `pollux sessions transcript --format jsonl`")),
        }
    }

    /// Writes a text into a file; `replace` says what happens to one that is there.
    pub fn write(&self, file: &Path, text: &str, replace: bool) -> Result<PathBuf, Failure> {
        let path = self.places.env.cwd().join(file);
        output_file::write(&path, text, replace)?;
        Ok(path)
    }

    /// Copies a file or a session into a session of this project.
    pub fn import(&mut self, what: &Which) -> Result<Imported, Failure> {
        let (imported, damage) = incoming::import(&self.places, &self.options, what)?;
        self.note_damage(Path::new(&imported.from), damage.as_ref());
        Ok(imported)
    }

    pub fn deletion(&mut self, which: &Which) -> Result<Proposal<Removals, Removed>, Failure> {
        let own = self.own(which, "nothing was deleted")?;
        removals::of_session(&own)
    }

    pub fn pruning(&mut self) -> Result<Proposal<Removals, Removed>, Failure> {
        let start = pollux_host::start(&self.options, &self.places.env)?;
        removals::of_old(&self.places, &start.settings.groups.general.retention)
    }

    pub fn verify(&mut self, mend: bool) -> Vec<Checked> {
        let now = SystemClock.now();
        let mut reports = verify(&self.places.chats_dirs());
        reports
            .drain(..)
            .map(|report| {
                let mut checked = Checked {
                    file: report.path,
                    id: report.session.map(|id| id.as_str().to_owned()),
                    messages: report.messages,
                    problems: Vec::new(),
                    backup: None,
                    solved: Vec::new(),
                    not_repaired: None,
                };
                let mut left = report.problems;
                if mend && left.iter().any(Wrong::is_repairable) {
                    match repair(&checked.file, now) {
                        Ok(done) => {
                            checked.backup = done.backup;
                            checked.solved = done.solved.iter().map(ToString::to_string).collect();
                            left = done.left;
                        }
                        Err(error) => checked.not_repaired = Some(error.to_string()),
                    }
                }
                checked.problems = left.iter().map(problem).collect();
                checked
            })
            .collect()
    }

    pub fn statistics(&mut self) -> Statistics {
        let everything = Wanted { all_projects: true, source: None, subagents: true, in_full: false };
        let mut catalogue = self.places.open_catalogue();
        let refreshed = self.places.refresh(&mut catalogue, &self.places.sources(&everything));
        self.notes.extend(unreadable(&refreshed.unreadable));
        let now = SystemClock.now();
        let mut projects: Vec<String> = catalogue
            .list(&self.places.filter(&everything))
            .iter()
            .map(|listed| rows::from_record(&listed.record, listed.origin, now, false).project)
            .collect();
        projects.sort();
        projects.dedup();
        let sums = catalogue.statistics();
        let by_source = Origin::ALL
            .into_iter()
            .filter_map(|origin| Some((source_word(origin), *sums.by_origin.get(&origin)?)))
            .collect();
        Statistics {
            sessions: sums.sessions,
            by_source,
            projects: projects.len(),
            messages: sums.messages,
            tool_calls: sums.tool_calls,
            errors: sums.errors,
            tokens: sums.tokens,
            bytes: sums.bytes,
            index: catalogue.is_kept().then(|| (self.places.index_file(), sums.index_bytes)),
        }
    }

    pub fn rewind(
        &mut self,
        which: &Which,
        to: &str,
        what: RewindWhat,
        overwrite: bool,
    ) -> Result<Proposal<WayBack, Rewound>, Failure> {
        let own = self.own(which, "nothing was rewound")?;
        let start = pollux_host::start(&self.options, &self.places.env)?;
        let settings = &start.settings.groups.general.rewind;
        let way = going_back::Way { places: &self.places, settings, what, overwrite };
        going_back::proposal(&way, &own, to)
    }

    /// Lines for stderr about what was passed over.
    pub fn notes(&mut self) -> Vec<String> {
        std::mem::take(&mut self.notes)
    }
}

fn problem(wrong: &Wrong) -> Problem {
    let is_damage = match wrong {
        Wrong::Unreadable(_)
        | Wrong::Torn { .. }
        | Wrong::UnreadableRecords(_)
        | Wrong::MissingIds(_)
        | Wrong::DuplicateIds(_)
        | Wrong::LostBlobs(_) => true,
        // A run that was cut off; going on works.
        Wrong::UnansweredCalls(_) | Wrong::StaleLock(_) => false,
    };
    Problem { text: wrong.to_string(), is_damage, is_repairable: wrong.is_repairable() }
}
