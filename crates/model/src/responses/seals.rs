//! Which sealed items may go back, and what servers refused so far.
//!
//! Encrypted reasoning can be read by the organisation and the models it was made for. Where a server refuses it
//! anyway, the request is sent once more without it, and that reasoning is never sent again.

use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::sync::{Mutex, MutexGuard, PoisonError};

use pollux_domain::content::{Body, Content};
use pollux_domain::model::{Dialect, ModelErrorKind, Origin};
use serde_json::Value;

use super::values::text;
use crate::http::Failure;
use crate::shared::fault;

/// After so many refusals of seals a model gets none any more.
const MAX_REFUSALS: u32 = 3;

/// What servers say when they cannot use a sealed item, next to what others say, too.
const COMPLAINTS: &[&str] = &["without its required following item", "encrypted content could not be"];

/// Whether a server refuses sealed items: they are not on the server, or it cannot read them.
pub(super) fn names_a_seal(failure: &Failure) -> bool {
    let error = &failure.error;
    let may_be = matches!(error.kind, ModelErrorKind::BadRequest | ModelErrorKind::NotFound);
    let said = error.message.to_ascii_lowercase();
    let complains = error.details.code.as_deref() == Some("invalid_encrypted_content")
        || COMPLAINTS.iter().any(|complaint| said.contains(complaint));
    may_be && (complains || fault::refuses_seals(error))
}

/// Whether a model can read what another turn of a model's has sealed.
pub(super) fn may_return(origin: &Origin, here: &Origin) -> bool {
    origin.dialect == Dialect::RESPONSES
        && origin.host == here.host
        && family(&origin.model) == family(&here.model)
}

/// The models that read each other's reasoning: `gpt-5.6-sol` and `gpt-5.6-luna-2026-05-01` are of one family.
fn family(model: &str) -> String {
    let name = model.rsplit('/').next().unwrap_or(model).to_ascii_lowercase();
    let words: Vec<&str> = name.split('-').collect();
    let is_number = |word: &&str| !word.is_empty() && word.chars().all(|c| c.is_ascii_digit());
    let dated = words
        .windows(3)
        .position(|date| date.iter().all(is_number) && date.iter().map(|word| word.len()).eq([4, 2, 2]));
    let words: Vec<&str> = words.into_iter().take(dated.unwrap_or(usize::MAX)).collect();
    match words.as_slice() {
        ["gpt", version, ..] => format!("gpt-{version}"),
        other => other.join("-"),
    }
}

/// What a server refused, for as long as the client lives.
#[derive(Debug, Default)]
pub(super) struct Refused(Mutex<Lists>);

#[derive(Debug, Default)]
struct Lists {
    /// Fields of the body, by model.
    fields: BTreeMap<String, BTreeSet<String>>,
    /// Sealed items, by their ids.
    seals: HashSet<String>,
    /// How often seals were refused, by model.
    times: BTreeMap<String, u32>,
}

impl Refused {
    fn lists(&self) -> MutexGuard<'_, Lists> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The fields that a model's requests do without.
    pub(super) fn fields(&self, model: &str) -> BTreeSet<String> {
        self.lists().fields.get(model).cloned().unwrap_or_default()
    }

    /// Notes a field; false if it was known.
    pub(super) fn add_field(&self, model: &str, field: &str) -> bool {
        self.lists().fields.entry(model.to_owned()).or_default().insert(field.to_owned())
    }

    /// Whether a model's requests may have seals at all.
    pub(super) fn allows_seals(&self, model: &str) -> bool {
        self.lists().times.get(model).is_none_or(|times| *times < MAX_REFUSALS)
    }

    /// Whether this sealed item may be sent.
    pub(super) fn allows(&self, item: &Value) -> bool {
        let lists = self.lists();
        lists.seals.is_empty() || text(item, "id").is_none_or(|id| !lists.seals.contains(id))
    }

    /// Notes every sealed item of a conversation; false if it has none that was not known.
    pub(super) fn add_seals<'a>(&self, model: &str, contents: impl IntoIterator<Item = &'a Content>) -> bool {
        let mut lists = self.lists();
        let before = lists.seals.len();
        for part in contents.into_iter().flat_map(|content| &content.parts) {
            if let Body::Reasoning { seal: Some(seal), .. } = &part.body
                && let Some(id) = text(&seal.data, "id")
            {
                lists.seals.insert(id.to_owned());
            }
        }
        if lists.seals.len() == before {
            return false;
        }
        *lists.times.entry(model.to_owned()).or_default() += 1;
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn families_have_one_version_and_any_size_and_date() {
        let same = [
            ("gpt-5.6-sol", "gpt-5.6-luna-2026-05-01"),
            ("gpt-5.3-codex", "gpt-5.3"),
            ("openai/gpt-5.3", "gpt-5.3"),
            ("o3-2025-04-16", "o3"),
        ];
        for (one, other) in same {
            assert_eq!(family(one), family(other));
        }
        for (one, other) in [("gpt-5.6-sol", "gpt-6.1-sol"), ("o3", "o4-mini"), ("qwen3-coder", "qwen3-4b")] {
            assert_ne!(family(one), family(other));
        }
    }

    #[test]
    fn only_a_refusal_of_a_seal_counts_as_one() {
        let failure = |status, message: &str| {
            let kind = if status == 404 { ModelErrorKind::NotFound } else { ModelErrorKind::BadRequest };
            Failure::for_good(kind, Some(status), message)
        };
        for message in [
            "Item with id 'rs_0a1b' not found. Items are not persisted when `store` is set to false.",
            "Item 'fc_1' of type 'function_call' was provided without its required 'reasoning' item: 'rs_1'.",
            "Item 'rs_1' of type 'reasoning' was provided without its required following item.",
            "The encrypted content could not be verified. Reason: Encrypted content organization_id did not match.",
        ] {
            assert!(names_a_seal(&failure(400, message)), "{message}");
            assert!(names_a_seal(&failure(404, message)), "{message}");
        }
        assert!(!names_a_seal(&failure(404, "The model `gpt-9` does not exist")));
        let server = Failure::passing(ModelErrorKind::Server, "The encrypted content could not be verified");
        assert!(!names_a_seal(&server));
    }
}
