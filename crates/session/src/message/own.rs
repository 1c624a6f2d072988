//! Data that only this program stores with a message, under the key `pollux`: the model's origin and tokens of
//! providers that upstream's format cannot hold, what a session with a budget has spent, the model that the user
//! chose, and where a user message comes from.

use std::borrow::Cow;
use std::sync::Arc;

use pollux_domain::JsonObject;
use pollux_domain::budget::Spent;
use pollux_domain::content::{Body, POLLUX, Part, Seal};
use pollux_domain::model::{Dialect, Origin, ProviderId};
use serde_json::{Value, json};

use crate::session_model::SessionModel;

/// Size limit for the seals of one reply; without them a provider restarts its reasoning.
const MAX_SEALS: usize = 1024 * 1024;

/// The parts that upstream's format can hold, and what else there is to keep.
pub(super) fn split<'a>(parts: &'a [Part], origin: Option<&Origin>) -> (Cow<'a, [Part]>, Option<Value>) {
    let (plain, seals) = if parts.iter().any(|part| part.is_sealed_reasoning() || foreign(part).is_some()) {
        let (plain, seals) = without_seals(parts);
        (Cow::Owned(plain), seals)
    } else {
        (Cow::Borrowed(parts), Vec::new())
    };
    let mut own = JsonObject::new();
    if let Some(origin) = origin.filter(|origin| !origin.is_implied()) {
        own.insert("origin".into(), origin_json(origin));
    }
    if !seals.is_empty() {
        let seals = Value::Array(seals);
        let fits = seals.to_string().len() <= MAX_SEALS;
        own.insert("seals".into(), if fits { seals } else { json!("dropped: too large") });
    }
    (plain, (!own.is_empty()).then_some(Value::Object(own)))
}

fn without_seals(parts: &[Part]) -> (Vec<Part>, Vec<Value>) {
    let mut plain = Vec::with_capacity(parts.len());
    let mut seals = Vec::new();
    for (at, part) in parts.iter().enumerate() {
        match (&part.body, foreign(part)) {
            (Body::Reasoning { text, summary, seal: Some(seal) }, _) => {
                seals.push(json!({"at": at, "text": text, "summary": summary, "seal": seal.to_json()}));
            }
            (_, Some(seal)) => {
                seals.push(json!({"at": at, "seal": seal.to_json()}));
                plain.push(Part { seal: None, ..part.clone() });
            }
            (_, None) => plain.push(part.clone()),
        }
    }
    (plain, seals)
}

/// Puts seals back on the parts they came with.
pub(super) fn join(own: &Value, parts: &mut Vec<Part>) {
    for entry in own.get("seals").and_then(Value::as_array).into_iter().flatten() {
        let at = entry.get("at").and_then(Value::as_u64).and_then(|at| usize::try_from(at).ok());
        let (Some(at), Some(seal)) = (at, entry.get("seal").and_then(Seal::from_json)) else { continue };
        match entry.get("text").and_then(Value::as_str) {
            Some(text) if at <= parts.len() => {
                let summary = entry.get("summary").and_then(Value::as_bool).unwrap_or(false);
                parts.insert(at, Body::Reasoning { text: text.to_owned(), summary, seal: Some(seal) }.into());
            }
            Some(_) => {}
            None => {
                if let Some(part) = parts.get_mut(at) {
                    part.seal = Some(seal);
                }
            }
        }
    }
}

/// The model's origin, if recorded.
pub(super) fn origin(own: &Value) -> Option<Arc<Origin>> {
    let origin = own.get("origin")?;
    let text = |key: &str| origin.get(key).and_then(Value::as_str).map(str::to_owned);
    Some(Arc::new(Origin {
        provider: ProviderId::new(text("provider")?),
        dialect: Dialect::new(text("dialect")?),
        host: text("host").unwrap_or_default(),
        model: text("model").unwrap_or_default(),
        response_id: text("responseId"),
        phase: text("phase"),
    }))
}

/// Adds what the session has spent.
pub(crate) fn add_spent(message: &mut JsonObject, spent: &Spent) {
    if let Value::Object(own) = message.entry(POLLUX).or_insert_with(|| json!({})) {
        own.insert("spent".into(), spent.to_record());
    }
}

/// What the session had spent when a message was written, from the fields that are not its own.
pub(crate) fn spent(extra: &JsonObject) -> Option<Spent> {
    let spent = extra.get(POLLUX)?.get("spent")?;
    spent.is_object().then(|| Spent::from_record(spent))
}

/// Adds the model that the user chose.
pub(crate) fn add_model(message: &mut JsonObject, model: &SessionModel) {
    if let Value::Object(own) = message.entry(POLLUX).or_insert_with(|| json!({})) {
        let SessionModel { provider, name, local } = model;
        own.insert("model".into(), json!({"provider": provider, "name": name, "local": local}));
    }
}

/// The model that the user had chosen when a message was written, from the fields that are not its own.
pub(crate) fn model(extra: &JsonObject) -> Option<SessionModel> {
    let model = extra.get(POLLUX)?.get("model")?;
    let text = |key: &str| model.get(key).and_then(Value::as_str).map(str::to_owned);
    let local = model.get("local").and_then(Value::as_bool).unwrap_or(false);
    Some(SessionModel { provider: text("provider")?, name: text("name")?, local })
}

