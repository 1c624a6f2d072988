//! Model requests and responses in the stable format that hooks see, independent of the provider.
//!
//! Tool calls, media and thoughts are not part of it.

use std::sync::Arc;

use pollux_domain::JsonObject;
use pollux_domain::content::{Content, Part, Role};
use pollux_domain::model::{
    Chooser, Dialect, Finish, FinishReason, GenerationSettings, ModelRequest, ReplyChunk, Setting, Usage,
};
use serde_json::{Number, Value, json};

/// The generation settings that hooks see and set; all of them are replaced at once.
const CONFIG_KEYS: [&str; 4] = ["temperature", "maxOutputTokens", "topP", "topK"];

/// A request.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct LlmRequest {
    pub model: String,
    pub messages: Vec<LlmMessage>,
    /// Those of `temperature`, `maxOutputTokens`, `topP` and `topK` that are set.
    pub config: JsonObject,
}

/// The text of one turn.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LlmMessage {
    pub role: String,
    pub content: String,
}

/// A reply, or a piece of one.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct LlmResponse {
    pub candidates: Vec<Candidate>,
    /// Prompt, candidates and total.
    pub usage: Option<(u64, u64, u64)>,
}

/// One of the model's answers; there is only ever one.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Candidate {
    pub parts: Vec<String>,
    pub finish_reason: Option<String>,
}

/// The changes that a hook makes to a request; `None` leaves a field unchanged.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct RequestChange {
    pub model: Option<String>,
    pub model_by: Chooser,
    pub messages: Option<Vec<LlmMessage>>,
    /// Replaces all four settings: those that are missing become unset, also where the model has a default.
    pub config: Option<JsonObject>,
}

impl LlmRequest {
    /// The texts of a request, and those of the settings it is sent with that hooks know; turns without text are
    /// left out.
    pub fn of(request: &ModelRequest, settings: &GenerationSettings) -> Self {
        let said = request.contents.iter().filter(|content| has_text(content));
        let messages = said.map(|content| LlmMessage {
            role: match content.role {
                Role::User => "user".to_owned(),
                Role::Model => "model".to_owned(),
            },
            content: content.text(),
        });
        let set =
            CONFIG_KEYS.into_iter().filter_map(|key| Some((key.to_owned(), config_value(key, settings)?)));
        Self { model: request.model.clone(), messages: messages.collect(), config: set.collect() }
    }

    pub(crate) fn to_json(&self) -> Value {
        let messages: Vec<Value> = self
            .messages
            .iter()
            .map(|message| json!({"role": message.role, "content": message.content}))
            .collect();
        let mut object = json!({"model": self.model, "messages": messages});
        if !self.config.is_empty()
            && let Some(fields) = object.as_object_mut()
        {
            fields.insert("config".to_owned(), Value::Object(self.config.clone()));
        }
        object
    }
}

impl RequestChange {
    /// From a hook's `llm_request`; fields of the wrong type are ignored.
    pub(crate) fn from_json(value: &Value) -> Option<Self> {
        let object = value.as_object()?;
        let messages = object.get("messages").and_then(Value::as_array);
        Some(Self {
            model: object.get("model").and_then(Value::as_str).map(str::to_owned),
            model_by: Chooser::Anyone,
            messages: messages.map(|messages| messages.iter().filter_map(message).collect()),
            config: object.get("config").and_then(Value::as_object).cloned(),
        })
    }

    /// Changes a request: texts position by position, other parts stay behind their turn's text, further
    /// messages are added.
    pub fn apply(&self, request: &mut ModelRequest) {
        if let Some(model) = self.model.as_ref().filter(|model| **model != request.model) {
            request.model.clone_from(model);
            request.chosen_by = self.model_by;
        }
        if let Some(config) = &self.config {
            let number = |key: &str| config.get(key).and_then(Value::as_number).cloned();
            let settings = &mut request.settings;
            settings.sampling.temperature = Setting::set_or_unset(number("temperature"));
            settings.max_output = Setting::set_or_unset(number("maxOutputTokens").as_ref().and_then(whole));
            settings.sampling.top_p = Setting::set_or_unset(number("topP"));
            settings.sampling.top_k = Setting::set_or_unset(number("topK"));
        }
        let Some(messages) = &self.messages else { return };
        let mut messages = messages.iter();
        for content in request.contents.iter_mut().filter(|content| has_text(content)) {
            let Some(message) = messages.next() else { break };
            let role = role(&message.role);
            if content.text() == message.content && content.role == role {
                continue;
            }
            let kept = content.parts.iter().filter(|part| part.spoken_text().is_none()).cloned();
            let parts = std::iter::once(Part::text(message.content.clone())).chain(kept).collect();
            *content = Arc::new(Content { origin: content.origin.clone(), ..Content::new(role, parts) });
        }
        let added = messages.map(|message| {
            Arc::new(Content::new(role(&message.role), vec![Part::text(message.content.clone())]))
        });
        request.contents.extend(added);
    }
}

