//! Old tool outputs leave the conversation for a file when they have grown too many.

use std::path::Path;

use pollux_config::groups::Model;
use pollux_domain::content::{Body, Content, FunctionResponse, Part, Role};
use pollux_domain::id::{CallId, SessionId};
use serde_json::{Value, json};

use crate::history::History;
use crate::tokens;
use crate::truncate;

const MARK: &str = "<tool_output_masked>";
/// Characters kept from each end of a masked output.
const PREVIEW: usize = 250;
/// Tools whose answers steer the conversation and stay.
const EXEMPT: [&str; 4] = ["activate_skill", "ask_user", "enter_plan_mode", "exit_plan_mode"];

/// Masks old outputs; how many tokens were freed.
pub(crate) fn mask_old(history: &mut History, settings: &Model, temp_dir: &Path, session: &SessionId) -> u64 {
    let found = prunable(history, settings);
    let total: u64 = found.iter().map(|(_, _, tokens)| tokens).sum();
    if found.is_empty() || total < settings.mask_min_prunable_tokens {
        return 0;
    }
    let mut freed = 0;
    for (turn, part, tokens) in found {
        freed += mask(history, turn, part, tokens, temp_dir, session).unwrap_or(0);
    }
    freed
}

/// Outputs beyond the protected newest ones: turn, part and tokens.
fn prunable(history: &History, settings: &Model) -> Vec<(usize, usize, u64)> {
    let mut protected = 0;
    let mut found = Vec::new();
    let skip = usize::from(settings.mask_protect_latest);
    for (turn, entry) in history.entries().iter().enumerate().rev().skip(skip) {
        if entry.content.role != Role::User {
            continue;
        }
        for (index, part) in entry.content.parts.iter().enumerate().rev() {
            let Body::Response(response) = &part.body else { continue };
            if EXEMPT.contains(&response.name.as_str()) || is_masked(response) {
                continue;
            }
            let cost = tokens::of_part(part);
            if protected <= settings.mask_protected_tokens {
                protected += cost;
            }
            if protected > settings.mask_protected_tokens {
                found.push((turn, index, cost));
            }
        }
    }
    found
}

fn mask(
    history: &mut History,
    turn: usize,
    index: usize,
    cost: u64,
    temp_dir: &Path,
    session: &SessionId,
) -> Option<u64> {
    let mut content: Content = history.entries().get(turn)?.content.as_ref().clone();
    let part = content.parts.get_mut(index)?;
    let Body::Response(response) = &part.body else { return None };
    let whole = serde_json::to_string_pretty(&Value::Object(response.response.clone())).ok()?;
    let id = CallId::from_file(format!("{}_masked", response.id.clone().unwrap_or_default()));
    let file = truncate::file_for(temp_dir, session, &response.name, &id);
    let masked = masked_response(response, &whole, &file);
    let masked_part = Part::response(masked);
    let new_cost = tokens::of_part(&masked_part);
    if new_cost >= cost || truncate::save(&file, &whole).is_err() {
        return None;
    }
    part.body = masked_part.body;
    history.rewrite(turn, content);
    Some(cost - new_cost)
}

fn masked_response(response: &FunctionResponse, whole: &str, file: &Path) -> FunctionResponse {
    let count = whole.chars().count();
    let preview = if count <= 2 * PREVIEW {
        whole.to_owned()
    } else {
        let head: String = whole.chars().take(PREVIEW).collect();
        let tail: String = whole.chars().skip(count - PREVIEW).collect();
        format!("{head}\n... [{} characters omitted] ...\n{tail}", count - 2 * PREVIEW)
    };
    let text = format!("{MARK}\n{preview}\n\nFull output: {}\n</tool_output_masked>", file.display());
    let mut fields = pollux_domain::JsonObject::new();
    fields.insert("output".into(), json!(text));
    FunctionResponse {
        id: response.id.clone(),
        name: response.name.clone(),
        response: fields,
        parts: Vec::new(),
    }
}

fn is_masked(response: &FunctionResponse) -> bool {
    response.response.get("output").and_then(Value::as_str).is_some_and(|text| text.starts_with(MARK))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn answer(id: &str, length: usize) -> Content {
        let response = json!({"output": "x".repeat(length)}).as_object().unwrap().clone();
        Content::user(vec![Part::response(FunctionResponse {
            id: Some(id.into()),
            name: "read_file".into(),
            response,
            parts: Vec::new(),
        })])
    }

    #[test]
    fn only_old_outputs_are_masked_and_their_text_is_kept_in_a_file() {
        let dir = tempfile::tempdir().unwrap();
        let mut history = History::new(Content::user_text("env"), []);
        for n in 0..5 {
            history.push(None, answer(&format!("c{n}"), 40_000));
        }
        let settings = Model {
            mask_protected_tokens: 15_000,
            mask_min_prunable_tokens: 10_000,
            mask_protect_latest: true,
            ..Default::default()
        };
        let freed = mask_old(&mut history, &settings, dir.path(), &SessionId::from_file("s"));
        assert!(freed > 25_000, "{freed}");
        let masked: Vec<bool> =
            history.entries().iter().skip(1).map(|entry| entry.content.responses().any(is_masked)).collect();
        assert_eq!(masked, [true, true, true, false, false]);
        assert_eq!(
            std::fs::read_dir(truncate::folder(dir.path(), &SessionId::from_file("s"))).unwrap().count(),
            3
        );
        assert_eq!(mask_old(&mut history, &settings, dir.path(), &SessionId::from_file("s")), 0);
    }
}
