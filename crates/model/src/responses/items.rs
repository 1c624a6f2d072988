//! The output items of one reply, put together from their events and told in the order of the output.
//!
//! The whole item of `output_item.done` is the truth: text and reasoning that were streamed before are only an early
//! view of it, and calls and seals are taken from nowhere else. Items are known by their place in the output or, where
//! a server does not say it, by their id.

use pollux_domain::content::{Body, FunctionCall, Part, Seal, SealKind};
use pollux_domain::model::Citation;
use serde_json::Value;

use super::annotations::{self, Annotated};
use super::values::{entries, text};

/// How an event names its item.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Key<'a> {
    pub(super) index: Option<u64>,
    pub(super) id: Option<&'a str>,
}

impl<'a> Key<'a> {
    /// The item that an event is about.
    pub(super) fn of_event(event: &'a Value) -> Self {
        let id = text(event, "item_id").or_else(|| text(event.get("item")?, "id"));
        Self { index: event.get("output_index").and_then(Value::as_u64), id: id.filter(|id| !id.is_empty()) }
    }
}

/// Everything of a reply that items say next to their parts.
#[derive(Debug, Default)]
pub(super) struct Gathered {
    pub(super) phases: Vec<String>,
    pub(super) refusal: Option<String>,
    pub(super) annotated: Annotated,
    pub(super) server_tool_calls: u32,
    pub(super) any_call: bool,
}

/// The items so far.
#[derive(Debug, Default)]
pub(super) struct Items {
    list: Vec<OutputItem>,
    /// The first item that is not told to its end.
    head: usize,
    call_ids: Vec<String>,
    /// How much was said before the item under way, in bytes.
    said: usize,
    pub(super) gathered: Gathered,
}

#[derive(Debug, Default)]
struct OutputItem {
    index: Option<u64>,
    id: Option<String>,
    /// The tool, for a call.
    call: Option<String>,
    /// How much of a call's arguments has come.
    bytes: u64,
    /// The text that was streamed.
    streamed: String,
    /// The reasoning that was streamed, by its place.
    thoughts: Vec<Streamed>,
    /// What waits until the items before it are told.
    waiting: Vec<Part>,
    state: State,
}

/// A piece of reasoning under way.
#[derive(Debug, Default, Clone)]
struct Streamed {
    text: String,
    told: bool,
}

#[derive(Debug, Default)]
enum State {
    #[default]
    Open,
    Whole(Value),
    Told,
}

impl Items {
    /// An item begins.
    pub(super) fn open(&mut self, key: Key<'_>, item: &Value) {
        let at = self.place(key);
        if let Some(known) = self.list.get_mut(at)
            && text(item, "type") == Some("function_call")
        {
            known.call = Some(text(item, "name").unwrap_or_default().to_owned());
        }
    }

    /// A piece of a message's text.
    pub(super) fn say(&mut self, key: Key<'_>, delta: &str, parts: &mut Vec<Part>) {
        if delta.is_empty() {
            return;
        }
        let at = self.place(key);
        let Some(item) = self.list.get_mut(at).filter(|item| matches!(item.state, State::Open)) else {
            return;
        };
        item.streamed.push_str(delta);
        if at == self.head {
            parts.push(Part::text(delta));
        } else if let Some(Body::Text(text)) = item.waiting.last_mut().map(|part| &mut part.body) {
            text.push_str(delta);
        } else {
            item.waiting.push(Part::text(delta));
        }
    }

    /// A piece of reasoning; it is shown when it is whole.
    pub(super) fn think(&mut self, key: Key<'_>, place: u64, delta: &str) {
        let at = self.place(key);
        if let Some(thought) = self.list.get_mut(at).and_then(|item| item.thought(place)) {
            thought.text.push_str(delta);
        }
    }

    /// A piece of reasoning is whole.
    pub(super) fn thought(
        &mut self,
        key: Key<'_>,
        place: u64,
        whole: Option<&str>,
        summary: bool,
        parts: &mut Vec<Part>,
    ) {
        let at = self.place(key);
        let is_head = at == self.head;
        let Some(item) = self.list.get_mut(at) else { return };
        let Some(thought) = item.thought(place).filter(|thought| !thought.told) else { return };
        let streamed = std::mem::take(&mut thought.text);
        let text = whole.map_or(streamed, str::to_owned);
        thought.told = true;
        if !text.is_empty() {
            let part = reasoning(text, summary);
            if is_head { parts.push(part) } else { item.waiting.push(part) }
        }
    }

    /// A piece of a call's arguments: the call's place among the calls, its tool, and how much has come.
    pub(super) fn argue(&mut self, key: Key<'_>, delta: &str) -> (usize, String, u64) {
        let at = self.place(key);
        let calls_before = self.list.iter().take(at).filter(|item| item.call.is_some()).count();
        match self.list.get_mut(at) {
            Some(item) => {
                item.bytes += delta.len() as u64;
                (calls_before, item.call.get_or_insert_default().clone(), item.bytes)
            }
            None => (calls_before, String::new(), 0),
        }
    }

