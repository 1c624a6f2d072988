//! Reading `modelConfigs`, the built-in one and the user's alike.

use pollux_domain::JsonObject;
use serde_json::Value;

use super::{Catalogue, CatalogueError, Occasion};

/// A named set of generation settings.
#[derive(Debug, Clone, Default)]
pub(super) struct Alias {
    pub(super) extends: Option<String>,
    pub(super) model: Option<String>,
    pub(super) settings: JsonObject,
}

/// Settings that apply on some occasions.
#[derive(Debug, Clone)]
pub(super) struct Override {
    pub(super) model_matched: Option<String>,
    scope: Option<String>,
    is_retry: Option<bool>,
    /// How many conditions it names.
    pub(super) conditions: usize,
    pub(super) model: Option<String>,
    pub(super) settings: JsonObject,
}

impl Override {
    pub(super) fn fits(&self, occasion: Occasion<'_>) -> bool {
        // Upstream's word for the main conversation is `core`.
        let scope = occasion.scope.unwrap_or("core");
        self.conditions > 0
            && self.scope.as_deref().is_none_or(|wanted| wanted == scope)
            && self.is_retry.is_none_or(|wanted| wanted == occasion.is_retry)
    }
}

impl Catalogue {
    /// Lays one `modelConfigs` over the tables.
    pub(super) fn add(&mut self, configs: &Value) -> Result<(), CatalogueError> {
        let Some(configs) = optional_object("", Some(configs))? else { return Ok(()) };
        for key in ["aliases", "customAliases"] {
            for (name, value) in optional_object(key, configs.get(key))?.into_iter().flatten() {
                self.aliases.insert(name.clone(), alias(&format!("{key}.{name}"), value)?);
            }
        }
        for key in ["overrides", "customOverrides"] {
            for (index, value) in optional_array(key, configs.get(key))?.into_iter().flatten().enumerate() {
                self.overrides.push(overriding(&format!("{key}[{index}]"), value)?);
            }
        }
        let names = optional_object("modelIdResolutions", configs.get("modelIdResolutions"))?;
        for (name, value) in names.into_iter().flatten() {
            // Upstream writes an object with a default and conditions of its own.
            if let Some(id) = value.as_str().or_else(|| value.get("default")?.as_str()) {
                self.names.insert(name.clone(), id.to_owned());
            }
        }
        for (name, value) in
            optional_object("contextWindows", configs.get("contextWindows"))?.into_iter().flatten()
        {
            if let Some(tokens) = value.as_u64() {
                self.windows.insert(name.clone(), tokens);
            }
        }
        for family in optional_array("families", configs.get("families"))?.into_iter().flatten() {
            if let (Some(prefix), Some(alias)) = (text(family, "prefix"), text(family, "extends")) {
                self.families.push((prefix, alias));
            }
        }
        Ok(())
    }
}

fn alias(key: &str, value: &Value) -> Result<Alias, CatalogueError> {
    let fields = object(key, value)?;
    let (model, settings) = model_config(key, fields)?;
    Ok(Alias { extends: text(value, "extends"), model, settings })
}

fn overriding(key: &str, value: &Value) -> Result<Override, CatalogueError> {
    let fields = object(key, value)?;
    let (model, settings) = model_config(key, fields)?;
    let nothing = JsonObject::new();
    let conditions = optional_object(&format!("{key}.match"), fields.get("match"))?.unwrap_or(&nothing);
    let condition = |name: &str| conditions.get(name).and_then(Value::as_str).map(str::to_owned);
    Ok(Override {
        model_matched: condition("model"),
        scope: condition("overrideScope"),
        is_retry: conditions.get("isRetry").and_then(Value::as_bool),
        conditions: conditions.values().filter(|value| !value.is_null()).count(),
        model,
        settings,
    })
}

fn model_config(key: &str, fields: &JsonObject) -> Result<(Option<String>, JsonObject), CatalogueError> {
    let key = format!("{key}.modelConfig");
    let Some(config) = optional_object(&key, fields.get("modelConfig"))? else {
        return Ok((None, JsonObject::new()));
    };
    let settings =
        optional_object(&format!("{key}.generateContentConfig"), config.get("generateContentConfig"))?;
    let model = config.get("model").and_then(Value::as_str).map(str::to_owned);
    Ok((model, settings.cloned().unwrap_or_default()))
}

fn text(value: &Value, key: &str) -> Option<String> {
    value.get(key).and_then(Value::as_str).map(str::to_owned)
}

fn object<'a>(key: &str, value: &'a Value) -> Result<&'a JsonObject, CatalogueError> {
    value.as_object().ok_or_else(|| CatalogueError::Shape { key: key.to_owned(), expected: "an object" })
}

fn optional_object<'a>(
    key: &str,
    value: Option<&'a Value>,
) -> Result<Option<&'a JsonObject>, CatalogueError> {
    value.filter(|value| !value.is_null()).map(|value| object(key, value)).transpose()
}

fn optional_array<'a>(key: &str, value: Option<&'a Value>) -> Result<Option<&'a Vec<Value>>, CatalogueError> {
    let shape = || CatalogueError::Shape { key: key.to_owned(), expected: "an array" };
    value.filter(|value| !value.is_null()).map(|value| value.as_array().ok_or_else(shape)).transpose()
}
