//! From a stored session to a conversation that a model accepts.
//!
//! What comes out is always sound: it starts with the user, roles alternate, every call is followed by
//! exactly one answer, and signatures are on the parts they came with.

mod pairing;

#[cfg(test)]
mod tests;

use pollux_domain::content::{Body, Content, FunctionCall, Part, Role};

use crate::load::StoredSession;
use crate::message::{Message, ReplyMessage, UserMessage, UserText, user_text_kind};
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
    let mut builder = Builder::default();
    let messages = builder.start_from_snapshot(&session.messages);
    for (index, message) in messages.iter().enumerate() {
        match message {
            Message::User(user) => {
                let answered = next_spoken(messages.get(index + 1..).unwrap_or_default());
                builder.user(user, matches!(answered, Some(Message::Reply(_))));
            }
            Message::Reply(reply) => builder.reply(reply),
            Message::Notice(_) | Message::Other { .. } => {}
        }
    }
    builder.finish()
}

fn next_spoken<'a>(messages: &[&'a Message]) -> Option<&'a Message> {
    messages.iter().copied().find(|message| matches!(message, Message::User(_) | Message::Reply(_)))
}

#[derive(Default)]
struct Builder {
    turns: Vec<RestoredTurn>,
    /// The calls of the last model turn, until something else is said.
    open: OpenCalls,
}

impl Builder {
    /// Begins with the last snapshot, if there is one, and returns the messages that follow it.
    fn start_from_snapshot<'a>(&mut self, messages: &'a [Message]) -> Vec<&'a Message> {
        let compressed = messages.iter().enumerate().rev().find_map(|(index, message)| match message {
            Message::Notice(notice) => notice.compression.as_ref().map(|compression| (index, compression)),
            _ => None,
        });
        let Some((record, compression)) = compressed else { return messages.iter().collect() };
        let snapshot = vec![Part::text(&compression.snapshot)];
        self.push(RestoredTurn { message_id: None, content: Content::user(snapshot) });
        self.push(RestoredTurn { message_id: None, content: Content::model(vec![Part::text(ACKNOWLEDGED)]) });
        let before = messages.get(..record).unwrap_or_default();
        let kept_from = compression.keep_from.as_ref();
        let kept = kept_from.and_then(|id| before.iter().position(|message| message.id() == id));
        let kept = before.get(kept.unwrap_or(record)..).unwrap_or_default();
        kept.iter().chain(messages.get(record + 1..).unwrap_or_default()).collect()
    }

    fn user(&mut self, message: &UserMessage, was_answered: bool) {
        let skip = match user_text_kind(&message.parts) {
            UserText::Blank | UserText::Context => true,
            // A command that the model answered was a prompt after all.
            UserText::Command => !was_answered,
            UserText::Prompt => false,
        };
        if skip {
            return;
        }
        let parts = self.open.take_answers(&message.parts);
        let parts: Vec<Part> = parts.into_iter().filter(is_worth_sending).collect();
        if parts.is_empty() {
            return;
        }
        if self.close_calls() {
            let content = Content::model(vec![Part::text(INTERRUPTED_REPLY)]);
            self.push(RestoredTurn { message_id: None, content });
        }
        self.push(RestoredTurn { message_id: Some(message.id.clone()), content: Content::user(parts) });
    }

    fn reply(&mut self, message: &ReplyMessage) {
        let parts = reply_parts(message);
        if parts.is_empty() {
            return;
        }
        self.close_calls();
        let content = Content::model(parts);
        self.open = OpenCalls::of(&content, &message.calls);
        self.push(RestoredTurn { message_id: Some(message.id.clone()), content });
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
fn reply_parts(message: &ReplyMessage) -> Vec<Part> {
    let mut parts: Vec<Part> = message.parts.iter().filter(|part| is_worth_sending(part)).cloned().collect();
    let verbatim = parts.iter().any(|part| part.as_call().is_some());
    if verbatim {
        pairing::name_calls(&mut parts, &message.id, &message.calls);
        return parts;
    }
    // An answer in a model's turn has no place in a conversation.
    parts.retain(|part| !matches!(part.body, Body::Response(_)));
    parts.extend(message.calls.iter().map(|call| {
        let mut part = Part::call(FunctionCall {
            id: Some(call.id.as_str().to_owned()),
            name: call.name.clone(),
            args: call.args.clone(),
        });
        part.thought_signature.clone_from(&call.signature);
        part
    }));
    parts
}

fn is_worth_sending(part: &Part) -> bool {
    !part.is_blank() && !matches!(part.body, Body::Thought(_))
}