    /// An item is whole.
    pub(super) fn done(&mut self, key: Key<'_>, item: Value, parts: &mut Vec<Part>) {
        let at = self.place(key);
        if let Some(known) = self.list.get_mut(at)
            && matches!(known.state, State::Open)
        {
            known.state = State::Whole(item);
        }
        self.advance(End::NotYet, parts);
    }

    /// The reply is over; `output` holds the items as the server has them at the end.
    pub(super) fn finish(&mut self, output: Vec<Value>, complete: bool, parts: &mut Vec<Part>) {
        for (index, item) in (0..).zip(output) {
            match self.known(index, &item) {
                Some(at) => {
                    if let Some(known) = self.list.get_mut(at)
                        && matches!(known.state, State::Open)
                    {
                        known.state = State::Whole(item);
                    }
                }
                None => {
                    let at = self.insert(Key { index: Some(index), id: text(&item, "id") });
                    if let Some(new) = self.list.get_mut(at) {
                        new.state = State::Whole(item);
                    }
                }
            }
        }
        self.advance(if complete { End::Complete } else { End::Incomplete }, parts);
    }

    /// Tells every item whose turn has come.
    fn advance(&mut self, end: End, parts: &mut Vec<Part>) {
        while let Some(item) = self.list.get_mut(self.head) {
            parts.append(&mut item.waiting);
            let whole = match std::mem::replace(&mut item.state, State::Told) {
                State::Whole(whole) => Some(whole),
                State::Open if end == End::NotYet => {
                    item.state = State::Open;
                    return;
                }
                State::Open | State::Told => None,
            };
            match whole {
                // Arguments that cannot be read may have been cut off by the limit; only the end says so.
                Some(whole) if end == End::NotYet && is_broken_call(&whole) => {
                    item.state = State::Whole(whole);
                    return;
                }
                Some(whole) => self.tell(&whole, end, parts),
                None => self.said += item.streamed.len(),
            }
            self.head += 1;
        }
    }

    fn tell(&mut self, whole: &Value, end: End, parts: &mut Vec<Part>) {
        match text(whole, "type").unwrap_or_default() {
            "message" => self.tell_message(whole, parts),
            "function_call" => self.tell_call(whole, end, parts),
            "reasoning" => self.tell_reasoning(whole, parts),
            "compaction" => parts.extend(sealed(whole, SealKind::OpenAiCompaction)),
            "web_search_call" => self.gathered.server_tool_calls += 1,
            _ => {}
        }
    }

    fn tell_message(&mut self, whole: &Value, parts: &mut Vec<Part>) {
        let Some(item) = self.list.get(self.head) else { return };
        let mut message = String::new();
        for piece in entries(whole, "content") {
            match text(piece, "type") {
                Some("output_text") => {
                    let said = text(piece, "text").unwrap_or_default();
                    let before = self.said + message.len();
                    annotations::read(piece, said, before, &mut self.gathered.annotated);
                    message.push_str(said);
                }
                Some("refusal") => {
                    let refused = text(piece, "refusal").unwrap_or_default();
                    self.gathered.refusal.get_or_insert_default().push_str(refused);
                }
                _ => {}
            }
        }
        // What was shown cannot be taken back; only what is missing of it is added.
        let rest = message.strip_prefix(item.streamed.as_str()).unwrap_or_default();
        if !rest.is_empty() {
            parts.push(Part::text(rest));
        }
        self.said += item.streamed.len() + rest.len();
        if !item.streamed.is_empty() || !rest.is_empty() {
            self.gathered.phases.push(text(whole, "phase").unwrap_or_default().to_owned());
        }
    }

    fn tell_call(&mut self, whole: &Value, end: End, parts: &mut Vec<Part>) {
        let cut_off = text(whole, "status") == Some("incomplete");
        if cut_off || end == End::Incomplete && is_broken_call(whole) {
            return;
        }
        let id = text(whole, "call_id").or_else(|| text(whole, "id")).filter(|id| !id.is_empty());
        // A second call of the same id gets one of the program's own.
        let id = id.filter(|id| !self.call_ids.iter().any(|known| known == id));
        self.call_ids.extend(id.map(str::to_owned));
        let name = text(whole, "name").unwrap_or_default();
        let call = match whole.get("arguments") {
            Some(Value::Object(args)) => FunctionCall::new(id.map(str::to_owned), name, args.clone()),
            _ => FunctionCall::from_text(id.map(str::to_owned), name, arguments(whole)),
        };
        self.gathered.any_call = true;
        parts.push(Part::call(call));
    }

