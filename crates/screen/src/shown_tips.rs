//! How often the tips were shown, counted across sessions.

use pollux_config::paths::{Home, sha256_hex};
use pollux_config::state;
use serde_json::{Map, Value, json};

/// In `state.json`: hashes of texts, and how often each was shown. gemini-cli counts its banners in the same map; other
/// texts have other hashes.
const COUNTS: &str = "defaultBannerShownCount";
/// gemini-cli shows its tips as often.
const MOST: u64 = 10;

/// Whether the tips are to be shown; if so, counts it in the background, because the first frame waits for no lock.
pub(crate) fn count_tips(home: &Home, tips: &[String]) -> bool {
    let key = sha256_hex(tips.join("\n").as_bytes());
    if shown(&state::read(home), &key) >= MOST {
        return false;
    }
    let home = home.clone();
    let count = move || {
        // A count that is not kept means that the tips are shown once more.
        let _ = state::update(&home, |state| add_one(state, &key));
    };
    let _ = std::thread::Builder::new().name("tips".to_owned()).spawn(count);
    true
}

fn shown(state: &Map<String, Value>, key: &str) -> u64 {
    state.get(COUNTS).and_then(|counts| counts.get(key)?.as_u64()).unwrap_or(0)
}

fn add_one(state: &mut Map<String, Value>, key: &str) {
    let count = shown(state, key).saturating_add(1);
    let counts = state.entry(COUNTS).or_insert(Value::Null);
    if !counts.is_object() {
        *counts = json!({});
    }
    counts[key] = json!(count);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_text_has_its_own_count_and_other_state_stays() {
        let mut state = Map::new();
        state.insert("tipsShown".to_owned(), json!(3));
        state.insert(COUNTS.to_owned(), json!({"theirs": 5}));
        add_one(&mut state, "ours");
        add_one(&mut state, "ours");
        assert_eq!((shown(&state, "ours"), shown(&state, "theirs"), shown(&state, "none")), (2, 5, 0));
        assert_eq!(Value::Object(state), json!({"tipsShown": 3, COUNTS: {"theirs": 5, "ours": 2}}));
    }

    #[test]
    fn a_count_of_another_shape_counts_as_none() {
        let mut state = Map::new();
        state.insert(COUNTS.to_owned(), json!("many"));
        assert_eq!(shown(&state, "ours"), 0);
        add_one(&mut state, "ours");
        assert_eq!(Value::Object(state), json!({COUNTS: {"ours": 1}}));
    }
}
