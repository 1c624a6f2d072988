//! Making a session of this project from something else.

use std::path::Path;

use pollux_catalogue::Origin;
use pollux_config::groups::Durability;
use pollux_domain::event::Severity;
use pollux_domain::exit::ExitKind;
use pollux_domain::failure::Failure;
use pollux_domain::id::SessionId;
use pollux_domain::time::{Clock, SystemClock};
use pollux_foreign::{ForeignAgent, ForeignMessage, ForeignStore, to_messages};
use pollux_host::request::Request;
use pollux_host::sessions::Which;
use pollux_host::sessions::new_session;
use pollux_host::sessions::pick::{Reach, SelectedSession, pick};
use pollux_host::sessions::places::{SessionPlaces, origin};
use pollux_host::start;
use pollux_session::{Message, RecordError, Recorder, ReplyRecord, import as import_file};
use pollux_session::{NewSession, RepairNote};

use super::Imported;

/// A file if there is one of that name, otherwise a session. Returns also what is damaged in a file of ours.
pub(super) fn import(
    places: &SessionPlaces,
    options: &Request,
    what: &Which,
) -> Result<(Imported, Option<RepairNote>), Failure> {
    let format = start(options, &places.env)?.settings.groups.general.session_format;
    let new = new_session(&SessionId::random(), &places.project, format);
    let file = places.env.cwd().join(&what.id);
    if file.is_file() {
        return match what.source.map(origin) {
            None | Some(Origin::Own) => own_file(&file, &new),
            Some(Origin::Foreign(agent)) => Ok((foreign_file(places, &file, agent, new)?, None)),
        };
    }
    match pick(places, what, Reach::Anywhere)? {
        SelectedSession::Own(own) => own_file(&own.info.path, &new),
        SelectedSession::Foreign(found) => {
            let from = format!("{} session {}", found.store.agent.label(), found.listed.record.session_id);
            Ok((record(super::details::conversation(&found)?, from, new)?, None))
        }
    }
}

fn own_file(file: &Path, new: &NewSession) -> Result<(Imported, Option<RepairNote>), Failure> {
    let session = import_file(file, new).map_err(|error| {
        Failure::from_error(ExitKind::Input, &error)
            .hint("`--source claude`, `codex` or `opencode` reads other agents' files")
    })?;
    let imported = Imported {
        id: session.id.to_string(),
        messages: session.messages.len(),
        file: session.path,
        from: file.to_string_lossy().into_owned(),
    };
    Ok((imported, session.repaired))
}

/// A file of another agent, in its store or copied from there.
fn foreign_file(
    places: &SessionPlaces,
    file: &Path,
    agent: ForeignAgent,
    new: NewSession,
) -> Result<Imported, Failure> {
    let id = file.file_stem().unwrap_or_default().to_string_lossy();
    let store = places.store(agent).filter(|store| file.starts_with(&store.root));
    let folder = file.parent().unwrap_or(Path::new("/"));
    let store = store.unwrap_or_else(|| ForeignStore::new(agent, folder.to_owned()));
    let unusable = || {
        let text = format!("`{}` is not a session of {}", file.display(), agent.label());
        Failure::new(ExitKind::Input, text)
    };
    let entry = store.entry(file, &id).ok_or_else(unusable)?;
    let conversation =
        store.conversation(&entry).map_err(|error| Failure::from_error(ExitKind::Input, &error))?;
    record(conversation, file.to_string_lossy().into_owned(), new)
}

/// Writes the conversation down as if it had been held here; calls are notes in the model's words.
fn record(conversation: Vec<ForeignMessage>, from: String, new: NewSession) -> Result<Imported, Failure> {
    let messages = to_messages(&conversation);
    if messages.is_empty() {
        return Err(Failure::new(ExitKind::Input, format!("no conversation in {from}")));
    }
    let failed = |error: RecordError| Failure::from_error(ExitKind::Failure, &error);
    let start = new.now;
    let mut recorder = Recorder::create(new).map_err(failed)?;
    recorder.set_durability(Durability::Power);
    for message in &messages {
        match message {
            Message::User(user) => {
                recorder.user(&user.parts, None, user.time.unwrap_or(start)).map_err(failed)?;
            }
            Message::Reply(reply) => {
                let said = ReplyRecord {
                    parts: reply.parts.clone(),
                    thoughts: Vec::new(),
                    usage: None,
                    model: reply.model.clone().unwrap_or_default(),
                    origin: None,
                    calls: Vec::new(),
                };
                recorder.reply(&said, reply.time.unwrap_or(start)).map_err(failed)?;
            }
            Message::Notice(_) | Message::Other { .. } => {}
        }
    }
    // Last, so that the session counts as used now.
    let note = format!("Imported session from {from}");
    recorder.notice(Severity::Info, &note, SystemClock.now()).map_err(failed)?;
    let file = recorder.path().map(Path::to_path_buf).unwrap_or_default();
    Ok(Imported { id: recorder.session().to_string(), file, from, messages: messages.len() })
}
