//! What Gemini's models can do, by their names.

use pollux_domain::model::{Capabilities, Effort};

/// What a model can do.
pub(crate) fn of(model: &str) -> Capabilities {
    let name = bare(model);
    let efforts = if has_thinking_budget(model) {
        // The large ones cannot stop reasoning.
        let least = if name.contains("-pro") { None } else { Some(Effort::None) };
        least.into_iter().chain([Effort::Minimal, Effort::Low, Effort::Medium, Effort::High]).collect()
    } else {
        vec![Effort::Minimal, Effort::Low, Effort::Medium, Effort::High]
    };
    Capabilities {
        tools: true,
        parallel: true,
        tool_choice: true,
        images: true,
        pdf: true,
        audio: true,
        media_in_results: name.starts_with("gemini-3-"),
        reasoning: true,
        efforts,
        structured: true,
        sampling: true,
        mid_system: false,
        sealed_prefix: false,
        think_tags: false,
        wants_todo_list: name.starts_with("gemini-2"),
    }
}

/// The model for small background tasks of a Gemini model; other models that this API serves have none.
pub(crate) fn small(model: &str) -> Option<String> {
    bare(model).starts_with("gemini-").then(|| "flash".to_owned())
}

/// The model that investigates a code base for another one.
pub(crate) fn investigator(model: &str) -> Option<String> {
    match bare(model) {
        name if name.starts_with("gemini-3") => Some("flash".to_owned()),
        name if name.starts_with("gemini-") => Some("gemini-2.5-pro".to_owned()),
        _ => None,
    }
}

/// The model that carries out what a larger one planned, for names that leave the choice to the program.
pub(crate) fn implementer(asked: &str, model: &str) -> Option<String> {
    if !asked.starts_with("auto") {
        return None;
    }
    match bare(model) {
        name if name.starts_with("gemini-2.5") => Some("gemini-2.5-flash".to_owned()),
        name if name.starts_with("gemini-") => Some("flash".to_owned()),
        _ => None,
    }
}

/// Whether reasoning is limited by a number of tokens and not by a level.
pub(crate) fn has_thinking_budget(model: &str) -> bool {
    let name = bare(model);
    name.starts_with("gemini-2") || name.starts_with("gemini-1")
}

/// `models/x` and `x` are the same model.
fn bare(model: &str) -> &str {
    model.strip_prefix("models/").unwrap_or(model)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn generations_differ_in_what_they_can_do() {
        for (name, nested, todo, budget) in [
            ("gemini-3-pro-preview", true, false, false),
            ("models/gemini-3-flash", true, false, false),
            ("gemini-3.1-pro-preview", false, false, false),
            ("gemini-2.5-pro", false, true, true),
            ("gemma-4-31b-it", false, false, false),
        ] {
            let caps = of(name);
            assert_eq!((caps.media_in_results, caps.wants_todo_list), (nested, todo), "{name}");
            assert_eq!(has_thinking_budget(name), budget, "{name}");
        }
        assert_eq!(investigator("gemini-2.5-flash").as_deref(), Some("gemini-2.5-pro"));
        assert_eq!(investigator("models/gemini-3-pro").as_deref(), Some("flash"));
        assert_eq!(implementer("auto-gemini-2.5", "gemini-2.5-pro").as_deref(), Some("gemini-2.5-flash"));
        assert_eq!(implementer("auto", "gemini-3.1-pro-preview").as_deref(), Some("flash"));
        assert_eq!(implementer("gemini-2.5-pro", "gemini-2.5-pro"), None, "a model that was named stays");
        assert_eq!((small("gemini-x").as_deref(), small("gemma-4")), (Some("flash"), None));
    }
}
