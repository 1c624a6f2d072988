//! What a stored session has spent.

use pollux_domain::budget::Spent;
use pollux_domain::model::Usage;

use crate::load::StoredSession;
use crate::message::{Message, own};

/// What a session has spent, as far as its file tells.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Spending {
    /// The last record of it; a session without a budget has none.
    pub recorded: Spent,
    /// The replies that the record does not cover, with their models.
    pub since: Vec<(String, Usage)>,
}

/// Reads what a session has spent.
pub fn spending(session: &StoredSession) -> Spending {
    let mut found = Spending::default();
    for message in &session.messages {
        let (extra, reply) = match message {
            Message::User(message) => (&message.extra, None),
            Message::Notice(message) => (&message.extra, None),
            Message::Reply(message) => (&message.extra, Some(message)),
            Message::Other { fields, .. } => (fields, None),
        };
        if let Some(spent) = own::spent(extra) {
            found = Spending { recorded: spent, since: Vec::new() };
        } else if let Some(reply) = reply
            && let Some(usage) = &reply.usage
        {
            found.since.push((reply.model.clone().unwrap_or_default(), **usage));
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use pollux_domain::content::Part;
    use pollux_domain::event::Severity;
    use pollux_domain::model::MicroUsd;
    use pollux_domain::time::Timestamp;

    use super::*;
    use crate::{NewSession, Recorder, ReplyRecord, SessionFormat, load};

    fn reply(input: u64) -> ReplyRecord {
        ReplyRecord {
            parts: vec![Part::text("x")],
            thoughts: Vec::new(),
            usage: Some(Usage { input, total: input, ..Usage::default() }),
            model: "m".into(),
            origin: None,
            calls: Vec::new(),
        }
    }

    #[test]
    fn the_last_record_counts_and_replies_after_it() {
        for format in [SessionFormat::Json, SessionFormat::Jsonl] {
            let dir = tempfile::tempdir().unwrap();
            let now = Timestamp::from_millis(1_770_000_000_000);
            let mut recorder = Recorder::create(NewSession::of_test(dir.path(), format, now)).unwrap();
            recorder.user(&[Part::text("hi")], None, now).unwrap();
            recorder.reply(&reply(7), now).unwrap();
            let read = |recorder: &Recorder| spending(&load(recorder.path().unwrap()).unwrap());
            let seven = Usage { input: 7, total: 7, ..Usage::default() };
            assert_eq!(read(&recorder), Spending { since: vec![("m".into(), seven)], ..Spending::default() });
            let spent = Spent { usd: MicroUsd(12), tokens: 30, requests: 2, millis: 4 };
            recorder.note_spent(spent);
            recorder.notice(Severity::Error, "no", now).unwrap();
            assert_eq!(read(&recorder), Spending { recorded: spent, since: Vec::new() });
            recorder.note_spent(spent.plus(spent));
            recorder.reply(&reply(9), now).unwrap();
            assert_eq!(read(&recorder), Spending { recorded: spent.plus(spent), since: Vec::new() });
        }
    }
}
