//! Which call an answer belongs to, in ids that a server accepts.
//!
//! The program's ids are longer than those that the model gave, other servers may have given them, and some calls
//! have none. One request's ids are laid out at once and in order, so that a conversation that only grew keeps the
//! ids it was sent with.

use std::collections::{HashMap, HashSet};

use pollux_domain::content::{Body, Content, FunctionCall, FunctionResponse, Role};
use pollux_domain::id::CallId;

use super::digest;

/// What ids a server accepts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum IdRule {
    /// Letters, digits, `_` and `-`, at most so many.
    Plain { max: usize },
    /// Nine letters and digits; Mistral's.
    Nine,
}

/// The ids of one request. Places are the number of the turn and that of the part in it.
#[derive(Debug, Default)]
pub(crate) struct CallIds {
    calls: HashMap<(usize, usize), String>,
    answers: HashMap<(usize, usize), String>,
    /// Calls that nothing answers before the model speaks again.
    unanswered: HashSet<(usize, usize)>,
}

impl CallIds {
    /// Lays out the ids of a conversation.
    pub(crate) fn of<'a>(contents: impl IntoIterator<Item = &'a Content>, rule: IdRule) -> Self {
        let mut ids = Self::default();
        let mut used = HashSet::new();
        let mut open: Vec<Open<'a>> = Vec::new();
        let mut last_role = None;
        for (turn, content) in contents.into_iter().enumerate() {
            // Turns of the model side by side are one to a server.
            if content.role == Role::Model && last_role == Some(Role::User) {
                ids.unanswered.extend(open.drain(..).map(|call| call.place));
            }
            for (part, body) in content.parts.iter().map(|part| &part.body).enumerate() {
                let place = (turn, part);
                match body {
                    Body::Call(call) => {
                        let wire = rule.wire(call, place, &used);
                        used.insert(wire.clone());
                        ids.calls.insert(place, wire.clone());
                        open.push(Open { call, wire, place });
                    }
                    Body::Response(response) => {
                        if let Some(at) = open.iter().position(|open| open.is_answered_by(response)) {
                            ids.answers.insert(place, open.remove(at).wire);
                        }
                    }
                    _ => {}
                }
            }
            last_role = Some(content.role);
        }
        ids.unanswered.extend(open.into_iter().map(|call| call.place));
        ids
    }

    /// The id of the call at a place.
    pub(crate) fn call(&self, turn: usize, part: usize) -> Option<&str> {
        self.calls.get(&(turn, part)).map(String::as_str)
    }

    /// The id of the call that the answer at a place belongs to; `None` if there is no such call.
    pub(crate) fn answer(&self, turn: usize, part: usize) -> Option<&str> {
        self.answers.get(&(turn, part)).map(String::as_str)
    }

    /// Whether nothing answers the call at a place.
    pub(crate) fn is_unanswered(&self, turn: usize, part: usize) -> bool {
        self.unanswered.contains(&(turn, part))
    }
}

/// A call that waits for its answer.
struct Open<'a> {
    call: &'a FunctionCall,
    wire: String,
    place: (usize, usize),
}

impl Open<'_> {
    fn is_answered_by(&self, response: &FunctionResponse) -> bool {
        match (&self.call.id, &response.id) {
            (Some(call), Some(answer)) => call == answer,
            (None, None) => self.call.name == response.name,
            (Some(_), None) | (None, Some(_)) => false,
        }
    }
}

impl IdRule {
    /// An id that no other call has.
    fn wire(self, call: &FunctionCall, place: (usize, usize), used: &HashSet<String>) -> String {
        let stored = call.id.as_deref().map(|id| CallId::from_file(id).on_wire(&call.name).to_owned());
        let plain = stored.as_deref().and_then(|id| self.fitted(id));
        if let Some(id) = plain.filter(|id| !used.contains(id)) {
            return id;
        }
        // The whole id, because ids of two tools may be the same without their prefixes.
        let own = call.id.as_deref().unwrap_or_default();
        let nameless = call.id.is_none().then(|| format!("{} {} {}", place.0, place.1, call.name));
        let mut round = 0_u32;
        loop {
            let parts = [own, nameless.as_deref().unwrap_or_default(), &round.to_string()];
            let made = match self {
                Self::Plain { .. } => format!("call_{}", digest::hexadecimal(&parts, 16)),
                Self::Nine => digest::base_62(&parts, 9),
            };
            if !used.contains(&made) {
                return made;
            }
            round += 1;
        }
    }

