//! `pollux bug`: a file with everything that a bug report needs, and nothing else.

mod arguments;
mod environment;
mod known_secrets;

use std::path::PathBuf;

use pollux_capsule::{Capsule, Concealment, Contents, FORMAT, MAX_BYTES, SessionRecord};
use pollux_domain::exit::ExitKind;
use pollux_domain::failure::{Failure, print_result};
use pollux_domain::plural::counted;
use pollux_domain::terminal_text;
use pollux_host::load_settings;
use pollux_host::sessions::pick::{Reach, SelectedSession, pick};
use pollux_host::sessions::places::SessionPlaces;
use pollux_host::sessions::{SessionSource, Which};
use pollux_host::trust::home;
use pollux_session::{SessionInfo, StoredSession, load, subagents};
use serde_json::json;

pub use arguments::{BugArgs, BugCommand};

use crate::context::Context;
use crate::output_file;

/// The question before contents are written.
const WITH_CONTENTS: &str = "\
The file will contain the session's prompts, replies, thoughts, tool arguments and results, including parts of files.
Recognised secrets, your home folder and your user name are removed. Review the file before you share it.";

/// Runs the command.
pub fn run(command: &BugCommand, context: &mut Context<'_>) -> Result<(), Failure> {
    let found = session(command, context);
    let session = match &found {
        Err(failure) if command.session.is_some() => return Err(failure.clone()),
        found => found.as_ref().ok(),
    };
    if command.with_contents {
        context.agreed(command.yes, "Write it?", WITH_CONTENTS)?;
    }
    let loaded = load_settings(context.request, context.env);
    let private = known_secrets::private(loaded.as_ref().ok(), context.env);
    let concealment = match command.with_contents {
        true => Concealment::Redact(private),
        false => Concealment::hide(private),
    };
    let contents = if command.with_contents { Contents::Redacted } else { Contents::Hidden };
    let capsule = Capsule {
        format: FORMAT,
        contents,
        environment: environment::value(&loaded, context, contents, &concealment),
        sessions: session.map(|session| records(session, &concealment)).transpose()?.unwrap_or_default(),
    };
    let text = serde_json::to_string_pretty(&capsule).map(|text| terminal_text::json(text + "\n"));
    let text = text.map_err(|error| Failure::from_error(ExitKind::Failure, &error))?;
    if text.len() as u64 > MAX_BYTES {
        let size = text.len() / (1024 * 1024);
        let failure = Failure::new(ExitKind::Failure, format!("the report is {size} MiB (limit: 32 MiB)"));
        return Err(if command.with_contents {
            failure.hint("leave out `--with-contents`")
        } else {
            failure
        });
    }
    let id = session.map_or_else(|| "no-session".to_owned(), |session| session.id.short());
    let file = command.output.clone().unwrap_or_else(|| PathBuf::from(format!("pollux-bug-{id}.json")));
    let file = context.env.cwd().join(file);
    output_file::write(&file, &text, command.yes)?;
    let events: usize = capsule.sessions.iter().map(|session| session.events.len()).sum();
    context.warn(&[summary(contents, &found, events)]);
    if command.json {
        let id = session.map(|session| session.id.as_str());
        let told =
            json!({"file": file.to_string_lossy(), "sessionId": id, "events": events, "contents": contents});
        return print_result(context.out, &terminal_text::json(format!("{told:#}\n")));
    }
    print_result(context.out, &terminal_text::plain(&format!("{}\n", file.display())))
}

/// The session to report.
fn session(command: &BugCommand, context: &Context<'_>) -> Result<SessionInfo, Failure> {
    let places = SessionPlaces::new(context.env, home(context.env)?, false);
    let id = command.session.clone().unwrap_or_else(|| "latest".to_owned());
    let which = Which { id, all_projects: false, source: Some(SessionSource::Gemini) };
    match pick(&places, &which, Reach::Anywhere) {
        Ok(SelectedSession::Own(own)) => Ok(own.info),
        Ok(SelectedSession::Foreign(_)) => {
            Err(Failure::new(ExitKind::Input, "sessions of other agents cannot be reported"))
        }
        Err(failure) => Err(failure),
    }
}

/// The session and its sub-agents, with their events numbered through.
fn records(info: &SessionInfo, concealment: &Concealment) -> Result<Vec<SessionRecord>, Failure> {
    let session = load(&info.path).map_err(|error| Failure::from_error(ExitKind::Input, &error))?;
    let mut records: Vec<SessionRecord> = Vec::new();
    let mut add = |session: &StoredSession, subagent| {
        let first = 1 + records.iter().map(|record| record.events.len()).sum::<usize>();
        records.push(SessionRecord::of(session, subagent, concealment, first));
    };
    add(&session, false);
    // What cannot be read is left out; the doctor's findings say so.
    for agent in subagents(info).iter().filter_map(|agent| load(&agent.file).ok()) {
        add(&agent, true);
    }
    Ok(records)
}

fn summary(contents: Contents, session: &Result<SessionInfo, Failure>, events: usize) -> String {
    let written = match (session, contents) {
        (Err(failure), _) => format!("and checks; {}", failure.summary),
        (Ok(_), Contents::Hidden) => {
            let events = counted(events, "event");
            format!("checks, and {events} of the session, with placeholders for texts, arguments and results")
        }
        (Ok(_), Contents::Redacted) => {
            format!("checks, and {} of the session, without secrets", counted(events, "event"))
        }
    };
    let replay = if session.is_ok() { " Run `pollux replay` to replay the session." } else { "" };
    format!(
        "Wrote versions, settings without secrets, {written}. Review the file before you share it.{replay}"
    )
}

#[cfg(test)]
mod tests;