    fn tell_reasoning(&mut self, whole: &Value, parts: &mut Vec<Part>) {
        let summaries = |key: &str| -> Vec<String> {
            entries(whole, key).filter_map(|piece| text(piece, "text")).map(str::to_owned).collect()
        };
        let (texts, summary) = match summaries("summary") {
            texts if texts.is_empty() => (summaries("content"), false),
            texts => (texts, true),
        };
        if let Some(item) = self.list.get_mut(self.head) {
            let streamed = std::mem::take(&mut item.thoughts);
            for (place, text) in texts.into_iter().enumerate() {
                let told = streamed.get(place).is_some_and(|thought| thought.told);
                if !told && !text.is_empty() {
                    parts.push(reasoning(text, summary));
                }
            }
        }
        parts.extend(sealed(whole, SealKind::OpenAiReasoning));
    }

    /// The place of an item in the list; a new one is made if need be.
    fn place(&mut self, key: Key<'_>) -> usize {
        let by_index = key.index.and_then(|index| self.find(|item| item.index == Some(index)));
        let by_id = || key.id.and_then(|id| self.find(|item| item.id.as_deref() == Some(id)));
        let found = by_index.or_else(by_id);
        if let Some(at) = found {
            return at;
        }
        match (key.index, key.id, self.list.len().checked_sub(1)) {
            // The server says nothing, so it is the one under way.
            (None, None, Some(last))
                if matches!(self.list.get(last), Some(OutputItem { state: State::Open, .. })) =>
            {
                last
            }
            _ => self.insert(key),
        }
    }

    fn find(&self, wanted: impl Fn(&OutputItem) -> bool) -> Option<usize> {
        self.list.iter().position(wanted)
    }

    fn insert(&mut self, key: Key<'_>) -> usize {
        let later = |item: &OutputItem| matches!((item.index, key.index), (Some(a), Some(b)) if a > b);
        let at = self.list.iter().skip(self.head).position(later).map(|at| self.head + at);
        // An item that was begun to be told stays where it is.
        let begun = self.list.get(self.head).is_some_and(|head| !head.streamed.is_empty());
        let at = match at {
            Some(at) if at == self.head && begun => at + 1,
            Some(at) => at,
            None => self.list.len(),
        };
        let item = OutputItem { index: key.index, id: key.id.map(str::to_owned), ..OutputItem::default() };
        self.list.insert(at, item);
        at
    }

    /// The item of the list that stands at this place of the final output, if it was streamed.
    fn known(&self, index: u64, item: &Value) -> Option<usize> {
        let id = text(item, "id").filter(|id| !id.is_empty());
        let by_id = id.and_then(|id| self.find(|known| known.id.as_deref() == Some(id)));
        by_id
            .or_else(|| self.find(|known| known.index == Some(index)))
            // Without places the server's order is all there is.
            .or_else(|| {
                let nth = usize::try_from(index).ok()?;
                self.list
                    .get(nth)
                    .filter(|known| known.index.is_none() && (id.is_none() || known.id.is_none()))?;
                Some(nth)
            })
    }

    /// Where the reply quotes others.
    pub(super) fn cite(&mut self, annotation: &Value) {
        self.gathered.annotated.citations.extend(annotations::citation(annotation));
    }

    /// The sources that the reply quotes, each once.
    pub(super) fn citations(&mut self) -> Vec<Citation> {
        let mut citations = std::mem::take(&mut self.gathered.annotated.citations);
        citations.sort();
        citations.dedup();
        citations
    }
}

impl OutputItem {
    /// The piece of reasoning at a place; `None` for a place that no reply has.
    fn thought(&mut self, place: u64) -> Option<&mut Streamed> {
        const MAX_PIECES: usize = 10_000;
        let place = usize::try_from(place).ok().filter(|place| *place < MAX_PIECES)?;
        if self.thoughts.len() <= place {
            self.thoughts.resize(place + 1, Streamed::default());
        }
        self.thoughts.get_mut(place)
    }
}

/// How far a reply has come.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum End {
    NotYet,
    Complete,
    /// The server stopped it.
    Incomplete,
}

fn reasoning(text: String, summary: bool) -> Part {
    Body::Reasoning { text, summary, seal: None }.into()
}

/// An item that must go back; without its encrypted content the server could not read it.
fn sealed(whole: &Value, kind: SealKind) -> Option<Part> {
    text(whole, "encrypted_content").filter(|content| !content.is_empty())?;
    let seal = Seal { kind, data: whole.clone() };
    Some(Body::Reasoning { text: String::new(), summary: true, seal: Some(seal) }.into())
}

fn arguments(call: &Value) -> &str {
    text(call, "arguments").unwrap_or_default()
}

fn is_broken_call(item: &Value) -> bool {
    text(item, "type") == Some("function_call")
        && FunctionCall::from_text(None, "", arguments(item)).bad_args.is_some()
}
