//! Visits all texts of a session one at a time, for search.

use std::borrow::Cow;
use std::path::Path;

use pollux_domain::json::parse_lenient_str;
use pollux_domain::time::Timestamp;
use serde_json::Value;

use crate::blobs::{self, Blobs};
use crate::load::LoadError;
use crate::stream::Stream;
use crate::view::{CallView, Outcome, Speaker, View};

/// Whose text it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TextKind {
    User,
    Agent,
    /// A call's name and arguments.
    Tool,
    /// The result of a successful call.
    Output,
    Error,
}

/// Receives a text: its kind, message id, time and content.
pub type TextVisitor<'a> = dyn FnMut(TextKind, &str, Option<Timestamp>, &str) + 'a;

/// Hands every text of a session to `visit`, in order. Context that the program wrote is left out.
pub fn visit_texts(path: &Path, visit: &mut TextVisitor<'_>) -> Result<(), LoadError> {
    let stream = Stream::open(path)?;
    let blobs = Blobs::of_file(path);
    stream.for_each::<LoadError>(|index, text| {
        let text = whole(text, &blobs);
        if let Some(view) = View::of(index, &text) {
            visit_message(&view, visit);
        }
        Ok(())
    })
}

/// The message with everything that is stored apart put back.
pub(crate) fn whole<'a>(text: &'a str, blobs: &Blobs) -> Cow<'a, str> {
    if !text.contains(blobs::FIELD) {
        return Cow::Borrowed(text);
    }
    match parse_lenient_str(text) {
        Ok(Value::Object(mut fields)) => {
            blobs::resolve(blobs, &mut fields);
            Cow::Owned(Value::Object(fields).to_string())
        }
        _ => Cow::Borrowed(text),
    }
}

fn visit_message(view: &View<'_>, visit: &mut TextVisitor<'_>) {
    let kind = match view.speaker {
        Speaker::User => TextKind::User,
        Speaker::Agent => TextKind::Agent,
        Speaker::Error => TextKind::Error,
        Speaker::Nobody => return,
    };
    let time = view.time();
    let words = view.words();
    let is_internal = kind == TextKind::User && View::is_context(&words);
    if !is_internal && !words.trim().is_empty() {
        visit(kind, &view.id, time, &words);
    }
    if kind == TextKind::Agent {
        for call in view.calls() {
            visit_call(view, &call, visit);
        }
    }
}

fn visit_call(view: &View<'_>, call: &CallView<'_>, visit: &mut TextVisitor<'_>) {
    let time = call.time().or_else(|| view.time());
    let mut asked = call.name();
    for value in call.args().values().filter_map(Value::as_str) {
        asked.push('\n');
        asked.push_str(value);
    }
    visit(TextKind::Tool, &view.id, time, &asked);
    let result = call.result_text();
    if !result.is_empty() {
        let kind = if call.outcome() == Outcome::Error { TextKind::Error } else { TextKind::Output };
        visit(kind, &view.id, time, &result);
    }
}
