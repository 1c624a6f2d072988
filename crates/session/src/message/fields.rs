//! The fields of a message as they were read, with answers to calls left as the text they are in the file.
//!
//! Responses make up most of a long session and are rarely inspected. Anything unusual in a message is
//! refused here and read as any other JSON.

use std::ops::Range;
use std::sync::Arc;

use pollux_domain::JsonObject;
use pollux_domain::content::{AnswerFields, Body, Part};
use pollux_domain::json::parse_lenient_str;
use serde_json::Value;

use crate::{blobs, raw};

/// Shorter answers are read at once: they are not worth keeping a piece of the file.
const LONG: usize = 1024;
/// The fields that a message or a call has at the most, usually; room for them is made once.
const USUAL_FIELDS: usize = 14;
/// The bytes that a field takes at the least, usually.
const USUAL_FIELD: usize = 24;

/// The fields of a message.
#[derive(Debug)]
pub(crate) struct MessageFields {
    /// Those that were read elsewhere are null here, so that the others keep their order.
    pub(crate) all: JsonObject,
    pub(super) content: Option<Vec<Part>>,
    pub(super) calls: Option<Vec<CallFields>>,
}

/// The fields of a call.
#[derive(Debug)]
pub(super) struct CallFields {
    pub(super) all: JsonObject,
    pub(super) result: Option<Vec<Part>>,
}

impl MessageFields {
    /// Reads the message in this line of a piece of a file.
    pub(crate) fn from_line(piece: &Arc<String>, line: Range<usize>) -> Option<Self> {
        let text = piece.get(line.clone())?;
        let mut reader = Reader { piece, end: line.end, at: line.start };
        let read = reader.message().filter(|_| reader.is_at_end());
        read.or_else(|| parse_lenient_str::<JsonObject>(text).ok().map(Self::from))
    }

    /// The fields as JSON; `None` if some were read already.
    pub(crate) fn into_json(self) -> Option<JsonObject> {
        (self.content.is_none() && self.calls.is_none()).then_some(self.all)
    }

    /// Whether something of it may be stored apart.
    pub(crate) fn may_have_blobs(&self) -> bool {
        self.all.contains_key(blobs::FIELD) || self.all.get("toolCalls").is_some_and(Value::is_array)
    }

    fn is_of(&self, kind: &str) -> bool {
        self.all.get("type").and_then(Value::as_str) == Some(kind)
    }
}

impl From<JsonObject> for MessageFields {
    fn from(all: JsonObject) -> Self {
        Self { all, content: None, calls: None }
    }
}

impl From<JsonObject> for CallFields {
    fn from(all: JsonObject) -> Self {
        Self { all, result: None }
    }
}

/// Goes through a line; `None` from any step means that the line is unusual.
struct Reader<'a> {
    piece: &'a Arc<String>,
    at: usize,
    /// Of the line.
    end: usize,
}

impl<'a> Reader<'a> {
    fn message(&mut self) -> Option<MessageFields> {
        let mut fields = MessageFields::from(self.room());
        self.object(|reader, key| {
            let begin = reader.peek()?;
            let value = match key {
                "toolCalls" if begin == b'[' => {
                    fields.calls = Some(reader.list(Self::call)?);
                    Value::Null
                }
                "content" if begin == b'[' && fields.is_of("user") => {
                    fields.content = Some(reader.list(Self::part)?);
                    Value::Null
                }
                blobs::FIELD => return None,
                _ => reader.json()?,
            };
            put(&mut fields.all, key, value)
        })?;
        let is_usual = (fields.calls.is_none() || fields.is_of("gemini"))
            && (fields.content.is_none() || fields.is_of("user"));
        is_usual.then_some(fields)
    }

    /// Room for the fields that the rest of the line may have.
    fn room(&self) -> JsonObject {
        JsonObject::with_capacity(((self.end - self.at) / USUAL_FIELD).min(USUAL_FIELDS))
    }

    fn call(&mut self) -> Option<CallFields> {
        let mut fields = CallFields::from(self.room());
        self.object(|reader, key| {
            let value = match key {
                "result" if reader.peek()? == b'[' => {
                    fields.result = Some(reader.list(Self::part)?);
                    Value::Null
                }
                // Values that are stored apart are put back into JSON.
                blobs::FIELD => return None,
                _ => reader.json()?,
            };
            put(&mut fields.all, key, value)
        })?;
        Some(fields)
    }