impl LlmResponse {
    /// The text of a piece of a reply.
    pub fn of(chunk: &ReplyChunk) -> Self {
        let parts = chunk.parts.iter().filter_map(Part::spoken_text).map(str::to_owned).collect();
        let finish_reason = chunk.finish.as_ref().map(|finish| finish.reason.as_str().to_owned());
        Self {
            candidates: vec![Candidate { parts, finish_reason }],
            usage: chunk.usage.map(|usage| (usage.input, usage.output, usage.total)),
        }
    }

    /// Converts it to a reply; without a finish reason it stops normally.
    pub fn to_chunk(&self) -> ReplyChunk {
        let first = self.candidates.first();
        let reason = first.and_then(|candidate| candidate.finish_reason.as_deref());
        let parts = first.into_iter().flat_map(|candidate| &candidate.parts);
        ReplyChunk {
            parts: parts.map(|text| Part::text(text.clone())).collect(),
            finish: Some(Finish { reason: reason.map_or(FinishReason::Stop, finish_reason), message: None }),
            usage: self.usage.map(|(input, output, total)| Usage {
                input,
                output,
                total,
                ..Usage::default()
            }),
            ..ReplyChunk::default()
        }
    }

    /// From a hook's `llm_response`: at least one part, or `text`.
    pub(crate) fn from_json(value: &Value) -> Option<Self> {
        let object = value.as_object()?;
        let listed = object.get("candidates").and_then(Value::as_array).map(Vec::as_slice);
        let mut candidates: Vec<Candidate> = listed.unwrap_or_default().iter().map(candidate).collect();
        if candidates.is_empty() {
            let text = object.get("text").and_then(Value::as_str)?;
            candidates.push(Candidate { parts: vec![text.to_owned()], finish_reason: None });
        }
        let usage = object.get("usageMetadata").map(|usage| {
            let count = |key: &str| usage.get(key).and_then(Value::as_u64).unwrap_or_default();
            (count("promptTokenCount"), count("candidatesTokenCount"), count("totalTokenCount"))
        });
        let has_parts = candidates.first().is_some_and(|first| !first.parts.is_empty());
        has_parts.then_some(Self { candidates, usage })
    }

    pub(crate) fn to_json(&self) -> Value {
        let mut object = JsonObject::new();
        let text: String =
            self.candidates.iter().take(1).flat_map(|first| first.parts.iter()).cloned().collect();
        if !text.is_empty() {
            object.insert("text".to_owned(), Value::String(text));
        }
        let candidates = self.candidates.iter().enumerate().map(|(index, candidate)| {
            let mut object = json!({"content": {"role": "model", "parts": candidate.parts}, "index": index});
            if let (Some(reason), Some(fields)) = (&candidate.finish_reason, object.as_object_mut()) {
                fields.insert("finishReason".to_owned(), Value::from(reason.as_str()));
            }
            object
        });
        object.insert("candidates".to_owned(), candidates.collect());
        if let Some((prompt, candidates, total)) = self.usage {
            let usage = json!({"promptTokenCount": prompt, "candidatesTokenCount": candidates, "totalTokenCount": total});
            object.insert("usageMetadata".to_owned(), usage);
        }
        Value::Object(object)
    }
}

/// The value of one of [`CONFIG_KEYS`], in whichever form the settings have it.
fn config_value(key: &str, settings: &GenerationSettings) -> Option<Value> {
    let sampling = &settings.sampling;
    let number = match key {
        "temperature" => sampling.temperature.value().cloned(),
        "maxOutputTokens" => settings.max_output.value().map(|limit| Number::from(*limit)),
        "topP" => sampling.top_p.value().cloned(),
        "topK" => sampling.top_k.value().cloned(),
        _ => None,
    };
    let odd = || settings.words_of(&Dialect::GEMINI).and_then(|words| words.get(key)).cloned();
    number.map(Value::Number).or_else(odd)
}

/// A count, also one that a hook's JSON library wrote as `2048.0`.
fn whole(number: &Number) -> Option<u64> {
    let from_float = || number.as_f64().filter(|value| *value >= 0.0 && value.fract() == 0.0);
    number.as_u64().or_else(|| from_float().map(|value| value as u64))
}

fn has_text(content: &Content) -> bool {
    content.parts.iter().any(|part| part.spoken_text().is_some_and(|text| !text.is_empty()))
}

fn role(word: &str) -> Role {
    // A conversation has no third role; system messages are sent as user messages.
    if word == "model" { Role::Model } else { Role::User }
}

/// A message; one without a role is the user's, and a list of texts is one text.
fn message(value: &Value) -> Option<LlmMessage> {
    let role = value.get("role").and_then(Value::as_str).unwrap_or("user");
    let content = match value.get("content")? {
        Value::String(text) => text.clone(),
        Value::Array(parts) => parts.iter().filter_map(text_of).collect(),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::Object(_) => return None,
    };
    Some(LlmMessage { role: role.to_owned(), content })
}

