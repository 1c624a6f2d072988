//! The model that a stored session was last used with.

use pollux_domain::model::{BuiltInProvider, Origin};

use crate::load::StoredSession;
use crate::message::{Message, own};
use crate::session_model::{IMPLIED, SessionModel, is_implied};

/// What a reply says of the model that wrote it.
fn of_reply(origin: Option<&Origin>, model: Option<&str>) -> Option<SessionModel> {
    let Some(origin) = origin.filter(|origin| !origin.is_implied()) else {
        let model = model.filter(|model| model.starts_with("gem") || model.starts_with("models/"))?;
        return Some(SessionModel { provider: IMPLIED.to_owned(), name: model.to_owned(), local: false });
    };
    let provider = origin.provider.as_str();
    let name = match is_implied(provider) {
        true => origin.model.clone(),
        false => format!("{provider}/{}", origin.model),
    };
    let built_in = BuiltInProvider::find(provider).is_some_and(|row| row.local);
    Some(SessionModel {
        provider: provider.to_owned(),
        name,
        local: built_in || is_this_machine(&origin.host),
    })
}

/// Whether a host, as replies record it, is the user's own machine.
fn is_this_machine(host: &str) -> bool {
    let host = host.split_once("://").map_or(host, |(_, rest)| rest);
    let host = host.split('/').next().unwrap_or_default();
    ["127.", "localhost", "[::1]"].iter().any(|start| host.starts_with(start))
}

/// The model that a session was last used with, if its file tells. A model that only stood in for the chosen one
/// does not count.
pub fn last_model(session: &StoredSession) -> Option<SessionModel> {
    let mut replied = None;
    for message in session.messages.iter().rev() {
        match message {
            Message::User(user) => {
                let chosen = own::model(&user.extra).or(replied);
                if chosen.is_some() {
                    return chosen;
                }
                replied = None;
            }
            Message::Reply(reply) => {
                if let Some(chosen) = own::model(&reply.extra) {
                    return Some(chosen);
                }
                let said = || of_reply(reply.origin.as_deref(), reply.model.as_deref());
                replied = replied.or_else(said);
            }
            Message::Notice(_) | Message::Other { .. } => {}
        }
    }
    replied
}

#[cfg(test)]
mod tests {
    use pollux_domain::content::Part;
    use pollux_domain::id::SessionId;
    use pollux_domain::model::{Dialect, ProviderId};
    use pollux_domain::time::Timestamp;

    use super::*;
    use crate::{NewSession, Recorder, ReplyRecord, SessionFormat, SessionKind, load};

    fn now() -> Timestamp {
        Timestamp::from_millis(1_800_000_000_000)
    }

    fn model(provider: &str, name: &str, local: bool) -> SessionModel {
        SessionModel { provider: provider.into(), name: name.into(), local }
    }

    fn reply(provider: &'static str, host: &str, name: &str) -> ReplyRecord {
        let origin = Origin {
            provider: ProviderId::new(provider),
            dialect: if provider == IMPLIED { Dialect::GEMINI } else { Dialect::CHAT },
            host: host.into(),
            model: name.into(),
            response_id: None,
            phase: None,
        };
        ReplyRecord {
            parts: vec![Part::text("x")],
            thoughts: Vec::new(),
            usage: None,
            model: name.into(),
            origin: Some(origin.into()),
            calls: Vec::new(),
        }
    }

    /// The last model of a session with these steps: a chosen model, and the replies to a prompt.
    fn last(steps: &[(Option<SessionModel>, &[ReplyRecord])]) -> Option<SessionModel> {
        let dir = tempfile::tempdir().unwrap();
        let mut recorder = Recorder::create(NewSession {
            id: SessionId::random(),
            project_hash: "p".into(),
            chats_dir: dir.path().to_owned(),
            format: SessionFormat::Json,
            kind: SessionKind::Main,
            now: now(),
        })
        .unwrap();
        for (chosen, replies) in steps {
            recorder.note_model(chosen.clone());
            recorder.user(&[Part::text("hi")], None, now()).unwrap();
            for reply in *replies {
                recorder.reply(reply, now()).unwrap();
            }
        }
        let path = recorder.path().unwrap().to_owned();
        drop(recorder);
        last_model(&load(&path).unwrap())
    }

    #[test]
    fn a_prompt_without_an_answer_tells_its_model() {
        let local = model("ollama", "ollama/qwen3", true);
        assert_eq!(last(&[(Some(local.clone()), &[])]), Some(local));
    }

    #[test]
    fn a_stand_in_is_not_the_sessions_model() {
        let local = model("ollama", "ollama/qwen3", true);
        let claude = reply("anthropic", "https://api.anthropic.com", "claude-x");
        assert_eq!(last(&[(Some(local.clone()), std::slice::from_ref(&claude))]), Some(local));
        let gemini = model("gemini", "auto", false);
        assert_eq!(last(&[(Some(gemini.clone()), &[claude])]), Some(gemini));
    }

    #[test]
    fn files_without_a_record_are_read_by_their_replies() {
        let lab = reply("lab", "http://127.0.0.1:8080", "m");
        assert_eq!(last(&[(None, &[lab])]), Some(model("lab", "lab/m", true)));
        let gemini = reply("gemini", "https://generativelanguage.googleapis.com", "gemini-2.5-pro");
        assert_eq!(last(&[(None, &[gemini])]), Some(model("gemini", "gemini-2.5-pro", false)));
        assert_eq!(last(&[(None, &[])]), None);
    }

    #[test]
    fn the_last_choice_counts() {
        let claude = model("anthropic", "anthropic/claude-x", false);
        let local = model("ollama", "ollama/qwen3", true);
        assert_eq!(last(&[(Some(claude.clone()), &[]), (Some(local.clone()), &[])]), Some(local));
        let gemini = reply("gemini", "https://generativelanguage.googleapis.com", "gemini-2.5-pro");
        let chosen = model("gemini", "gemini-2.5-pro", false);
        assert_eq!(last(&[(Some(claude), &[]), (Some(chosen.clone()), &[gemini])]), Some(chosen));
    }
}