    fn part(&mut self) -> Option<Part> {
        if self.peek()? != b'{' {
            return Part::from_json(self.json()?).ok();
        }
        let mut fields = JsonObject::new();
        let mut answer = None;
        self.object(|reader, key| {
            let value = match key {
                "functionResponse" if reader.peek()? == b'{' => {
                    let (fields, response) = reader.answer()?;
                    answer = response;
                    Value::Object(fields)
                }
                _ => reader.json()?,
            };
            put(&mut fields, key, value)
        })?;
        let mut part = Part::from_json(Value::Object(fields)).ok()?;
        match (&mut part.body, answer) {
            (Body::Response(response), Some(answer)) => response.response = answer,
            (_, Some(_)) => return None,
            (_, None) => {}
        }
        Some(part)
    }

    /// The fields of an answer and, apart from them, what the call is answered with.
    fn answer(&mut self) -> Option<(JsonObject, Option<AnswerFields>)> {
        let mut fields = JsonObject::with_capacity(4);
        let mut response = None;
        self.object(|reader, key| {
            let begin = reader.at;
            let value = if key == "response"
                && let Some(one) = reader.one_text()
            {
                response = Some(one);
                Value::Null
            } else {
                reader.at = begin;
                reader.json()?
            };
            put(&mut fields, key, value)
        })?;
        Some((fields, response))
    }

    /// An object of one long text.
    fn one_text(&mut self) -> Option<AnswerFields> {
        self.take(b'{')?;
        let key = self.key()?;
        self.take(b':')?;
        self.skip_space();
        let (answer, end) =
            AnswerFields::from_stored(key, self.piece, self.at).filter(|(_, end)| *end < self.end)?;
        if end - self.at < LONG {
            return None;
        }
        self.at = end;
        self.take(b'}')?;
        Some(answer)
    }

    fn object(&mut self, mut field: impl FnMut(&mut Self, &'a str) -> Option<()>) -> Option<()> {
        self.take(b'{')?;
        if self.take(b'}').is_some() {
            return Some(());
        }
        loop {
            let key = self.key()?;
            self.take(b':')?;
            self.skip_space();
            field(self, key)?;
            if self.take(b',').is_none() {
                return self.take(b'}');
            }
        }
    }

    fn list<T>(&mut self, mut item: impl FnMut(&mut Self) -> Option<T>) -> Option<Vec<T>> {
        let mut items = Vec::new();
        self.take(b'[')?;
        if self.take(b']').is_some() {
            return Some(items);
        }
        loop {
            self.skip_space();
            items.push(item(self)?);
            if self.take(b',').is_none() {
                self.take(b']')?;
                return Some(items);
            }
        }
    }

    fn key(&mut self) -> Option<&'a str> {
        self.skip_space();
        self.plain_text()
    }

    /// A string in which every byte stands for itself.
    fn plain_text(&mut self) -> Option<&'a str> {
        let inner = self.rest()?.strip_prefix('"')?;
        let is_special = |byte: u8| byte < b' ' || byte == b'"' || byte == b'\\';
        let length = inner.bytes().position(is_special)?;
        let text = inner.get(..length).filter(|_| inner.as_bytes().get(length) == Some(&b'"'))?;
        self.at += length + 2;
        Some(text)
    }

    /// The value that comes next, read.
    fn json(&mut self) -> Option<Value> {
        if let Some(text) = self.plain_text() {
            return Some(text.into());
        }
        let value = raw::first(self.rest()?)?.get();
        self.at += value.len();
        parse_lenient_str(value).ok()
    }

    fn rest(&self) -> Option<&'a str> {
        self.piece.get(self.at..self.end)
    }

    fn peek(&self) -> Option<u8> {
        self.piece.as_bytes().get(self.at).copied().filter(|_| self.at < self.end)
    }

    fn skip_space(&mut self) {
        while matches!(self.peek(), Some(b' ' | b'\n' | b'\r' | b'\t')) {
            self.at += 1;
        }
    }

    fn take(&mut self, byte: u8) -> Option<()> {
        self.skip_space();
        (self.peek() == Some(byte)).then(|| self.at += 1)
    }

    fn is_at_end(&mut self) -> bool {
        self.skip_space();
        self.at == self.end
    }
}