    /// The id in the characters and the length that the server accepts, if enough of it is left.
    fn fitted(self, id: &str) -> Option<String> {
        match self {
            Self::Plain { max } => {
                let legal = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == '-';
                let id: String = id.chars().map(|c| if legal(c) { c } else { '_' }).collect();
                (!id.is_empty() && id.len() <= max).then_some(id)
            }
            Self::Nine => {
                let id: String = id.chars().filter(char::is_ascii_alphanumeric).take(9).collect();
                (!id.is_empty()).then(|| format!("{id:0<9}"))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use pollux_domain::JsonObject;
    use pollux_domain::content::Part;

    const PLAIN: IdRule = IdRule::Plain { max: 64 };

    fn call(id: Option<&str>, name: &str) -> Part {
        Part::call(FunctionCall::new(id.map(str::to_owned), name, JsonObject::new()))
    }

    fn answer(id: Option<&str>, name: &str) -> Part {
        let response = JsonObject::new().into();
        let id = id.map(str::to_owned);
        Part::response(FunctionResponse { id, name: name.into(), response, parts: Vec::new() })
    }

    fn ids(contents: &[Content], rule: IdRule) -> CallIds {
        CallIds::of(contents, rule)
    }

    #[test]
    fn the_prefix_is_stripped_and_odd_characters_are_replaced() {
        let turns = [
            Content::model(vec![call(Some("ls__call_1"), "ls"), call(Some("ls__a.b:c"), "ls")]),
            Content::user(vec![answer(Some("ls__a.b:c"), "ls"), answer(Some("ls__call_1"), "ls")]),
        ];
        let ids = ids(&turns, PLAIN);
        assert_eq!((ids.call(0, 0), ids.call(0, 1)), (Some("call_1"), Some("a_b_c")));
        assert_eq!((ids.answer(1, 0), ids.answer(1, 1)), (Some("a_b_c"), Some("call_1")));
    }

    #[test]
    fn nine_characters_keep_calls_apart() {
        let turns = [
            Content::model(vec![call(Some("call_abcdefgh1"), "ls"), call(Some("call_abcdefgh2"), "ls")]),
            Content::user(vec![answer(Some("call_abcdefgh1"), "ls"), answer(Some("call_abcdefgh2"), "ls")]),
            Content::model(vec![call(Some("x"), "ls")]),
        ];
        let ids = ids(&turns, IdRule::Nine);
        let (first, second) = (ids.call(0, 0).unwrap(), ids.call(0, 1).unwrap());
        assert_ne!(first, second);
        for id in [first, second, ids.call(2, 0).unwrap()] {
            assert!(id.len() == 9 && id.chars().all(|c| c.is_ascii_alphanumeric()), "{id}");
        }
        assert_eq!((ids.answer(1, 0), ids.answer(1, 1)), (Some(first), Some(second)));
        assert_eq!(ids.call(2, 0), Some("x00000000"));
    }

    #[test]
    fn missing_ids_are_made_and_stay_when_the_conversation_grows() {
        let mut turns = vec![
            Content::model(vec![call(None, "ls"), call(None, "ls"), call(None, "cat")]),
            Content::user(vec![answer(None, "cat"), answer(None, "ls"), answer(None, "ls")]),
        ];
        let before = ids(&turns, PLAIN);
        assert_eq!(before.answer(1, 0), before.call(0, 2));
        assert_eq!((before.answer(1, 1), before.answer(1, 2)), (before.call(0, 0), before.call(0, 1)));
        assert_eq!(before.call(0, 0).unwrap().len(), "call_".len() + 16);
        turns.push(Content::model(vec![call(None, "ls")]));
        let after = ids(&turns, PLAIN);
        assert!((0..3).all(|part| before.call(0, part) == after.call(0, part)));
        let all: HashSet<_> = after.calls.values().collect();
        assert_eq!(all.len(), 4);
    }

    #[test]
    fn ids_that_are_the_same_or_too_long_become_others() {
        let long = "l".repeat(65);
        let turns = [
            Content::model(vec![call(Some("ls__1"), "ls"), call(Some("cat__1"), "cat")]),
            Content::user(vec![answer(Some("cat__1"), "cat"), answer(Some("ls__1"), "ls")]),
            Content::model(vec![call(Some("ls__1"), "ls"), call(Some(&long), "ls")]),
            Content::user(vec![answer(Some("ls__1"), "ls"), answer(Some(&long), "ls")]),
        ];
        let ids = ids(&turns, PLAIN);
        let all: HashSet<_> = ids.calls.values().collect();
        assert_eq!(all.len(), 4);
        assert!(all.iter().all(|id| id.len() <= 64));
        assert_eq!((ids.answer(1, 0), ids.answer(1, 1)), (ids.call(0, 1), ids.call(0, 0)));
        assert_eq!((ids.answer(3, 0), ids.answer(3, 1)), (ids.call(2, 0), ids.call(2, 1)));
    }

    #[test]
    fn calls_and_answers_without_each_other_are_known() {
        let turns = [
            Content::user(vec![answer(Some("lost"), "ls")]),
            Content::model(vec![call(Some("a"), "ls")]),
            Content::user_text("never mind"),
            Content::model(vec![Part::text("fine")]),
            Content::user(vec![answer(Some("a"), "ls")]),
        ];
        let ids = ids(&turns, PLAIN);
        assert!(ids.is_unanswered(1, 0));
        assert_eq!((ids.answer(0, 0), ids.answer(4, 0)), (None, None));
    }
}
