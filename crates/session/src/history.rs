//! Converts a stored session to a conversation that a model accepts.
//!
//! The result is always valid: it starts with the user, roles alternate, every call is followed by
//! exactly one response, and signatures stay on their parts.

mod pairing;

#[cfg(test)]
mod tests;

use pollux_domain::content::{Body, Content, FunctionCall, Part, Role};
use pollux_domain::text::shortened;

use crate::load::StoredSession;
use crate::message::own::{self, UserSource};
use crate::message::{Message, ReplyMessage, StoredCall, UserMessage, UserText, user_text_kind};
use pairing::OpenCalls;

/// Placeholder for a user turn where a conversation would start with the model.
const OPENING: &str = "[The conversation continues from here.]";
/// Placeholder between tool responses and the next prompt if the model's reply is missing.
const INTERRUPTED_REPLY: &str = "[My reply was interrupted.]";
/// Characters of a summarised prompt.
const MAX_SUMMARISED: usize = 200;
/// The model's acknowledgement of a compression snapshot.
const ACKNOWLEDGED: &str = "Understood. I have the context and will continue from there.";

/// One turn for the model, with the message it came from.
#[derive(Debug, Clone, PartialEq)]
pub struct RestoredTurn {
    /// The first message of the turn; `None` for tool responses and repaired turns.
    pub message_id: Option<String>,
    pub content: Content,
    /// Where it comes from, if it is the user's.
    pub source: UserSource,
    /// The beginnings of the prompts that it replaces, if it is a compression snapshot.
    pub summarised: Option<Vec<String>>,
}

impl RestoredTurn {
    pub fn new(message_id: Option<String>, content: Content) -> Self {
        Self { message_id, content, source: UserSource::default(), summarised: None }
    }
}

/// The conversation to send to the model. Thoughts, notices and commands are omitted; a
/// compressed session starts with its last snapshot.
pub fn history(session: &StoredSession) -> Vec<RestoredTurn> {
    restored(session.messages.clone())
}

/// As above, consuming the session, so that a long one is not in memory twice.
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
    /// The open calls of the last model turn.
    open: OpenCalls,
}

impl Builder {
    /// Starts with the last snapshot, if any, and returns the messages after it.
    fn start_from_snapshot(&mut self, mut messages: Vec<Message>) -> Vec<Message> {
        let compressed = messages.iter().enumerate().rev().find_map(|(index, message)| match message {
            Message::Notice(notice) => notice.compression.clone().map(|compression| (index, compression)),
            _ => None,
        });
        let Some((record, compression)) = compressed else { return messages };
        let before = messages.get(..record).unwrap_or_default();
        let kept_from = compression.keep_from.as_ref();
        let kept = kept_from.and_then(|id| before.iter().position(|message| message.id() == id));
        let replaced = messages.drain(..kept.unwrap_or(record));
        let summarised = replaced.filter_map(|message| prompt_beginning(&message)).collect();
        let snapshot = Content::user(vec![Part::text(compression.snapshot)]);
        self.push(RestoredTurn { summarised: Some(summarised), ..RestoredTurn::new(None, snapshot) });
        self.push(RestoredTurn::new(None, Content::model(vec![Part::text(ACKNOWLEDGED)])));
        messages
    }

    fn user(&mut self, message: UserMessage, was_answered: bool) {
        let skip = match user_text_kind(&message.parts) {
            UserText::Blank | UserText::Context => true,
            // A command that the model answered is treated as a prompt.
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
            self.push(RestoredTurn::new(None, content));
        }
        let source = own::source(&message.extra);
        self.push(RestoredTurn { source, ..RestoredTurn::new(Some(message.id), Content::user(parts)) });
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
        self.push(RestoredTurn::new(Some(id), content));
    }

    /// Adds responses for open calls; true if there were any.
    fn close_calls(&mut self) -> bool {
        let answers = std::mem::take(&mut self.open).answers();
        if answers.is_empty() {
            return false;
        }
        self.push(RestoredTurn::new(None, Content::user(answers)));
        true
    }

    /// Adds a turn, merging it with the previous one of the same role.
    fn push(&mut self, turn: RestoredTurn) {
        match self.turns.last_mut() {
            Some(last) if last.content.role == turn.content.role => {
                last.message_id = last.message_id.take().or(turn.message_id);
                last.content.parts.extend(turn.content.parts);
                // A prompt among them can be rewound to.
                last.source = last.source.min(turn.source);
            }
            None if turn.content.role == Role::Model => {
                let content = Content::user_text(OPENING);
                self.turns.extend([RestoredTurn::new(None, content), turn]);
            }
            _ => self.turns.push(turn),
        }
    }

    fn finish(mut self) -> Vec<RestoredTurn> {
        self.close_calls();
        self.turns
    }
}

/// The beginning of a user's prompt; `None` for every other message.
fn prompt_beginning(message: &Message) -> Option<String> {
    let Message::User(user) = message else { return None };
    let is_prompt = matches!(user_text_kind(&user.parts), UserText::Prompt)
        && own::source(&user.extra) != UserSource::Program;
    summarised_prompt(user.parts.iter().filter(|_| is_prompt))
}

/// What is kept of a prompt that a compression snapshot replaces.
pub fn summarised_prompt<'a>(parts: impl IntoIterator<Item = &'a Part>) -> Option<String> {
    let text = parts.into_iter().find_map(Part::spoken_text)?;
    Some(shortened(text, MAX_SUMMARISED))
}

/// The reply as received: its content if that contains the calls, otherwise text followed by calls.
fn reply_parts(id: &str, mut parts: Vec<Part>, calls: &mut [StoredCall]) -> Vec<Part> {
    parts.retain(is_worth_sending);
    let verbatim = parts.iter().any(|part| part.as_call().is_some());
    if verbatim {
        pairing::name_calls(&mut parts, id, calls);
        return parts;
    }
    // A tool response in a model turn is invalid.
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