/// Notes a field; a second one of the same name is unusual.
fn put(fields: &mut JsonObject, key: &str, value: Value) -> Option<()> {
    fields.insert(key.to_owned(), value).is_none().then_some(())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::message::{Message, message_from_json};

    fn from_line(text: &str) -> Option<MessageFields> {
        // Something before and behind it, as in a file.
        MessageFields::from_line(&Arc::new(format!("é\n{text}\n\"}}")), 3..3 + text.len())
    }

    fn message(fields: MessageFields) -> Message {
        message_from_json("m".into(), fields)
    }

    fn answer(response: &str) -> String {
        format!(
            r#"{{"id":"m","type":"gemini","content":["a",{{"text":"b"}}],"x":1,"toolCalls":[{{"id":"c","name":"t","extra":[1],
            "result":[{{"functionResponse":{{"id":"c","name":"t","response":{response},"more":1}},"z":2}},"said"],"y":3}}],"w":4}}"#
        )
    }

    #[test]
    fn a_message_is_the_same_whether_its_answers_were_read_or_not() {
        let calls = |calls: &str| format!(r#"{{"id":"m","type":"gemini","toolCalls":{calls}}}"#);
        let long = "a\\n\\\"b\\\"\\\\é".repeat(LONG);
        let texts = [
            answer(&format!("{{\"output\":\"{long}\"}}")),
            answer(&format!("{{ \"out\\u0070ut\" : \"{long}\" }}")),
            answer(&format!("{{\"output\" : \"{long}\\u0041\"}}")),
            answer(&format!("{{\"output\":\"{long}\",\"output\":\"{long}\"}}")),
            answer(&format!("{{\"output\":\"{long}\",\"more\":{{\"output\":\"{long}\"}}}}")),
            answer(r#"{"output":"a\n\"b\"\\"}"#),
            answer(r#"{ "output" : "a" }"#),
            answer(r#"{"output":"\u0041\/\ud83d\ude00"}"#),
            answer(r#"{"output":"a","error":"b","output":"c"}"#),
            answer(r#"{"output":{"deep":[1.50,null]}}"#),
            answer("{}"),
            answer("7"),
            answer(r#""text""#),
            calls("null"),
            calls("[]"),
            calls("7"),
            calls(r#"[7,{"result":"text"},{"result":null},{"result":{"text":"one"}},{"result":[7]},{}]"#),
            calls(r#"[{"result":[{"functionCall":{},"functionResponse":{"response":{"output":"x"}}}]}]"#),
            calls(r#"[{"result":[{"functionResponse":7}]},{"result":[{"functionResponse":{}}]}]"#),
            calls(r#"[{"result":[{"functionResponse":{"response":{"output":"x"},"response":7}}]}]"#),
            r#"{"type":"user","content":[{"functionResponse":{"name":"t","response":{"output":"x"}}},"a"]}"#
                .into(),
            r#"{"content":[{"functionResponse":{"name":"t","response":{"output":"x"}}}],"type":"user"}"#
                .into(),
            r#"{"type":"user","content":"a","toolCalls":[{"result":[]}]}"#.into(),
            r#"{"type":"user","content":["a"],"type":"new"}"#.into(),
            r#"{"type":"new","content":["a"],"toolCalls":[{}]}"#.into(),
        ];
        for text in texts {
            let whole: JsonObject = serde_json::from_str(&text).unwrap();
            let lean = from_line(&text).unwrap();
            assert_eq!(message(lean), message(whole.into()), "{text}");
        }
    }

    #[test]
    fn a_long_answer_stays_text_and_a_call_with_values_stored_apart_is_read() {
        let long = json!(format!("a\n{}", "b".repeat(LONG))).to_string();
        let fields = from_line(&answer(&format!("{{\"output\":{long}}}"))).unwrap();
        let Message::Reply(reply) = message(fields) else { panic!("no reply") };
        let Some(Body::Response(response)) = reply.calls[0].result.first().map(|part| &part.body) else {
            panic!("no answer")
        };
        assert_eq!(response.response.as_stored().unwrap().json, long);
        let apart = json!({"type": "gemini", "toolCalls": [{"result": [{"functionResponse": {"response": {"output": "x"}}}],
            (blobs::FIELD): []}]});
        let fields = from_line(&apart.to_string()).unwrap();
        assert_eq!(fields.into_json(), apart.as_object().cloned());
    }

    #[test]
    fn invalid_objects_and_texts_are_refused() {
        let long = "x".repeat(LONG);
        let odd = [
            answer(&format!("{{\"output\":\"{long}\t\"}}")),
            answer(&format!("{{\"output\":\"{long}\"]")),
            answer(r#"{"output":1e999}"#),
            answer("{]"),
        ];
        for text in odd.iter().map(String::as_str).chain(["", "[]", "7", "{} {}", "{\"a\":"]) {
            assert!(from_line(text).is_none(), "{text}");
        }
    }
}