fn candidate(value: &Value) -> Candidate {
    let parts = value.get("content").and_then(|content| content.get("parts")).and_then(Value::as_array);
    let reason = value.get("finishReason").and_then(Value::as_str);
    Candidate {
        parts: parts.map(|parts| parts.iter().filter_map(text_of).collect()).unwrap_or_default(),
        finish_reason: reason.map(str::to_owned),
    }
}

/// Maps the finish reason of a hook to ours.
fn finish_reason(word: &str) -> FinishReason {
    let known = [
        FinishReason::Stop,
        FinishReason::MaxTokens,
        FinishReason::Safety,
        FinishReason::Recitation,
        FinishReason::MalformedFunctionCall,
        FinishReason::UnexpectedToolCall,
        FinishReason::Unspecified,
    ];
    let found = known.into_iter().find(|reason| reason.as_str() == word);
    found.unwrap_or_else(|| FinishReason::Named(word.to_owned()))
}

/// A text, or `{"text": …}` as the provider writes it.
fn text_of(value: &Value) -> Option<String> {
    let text = value.as_str().or_else(|| value.get("text").and_then(Value::as_str));
    text.map(str::to_owned)
}

#[cfg(test)]
mod tests {
    use super::*;
    use pollux_domain::content::FunctionCall;
    use pollux_domain::model::{Grounding, RequestRole};

    fn call() -> Part {
        Part::call(FunctionCall::new(None, "glob", JsonObject::new()))
    }

    fn settings() -> GenerationSettings {
        let other = json!({"other": 2}).as_object().unwrap().clone();
        let mut settings = GenerationSettings::in_words_of(Dialect::GEMINI, other);
        settings.sampling.temperature = Setting::Set(1.into());
        settings.sampling.top_k = Setting::Set(40.into());
        settings
    }

    fn request() -> ModelRequest {
        let turns = [
            Content::user_text("hello"),
            Content::model(vec![Part::text("I look"), call()]),
            Content::model(vec![call()]),
            Content::user_text("more"),
        ];
        ModelRequest {
            model: "auto".into(),
            chosen_by: Default::default(),
            role: RequestRole::Main,
            system: None,
            contents: turns.into_iter().map(Arc::new).collect(),
            tools: Arc::from([]),
            settings: settings(),
            grounding: Grounding::None,
        }
    }

    #[test]
    fn a_request_shows_its_texts_and_four_settings() {
        let request = request();
        let seen = LlmRequest::of(&request, &request.settings).to_json();
        assert_eq!(
            seen,
            json!({"model": "auto", "messages": [
                {"role": "user", "content": "hello"},
                {"role": "model", "content": "I look"},
                {"role": "user", "content": "more"},
            ], "config": {"temperature": 1, "topK": 40}})
        );
    }

    #[test]
    fn a_change_replaces_texts_by_position_and_keeps_calls() {
        let mut changed = request();
        let change = RequestChange::from_json(&json!({
            "model": "pro",
            "messages": [{"role": "user", "content": "hi"}, {"role": "model", "content": "I see"},
                         {"role": "user", "content": "more"}, {"content": "and this"}, 5],
            "config": {"temperature": 0.5, "topP": "x"},
        }));
        change.unwrap().apply(&mut changed);
        let texts: Vec<String> = changed.contents.iter().map(|content| content.text()).collect();
        assert_eq!(texts, ["hi", "I see", "", "more", "and this"]);
        assert_eq!(changed.contents[1].calls().count(), 1);
        assert_eq!(changed.model, "pro");
        // Fields that the hook omitted are removed, whatever the model's default is.
        let mut expected = settings();
        expected.sampling.temperature = Setting::Set(Number::from_f64(0.5).unwrap());
        expected.sampling.top_p = Setting::Unset;
        expected.sampling.top_k = Setting::Unset;
        expected.max_output = Setting::Unset;
        assert_eq!(changed.settings, expected);
        assert!(RequestChange::from_json(&json!("x")).is_none());
    }

    #[test]
    fn responses_survive_a_round_trip() {
        let value = json!({"candidates": [{"content": {"parts": ["a", {"text": "b"}]}}]});
        let chunk = LlmResponse::from_json(&value).unwrap().to_chunk();
        assert_eq!(chunk.finish.as_ref().unwrap().reason, FinishReason::Stop);
        assert_eq!(LlmResponse::of(&chunk).to_json()["text"], "ab");
        let cut = json!({"candidates": [{"content": {"parts": ["a"]}, "finishReason": "MAX_TOKENS"}]});
        let chunk = LlmResponse::from_json(&cut).unwrap().to_chunk();
        assert_eq!(chunk.finish.unwrap().reason, FinishReason::MaxTokens);
        assert_eq!(LlmResponse::from_json(&json!({"text": "x"})).unwrap().candidates[0].parts, ["x"]);
        for nothing in [json!({}), json!({"candidates": [{"content": {"parts": []}}]}), json!([1])] {
            assert_eq!(LlmResponse::from_json(&nothing), None);
        }
    }
}
