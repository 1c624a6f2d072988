//! Modes, models and other choices of a session, as the client shows them.

use pollux_domain::approval::ApprovalMode;
use serde_json::{Value, json};

use crate::session::Facts;

/// All modes: id, name and description.
const MODES: [(ApprovalMode, &str, &str, &str); 4] = [
    (ApprovalMode::Default, "default", "Default", "Ask before changes and commands"),
    (ApprovalMode::AutoEdit, "autoEdit", "Auto Edit", "Approve file edits in the workspace"),
    (ApprovalMode::Yolo, "yolo", "YOLO", "Approve everything"),
    (ApprovalMode::Plan, "plan", "Plan", "Read only; write a plan"),
];

/// The mode with this id.
pub(crate) fn mode(id: &str) -> Option<ApprovalMode> {
    MODES.iter().find(|(_, known, ..)| *known == id).map(|(mode, ..)| *mode)
}

fn id(mode: ApprovalMode) -> &'static str {
    MODES.iter().find(|(known, ..)| *known == mode).map_or("default", |(_, id, ..)| id)
}

/// Why a mode is not available, if it is not.
pub(crate) fn forbidden(mode: ApprovalMode, facts: &Facts) -> Option<&'static str> {
    pollux_host::forbidden_mode(mode, facts.granted, facts.yolo_is_forbidden, facts.is_trusted)
}

fn available(
    facts: &Facts,
) -> impl Iterator<Item = &'static (ApprovalMode, &'static str, &'static str, &'static str)> {
    let current = facts.mode;
    MODES.iter().filter(move |(mode, ..)| *mode == current || forbidden(*mode, facts).is_none())
}

/// `modes` of an answer.
pub(crate) fn modes(facts: &Facts) -> Value {
    let modes: Vec<Value> = available(facts)
        .map(|(_, id, name, about)| json!({"id": id, "name": name, "description": about}))
        .collect();
    json!({"currentModeId": id(facts.mode), "availableModes": modes})
}

/// `models` of an answer, which older clients read.
pub(crate) fn models(facts: &Facts) -> Value {
    let mut models: Vec<Value> = facts
        .models
        .iter()
        .map(|row| json!({"modelId": row.name, "name": row.name, "description": row.provider_name}))
        .collect();
    if facts.models.iter().all(|row| row.name != facts.model) {
        models.insert(0, json!({"modelId": facts.model, "name": facts.model}));
    }
    json!({"currentModelId": facts.model, "availableModels": models})
}

/// `configOptions`, complete and in order of importance.
pub(crate) fn config_options(facts: &Facts) -> Value {
    let modes: Vec<Value> = available(facts)
        .map(|(_, id, name, about)| json!({"value": id, "name": name, "description": about}))
        .collect();
    json!([
        {
            "id": "mode",
            "name": "Approval mode",
            "description": "What runs without approval",
            "category": "mode",
            "type": "select",
            "currentValue": id(facts.mode),
            "options": modes,
        },
        {
            "id": "model",
            "name": "Model",
            "category": "model",
            "type": "select",
            "currentValue": facts.model,
            "options": model_groups(facts),
        },
    ])
}

/// The models by provider.
fn model_groups(facts: &Facts) -> Vec<Value> {
    let mut groups: Vec<(&str, &str, Vec<Value>)> = Vec::new();
    for row in &facts.models {
        let option = match &row.stands_for {
            Some(id) => {
                json!({"value": row.name, "name": row.name, "description": format!("currently {id}")})
            }
            None => json!({"value": row.name, "name": row.name}),
        };
        match groups.iter_mut().find(|(provider, ..)| *provider == row.provider) {
            Some((.., options)) => options.push(option),
            None => groups.push((&row.provider, &row.provider_name, vec![option])),
        }
    }
    let is_listed = facts.models.iter().any(|row| row.name == facts.model);
    if !is_listed {
        groups.insert(0, ("current", "Current", vec![json!({"value": facts.model, "name": facts.model})]));
    }
    groups
        .into_iter()
        .map(|(group, name, options)| json!({"group": group, "name": name, "options": options}))
        .collect()
}

/// The update that tells the mode.
pub(crate) fn mode_update(facts: &Facts) -> Value {
    json!({"sessionUpdate": "current_mode_update", "currentModeId": id(facts.mode)})
}

/// The update that tells all options.
pub(crate) fn options_update(facts: &Facts) -> Value {
    json!({"sessionUpdate": "config_option_update", "configOptions": config_options(facts)})
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn modes_that_are_not_available_are_not_offered() {
        let ids = |facts: &Facts| {
            let modes = modes(facts);
            let modes = modes["availableModes"].as_array().unwrap().clone();
            modes.iter().map(|mode| mode["id"].as_str().unwrap().to_owned()).collect::<Vec<_>>()
        };
        let trusted = Facts { is_trusted: true, ..Facts::default() };
        assert_eq!(ids(&trusted), ["default", "autoEdit", "yolo", "plan"]);
        assert_eq!(
            ids(&Facts { yolo_is_forbidden: true, ..trusted.clone() }),
            ["default", "autoEdit", "plan"]
        );
        assert_eq!(ids(&Facts::default()), ["default", "plan"]);
        let started_with =
            Facts { mode: ApprovalMode::Plan, granted: ApprovalMode::Yolo, ..Facts::default() };
        assert_eq!(ids(&started_with), ["default", "yolo", "plan"], "the way back stays open");
        let model = Facts { model: "m".into(), ..trusted };
        assert_eq!(config_options(&model)[1]["options"][0]["options"][0]["value"], "m");
        assert_eq!(mode("autoEdit"), Some(ApprovalMode::AutoEdit));
        assert_eq!(mode("auto"), None);
    }
}
