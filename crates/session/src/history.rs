//! From a stored session to a conversation that a model accepts.
//!
//! What comes out is always sound: it starts with the user, roles alternate, every call is followed by
//! exactly one answer, and signatures are on the parts they came with.

mod pairing;

#[cfg(test)]
mod tests;

use pollux_domain::content::{Body, Content, FunctionCall, Part, Role};

use crate::load::StoredSession;
use crate::message::{Message, ReplyMessage, StoredCall, UserMessage, UserText, user_text_kind};
use pairing::OpenCalls;

/// Stands in for the user's words where a conversation would begin with the model's.
const OPENING: &str = "[The conversation continues from here.]";
/// Stands between answers to calls and the next prompt when the model never got to speak.
const INTERRUPTED_REPLY: &str = "[My reply was interrupted.]";
/// What the model says to the snapshot of a compressed conversation.
const ACKNOWLEDGED: &str = "Understood. I have the context and will continue from there.";

/// One turn for the model, with the message it came from.
#[derive(Debug, Clone, PartialEq)]
pub struct RestoredTurn {
    /// The first message of the turn; `None` for answers to calls and for what repair added.
    pub message_id: Option<String>,
    pub content: Content,
}

/// The conversation as the model should see it again. Thoughts, notices and commands are left out; of a
/// compressed session the last snapshot and what was kept.
pub fn history(session: &StoredSession) -> Vec<RestoredTurn> {
    restored(session.messages.clone())
}

/// The same of a session that is not needed any more: a long one is not held twice in memory.
pub fn into_history(session: StoredSession) -> Vec<RestoredTurn> {
    restored(session.messages)
}

fn restored(messages: Vec<Message>) -> Vec<RestoredTurn> {
    let mut builder = Builder::default();
    let messages = builder.start_from_snapshot(messages);
    let mut spoken = messages
        .into_iter()
        .filter(|message| matches!(message, Message::User(_) | Message::Reply(_)))
        .peekable();
    while let Some(message) = spoken.next() {
        match message {
            Message::User(user) => {
                let was_answered = matches!(spoken.peek(), Some(Message::Reply(_)));
                builder.user(user, was_answered);
            }
            Message::Reply(reply) => builder.reply(reply),
            Message::Notice(_) | Message::Other { .. } => {}
        }
    }
    builder.finish()
}

#[derive(Default)]
struct Builder {
    turns: Vec<RestoredTurn>,
    /// The calls of the last model turn, until something else is said.
    open: OpenCalls,
}

impl Builder {
    /// Begins with the last snapshot, if there is one, and returns the messages that follow it.
    fn start_from_snapshot(&mut self, mut messages: Vec<Message>) -> Vec<Message> {
        let compressed = messages.iter().enumerate().rev().find_map(|(index, message)| match message {
            Message::Notice(notice) => notice.compression.clone().map(|compression| (index, compression)),
            _ => None,
        });
        let Some((record, compression)) = compressed else { return messages };
        let snapshot = vec![Part::text(compression.snapshot)];
        self.push(RestoredTurn { message_id: None, content: Content::user(snapshot) });
        self.push(RestoredTurn { message_id: None, content: Content::model(vec![Part::text(ACKNOWLEDGED)]) });
        let before = messages.get(..record).unwrap_or_default();
        let kept_from = compression.keep_from.as_ref();
        let kept = kept_from.and_then(|id| before.iter().position(|message| message.id() == id));
        messages.drain(..kept.unwrap_or(record));
        messages
    }

    fn user(&mut self, message: UserMessage, was_answered: bool) {
        let skip = match user_text_kind(&message.parts) {
            UserText::Blank | UserText::Context => true,
            // A command that the model answered was a prompt after all.
            UserText::Command => !was_answered,
            UserText::Prompt => false,
        };
        if skip {
            return;
        }
        let parts = self.open.take_answers(message.parts);
        let parts: Vec<Part> = parts.into_iter().filter(is_worth_sending).collect();
        if parts.is_empty() {
            return;
        }
        if self.close_calls() {
            let content = Content::model(vec![Part::text(INTERRUPTED_REPLY)]);
            self.push(RestoredTurn { message_id: None, content });
        }
        self.push(RestoredTurn { message_id: Some(message.id), content: Content::user(parts) });
    }

    fn reply(&mut self, message: ReplyMessage) {
        let ReplyMessage { id, parts, mut calls, origin, .. } = message;
        let parts = reply_parts(&id, parts, &mut calls);
        if parts.is_empty() {
            return;
        }
        self.close_calls();
        let content = Content { origin, ..Content::model(parts) };
        self.open = OpenCalls::of(&content, calls);
        self.push(RestoredTurn { message_id: Some(id), content });
    }

    /// Answers the calls that are open. True if there were any.
    fn close_calls(&mut self) -> bool {
        let answers = std::mem::take(&mut self.open).answers();
        if answers.is_empty() {
            return false;
        }
        self.push(RestoredTurn { message_id: None, content: Content::user(answers) });
        true
    }

    /// Adds a turn, joining it with the one before if the same side speaks.
    fn push(&mut self, turn: RestoredTurn) {
        match self.turns.last_mut() {
            Some(last) if last.content.role == turn.content.role => {
                last.message_id = last.message_id.take().or(turn.message_id);
                last.content.parts.extend(turn.content.parts);
            }
            None if turn.content.role == Role::Model => {
                let content = Content::user_text(OPENING);
                self.turns.extend([RestoredTurn { message_id: None, content }, turn]);
            }
            _ => self.turns.push(turn),
        }
    }

    fn finish(mut self) -> Vec<RestoredTurn> {
        self.close_calls();
        self.turns
    }
}

/// The reply as the model gave it: its content as it is if it holds calls, else text and then the calls.
fn reply_parts(id: &str, mut parts: Vec<Part>, calls: &mut [StoredCall]) -> Vec<Part> {
    parts.retain(is_worth_sending);
    let verbatim = parts.iter().any(|part| part.as_call().is_some());
    if verbatim {
        pairing::name_calls(&mut parts, id, calls);
        return parts;
    }
    // An answer in a model's turn has no place in a conversation.
    parts.retain(|part| !matches!(part.body, Body::Response(_)));
    parts.extend(calls.iter_mut().map(|call| {
        let id = Some(call.id.as_str().to_owned());
        let mut part = Part::call(FunctionCall::new(id, call.name.clone(), std::mem::take(&mut call.args)));
        part.seal = call.seal.take();
        part
    }));
    parts
}

fn is_worth_sending(part: &Part) -> bool {
    !part.is_blank() && !matches!(part.body, Body::Reasoning { seal: None, .. })
}
