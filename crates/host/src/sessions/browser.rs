//! The data behind the session browser: rows from the index, search, preview and deletion.

use std::collections::{HashMap, VecDeque};
use std::path::{Path, PathBuf};

use pollux_catalogue::Filter;
use pollux_domain::terminal_text::one_line;
use pollux_domain::time::{Clock, SystemClock, Timestamp};
use pollux_session::{TextKind, list, relative_time, visit_texts};

use super::places::SessionPlaces;
use super::{pick, removals, rows};
use crate::Loaded;
use crate::sessions::{SessionSource, Wanted, Which};

/// Messages shown from each end of a session.
const FROM_EACH_END: usize = 2;
/// Characters shown of a message.
const PREVIEWED: usize = 300;
/// Maximum number of search results.
const HITS: usize = 200;

/// A session that can be resumed.
#[derive(Debug, Clone)]
pub struct StoredChat {
    pub id: String,
    /// As `--list-sessions` counts; those of other projects have none.
    pub number: Option<usize>,
    pub file: PathBuf,
    pub title: String,
    /// The first prompt, if it differs from the title.
    pub first: String,
    pub messages: u64,
    pub updated: Timestamp,
    /// Relative time.
    pub age: String,
    /// The project's folder, if known.
    pub project: String,
    /// Whether it belongs to this project.
    pub here: bool,
}

/// Access to the stored sessions, from any thread.
#[derive(Clone)]
pub struct StoredChats {
    places: SessionPlaces,
}

/// Whether to refresh the index first.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Freshness {
    AsKnown,
    UpToDate,
}

/// The sessions of this project and all others.
pub fn stored_chats(loaded: &Loaded) -> StoredChats {
    StoredChats { places: SessionPlaces::new(&loaded.env, loaded.home.clone(), false) }
}

impl StoredChats {
    /// The resumable sessions. Files that the index knows are not read.
    pub fn rows(&self, all_projects: bool, freshness: Freshness) -> Vec<StoredChat> {
        let now = SystemClock.now();
        let mut catalogue = self.places.open_catalogue();
        if !catalogue.is_kept() && !all_projects {
            return self.listed_here(now);
        }
        let wanted = wanted(all_projects);
        let sources = self.places.sources(&wanted);
        match freshness {
            Freshness::AsKnown => catalogue.look_at(&sources),
            Freshness::UpToDate => drop(self.places.refresh(&mut catalogue, &sources)),
        }
        let listed = catalogue.list(&self.places.filter(&wanted));
        let mut own: Vec<_> = listed
            .iter()
            .filter(|listed| listed.record.resumable && self.places.is_here(&listed.record.file))
            .map(|listed| (listed.record.start, listed.record.file.clone()))
            .collect();
        own.sort();
        let numbers: HashMap<PathBuf, usize> = own.into_iter().map(|(_, file)| file).zip(1..).collect();
        let resumable = listed.into_iter().filter(|listed| listed.record.resumable);
        resumable
            .map(|listed| {
                let row = rows::from_record(&listed.record, listed.origin, now, false);
                let here = self.places.is_here(&listed.record.file);
                let record = listed.record;
                StoredChat {
                    id: row.id,
                    number: numbers.get(&record.file).copied(),
                    title: row.title,
                    first: record.first_user,
                    messages: record.messages,
                    updated: record.last_updated,
                    age: row.age,
                    project: record.project_path.map(|path| path.display().to_string()).unwrap_or_default(),
                    here,
                    file: record.file,
                }
            })
            .collect()
    }

    /// Without an index, only the beginning of each file is read.
    fn listed_here(&self, now: Timestamp) -> Vec<StoredChat> {
        let listing = list(self.places.project.read_chat_dirs(), now);
        let row = |(number, info): (usize, &pollux_session::SessionInfo)| StoredChat {
            id: info.id.as_str().to_owned(),
            number: Some(number),
            file: info.path.clone(),
            title: info.title.clone(),
            first: info.first_user_message.clone(),
            messages: info.message_count.map(|count| count as u64).unwrap_or_default(),
            updated: info.last_updated,
            age: relative_time(info.last_updated, now),
            project: self.places.project.root().display().to_string(),
            here: true,
        };
        (1..).zip(&listing.sessions).map(row).collect()
    }

    /// Full-text search; returns session ids with an excerpt.
    pub fn search(&self, words: &str, all_projects: bool) -> Vec<(String, String)> {
        let wanted = wanted(all_projects);
        let mut catalogue = self.places.open_catalogue();
        self.places.refresh(&mut catalogue, &self.places.sources(&wanted));
        self.places.refresh_texts(&mut catalogue);
        let filter = Filter { limit: Some(HITS), ..self.places.filter(&wanted) };
        let hits = catalogue.search(words, &filter, SystemClock.now());
        let place = |hit: pollux_catalogue::Hit| {
            (
                hit.session.record.session_id.as_str().to_owned(),
                format!("… {} …", one_line(&hit.snippet.text)),
            )
        };
        hits.into_iter().map(place).collect()
    }

    /// The first and the last messages of a session.
    pub fn preview(file: &Path) -> Vec<String> {
        let (mut first, mut last) = (Vec::new(), VecDeque::new());
        let mut between = 0_usize;
        let read = visit_texts(file, &mut |kind, _, _, text| {
            let sign = match kind {
                TextKind::User => ">",
                TextKind::Agent => "✦",
                TextKind::Tool | TextKind::Output | TextKind::Error => return,
            };
            let text: String = text.chars().take(PREVIEWED).collect();
            let line = format!("{sign} {}", one_line(&text));
            if first.len() < FROM_EACH_END {
                first.push(line);
                return;
            }
            last.push_back(line);
            if last.len() > FROM_EACH_END {
                last.pop_front();
                between += 1;
            }
        });
        if let Err(error) = read {
            return vec![error.to_string()];
        }
        if between > 0 {
            first.push(format!("… {between} more messages …"));
        }
        first.extend(last);
        first
    }

    /// Deletes a session with its files; returns a message.
    pub fn delete(&self, id: &str) -> Result<String, String> {
        let which = Which { id: id.to_owned(), all_projects: true, source: Some(SessionSource::Gemini) };
        let found =
            pick::pick(&self.places, &which, pick::Reach::AsTold).map_err(|failure| failure.message())?;
        let pick::SelectedSession::Own(own) = found else {
            return Err("only Pollux sessions can be deleted".to_owned());
        };
        let proposal = removals::of_session(&own).map_err(|failure| failure.message())?;
        let removed = (proposal.carry_out)().map_err(|failure| failure.message())?;
        match removed.skipped.first() {
            Some((_, why)) => Err(format!("The session was not deleted: {why}")),
            None => Ok(format!("Session {} was deleted.", one_line(id))),
        }
    }
}

fn wanted(all_projects: bool) -> Wanted {
    Wanted { all_projects, source: Some(SessionSource::Gemini), subagents: false, in_full: false }
}