/// Where a user message comes from.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default)]
pub enum UserSource {
    /// The user, who began a turn with it.
    #[default]
    Prompt,
    /// The user or a hook, during a turn.
    DuringTurn,
    /// This program, which tells the model something.
    Program,
}

impl UserSource {
    fn word(self) -> Option<&'static str> {
        match self {
            Self::Prompt => None,
            Self::DuringTurn => Some("turn"),
            Self::Program => Some("program"),
        }
    }
}

/// Adds where a user message comes from.
pub(crate) fn add_source(message: &mut JsonObject, source: UserSource) {
    let Some(word) = source.word() else { return };
    if let Value::Object(own) = message.entry(POLLUX).or_insert_with(|| json!({})) {
        own.insert("source".into(), json!(word));
    }
}

/// Where a user message comes from, from the fields that are not its own.
pub(crate) fn source(extra: &JsonObject) -> UserSource {
    let word = extra.get(POLLUX).and_then(|own| own.get("source")).and_then(Value::as_str);
    let known = [UserSource::DuringTurn, UserSource::Program];
    known.into_iter().find(|source| word.is_some() && source.word() == word).unwrap_or_default()
}

/// A seal that upstream's format has no field for.
fn foreign(part: &Part) -> Option<&Seal> {
    part.seal.as_ref().filter(|seal| seal.signature().is_none())
}

fn origin_json(origin: &Origin) -> Value {
    let mut fields = JsonObject::new();
    let known = [
        ("provider", Some(origin.provider.as_str())),
        ("dialect", Some(origin.dialect.as_str())),
        ("host", Some(origin.host.as_str())),
        ("model", Some(origin.model.as_str())),
        ("responseId", origin.response_id.as_deref()),
        ("phase", origin.phase.as_deref()),
    ];
    for (key, value) in known {
        if let Some(value) = value {
            fields.insert(key.into(), json!(value));
        }
    }
    Value::Object(fields)
}

#[cfg(test)]
mod tests {
    use super::*;
    use pollux_domain::content::{FunctionCall, SealKind};

    fn elsewhere() -> Origin {
        Origin {
            provider: ProviderId::new("anthropic"),
            dialect: Dialect::new("messages"),
            host: "https://api.example".into(),
            model: "c".into(),
            response_id: Some("msg_1".into()),
            phase: None,
        }
    }

    fn reasoning(text: &str) -> Part {
        let seal = Some(Seal { kind: SealKind::AnthropicThinking, data: json!({"signature": "s"}) });
        Body::Reasoning { text: text.into(), summary: false, seal }.into()
    }

    #[test]
    fn a_reply_of_geminis_keeps_nothing_of_its_own() {
        let mut signed = Part::text("a");
        signed.seal = Some(Seal::gemini("sig"));
        let gemini = Origin {
            provider: ProviderId::GEMINI,
            dialect: Dialect::GEMINI,
            response_id: Some("r".into()),
            ..elsewhere()
        };
        let parts = [signed, Part::text("b")];
        assert_eq!(split(&parts, Some(&gemini)), (Cow::Borrowed(parts.as_slice()), None));
        assert_eq!(split(&parts, None).1, None);
    }

    #[test]
    fn parts_seals_and_origin_survive_in_their_order() {
        let mut call = Part::call(FunctionCall::new(Some("1".into()), "ls", JsonObject::new()));
        call.seal = Some(Seal { kind: SealKind::OpenAiReasoning, data: json!("fc_1") });
        let parts = vec![reasoning("why"), Part::text("so"), call.clone(), reasoning(""), call];
        let (plain, own) = split(&parts, Some(&elsewhere()));
        let mut plain = plain.into_owned();
        assert_eq!(plain.len(), 3);
        assert!(plain.iter().all(|part| part.seal.is_none()));
        let own = own.unwrap();
        join(&own, &mut plain);
        assert_eq!(plain, parts);
        assert_eq!(origin(&own).as_deref(), Some(&elsewhere()));
    }

    #[test]
    fn seals_that_are_too_large_are_dropped_with_a_note() {
        let large = [reasoning(&"x".repeat(MAX_SEALS)), Part::text("a")];
        let (plain, own) = split(&large, None);
        assert_eq!(*plain, [Part::text("a")]);
        let own = own.unwrap();
        let mut parts = plain.to_vec();
        join(&own, &mut parts);
        assert_eq!((parts.as_slice(), own["seals"].is_string()), (&*plain, true));
    }

    #[test]
    fn odd_records_are_read_as_far_as_they_go() {
        let own = json!({"origin": {"provider": 1}, "seals": [1, {}, {"at": 9, "seal": {"kind": "x", "data": 1}},
            {"at": 9, "text": "t", "seal": {"kind": "reasoning-content", "data": "t"}}]});
        let mut parts = vec![Part::text("a")];
        join(&own, &mut parts);
        assert_eq!((parts, origin(&own)), (vec![Part::text("a")], None));
    }
}
