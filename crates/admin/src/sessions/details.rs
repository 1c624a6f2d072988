//! One session at length: its facts, its prompts, its transcript.

use std::io::{self, Write};

use pollux_catalogue::Origin;
use pollux_domain::exit::ExitKind;
use pollux_domain::failure::Failure;
use pollux_domain::time::{Clock, SystemClock};
use pollux_foreign::{ForeignBody, ForeignMessage};
use pollux_host::sessions::pick::{Foreign, Own};
use pollux_host::sessions::places::SessionPlaces;
use pollux_host::sessions::rows;
use pollux_session::{
    IndexRecord, LoadError, RepairNote, SessionFormat, TextKind, Transcript, TranscriptError, TranscriptForm,
    damage, subagents, summarise, visit_texts, write_transcript,
};

use super::{Details, Prompt, TranscriptFormat};

/// The session, and what is damaged in its file.
pub(super) fn of_own(own: &Own, places: &SessionPlaces) -> Result<(Details, Option<RepairNote>), Failure> {
    let now = SystemClock.now();
    let failed = |error: LoadError| Failure::from_error(ExitKind::Input, &error);
    let mut record = summarise(&own.info.path).map_err(failed)?;
    record.project_path.clone_from(&own.root);
    let mut row = rows::from_record(&record, Origin::Own, now, true);
    if places.is_here(&record.file) && !row.is_subagent {
        let listing = pollux_session::list(places.project.read_chat_dirs(), now);
        let place = listing.sessions.iter().position(|session| session.id == own.info.id);
        row.number = place.map(|place| place + 1);
    }
    let children = subagents(&own.info);
    let damage = damage(&own.info.path).map_err(failed)?;
    let details = Details {
        facts: facts(&record, row.number, "Pollux or gemini-cli"),
        prompts: prompts(own).map_err(failed)?,
        subagents: children.iter().map(|child| rows::from_record(child, Origin::Own, now, true)).collect(),
        row,
    };
    Ok((details, damage))
}

pub(super) fn of_foreign(found: &Foreign) -> Result<Details, Failure> {
    let record = &found.listed.record;
    let prompts = conversation(found)?.into_iter().filter_map(|message| match message.body {
        ForeignBody::User(text) => Some(Prompt { id: message.id, text, time: message.time }),
        ForeignBody::Agent(_) | ForeignBody::Call(_) | ForeignBody::Error(_) => None,
    });
    Ok(Details {
        row: rows::from_record(record, found.listed.origin, SystemClock.now(), true),
        facts: facts(record, None, found.store.agent.label()),
        prompts: prompts.collect(),
        subagents: Vec::new(),
    })
}

/// The user's prompts, in order. `rewind --to` takes their numbers.
pub(super) fn prompts(own: &Own) -> Result<Vec<Prompt>, LoadError> {
    let mut prompts: Vec<Prompt> = Vec::new();
    visit_texts(&own.info.path, &mut |kind, id, time, text| {
        if kind == TextKind::User && prompts.last().is_none_or(|last| last.id != id) {
            prompts.push(Prompt { id: id.to_owned(), text: text.to_owned(), time });
        }
    })?;
    Ok(prompts)
}

fn facts(record: &IndexRecord, number: Option<usize>, agent: &str) -> Vec<(&'static str, String)> {
    let format = match record.format {
        SessionFormat::Json => "json",
        SessionFormat::Jsonl => "jsonl",
    };
    let mut facts = vec![("session", record.session_id.as_str().to_owned())];
    facts.extend(number.map(|number| ("number", number.to_string())));
    if let Some(project) = &record.project_path {
        facts.push(("project", project.to_string_lossy().into_owned()));
    }
    facts.extend([
        ("agent", agent.to_owned()),
        ("file", record.file.to_string_lossy().into_owned()),
        ("format", format.to_owned()),
        ("started", record.start.to_iso()),
        ("updated", record.last_updated.to_iso()),
        ("messages", format!("{} ({} prompts)", record.messages, record.user_messages)),
        ("tool calls", record.tool_calls.to_string()),
        ("errors", record.errors.to_string()),
    ]);
    if record.usage.total > 0 {
        facts.push(("tokens", record.usage.total.to_string()));
    }
    if !record.models.is_empty() {
        facts.push(("models", record.models.join(", ")));
    }
    if record.damaged {
        facts.push(("damaged", "run `pollux sessions verify`".to_owned()));
    }
    facts
}

/// Prints the transcript; returns what is damaged in the file.
pub(super) fn own_transcript(
    own: &Own,
    form: TranscriptFormat,
    out: &mut dyn Write,
) -> Result<Option<RepairNote>, Failure> {
    write_transcript(&own.info.path, form_of(form), out).map_err(|error| match error {
        TranscriptError::Write(source) => unwritable(&source),
        TranscriptError::Load(error) => Failure::from_error(ExitKind::Input, &error),
    })
}

pub(super) fn foreign_transcript(
    found: &Foreign,
    form: TranscriptFormat,
    out: &mut dyn Write,
) -> Result<(), Failure> {
    let mut transcript = Transcript::new(form_of(form), out);
    for message in conversation(found)? {
        let (time, id) = (message.time, message.id.as_str());
        let written = match &message.body {
            ForeignBody::User(text) => transcript.said("user", text, time, id),
            ForeignBody::Agent(text) => transcript.said("agent", text, time, id),
            ForeignBody::Error(text) => transcript.said("error", text, time, id),
            ForeignBody::Call(call) => {
                transcript.called(&call.name, &call.args, call.status, call.error.as_deref(), time)
            }
        };
        written.map_err(|error| unwritable(&error))?;
    }
    transcript.finish().map_err(|error| unwritable(&error))
}

pub(super) fn conversation(found: &Foreign) -> Result<Vec<ForeignMessage>, Failure> {
    found.store.conversation(&found.entry).map_err(|error| Failure::from_error(ExitKind::Input, &error))
}

fn form_of(form: TranscriptFormat) -> TranscriptForm {
    match form {
        TranscriptFormat::Text => TranscriptForm::Text,
        TranscriptFormat::Markdown => TranscriptForm::Markdown,
        TranscriptFormat::JsonLines => TranscriptForm::JsonLines,
    }
}

/// A closed pipe is not a failure: the reader has seen enough.
fn unwritable(error: &io::Error) -> Failure {
    let gone = error.kind() == io::ErrorKind::BrokenPipe;
    let exit = if gone { ExitKind::Success } else { ExitKind::Failure };
    Failure::new(exit, format!("could not write to stdout: {error}"))
}
