//! Generation settings in Gemini's words, which are also those of `generateContentConfig` in settings files,
//! and in the port's.
//!
//! [`plan`] lays a request over its alias without translating the alias, so that what people write reaches the
//! API as they wrote it; [`settings`] is the same in neutral words, for hooks and for clients of other dialects.

use pollux_domain::JsonObject;
use pollux_domain::model::{
    Dialect, Effort, GenerationSettings, ModelRequest, OutputFormat, Setting, ToolChoice,
};
use serde_json::{Number, Value, json};

use crate::catalogue::{Catalogue, Occasion, Resolved, merge};

const THINKING: &str = "thinkingConfig";
const BUDGET: &str = "thinkingBudget";
const LEVEL: &str = "thinkingLevel";
const TOOL_CONFIG: &str = "toolConfig";
const CALLING: &str = "functionCallingConfig";
const MIME_TYPE: &str = "responseMimeType";
const SCHEMA: &str = "responseJsonSchema";
const JSON: &str = "application/json";

/// The concrete model and the words with which a request is sent.
pub(crate) fn plan(catalogue: &Catalogue, request: &ModelRequest) -> Resolved {
    let mut resolved = catalogue.look_up(&request.model, Occasion::default());
    merge(&mut resolved.settings, &write(&request.settings));
    resolved.settings.retain(|_, value| !value.is_null());
    if !says_effort(&request.settings) {
        set_effort(&mut resolved, request.settings.effort);
    }
    resolved
}

/// The neutral settings of a request over those of its alias.
pub(crate) fn settings(catalogue: &Catalogue, request: &ModelRequest) -> GenerationSettings {
    let mut settings = read(&catalogue.look_up(&request.model, Occasion::default()).settings);
    let mut over = request.settings.clone();
    if let Some(words) = over.extra.remove(&Dialect::GEMINI) {
        settings.lay(read(&words));
    }
    settings.lay(over);
    settings
}

/// Reads Gemini's words. What has no neutral word, or says more than one, stays among the words of the dialect.
pub(crate) fn read(words: &JsonObject) -> GenerationSettings {
    let mut settings = GenerationSettings::default();
    let mut rest = JsonObject::new();
    for (key, value) in words {
        if !read_word(key, value, &mut settings) {
            rest.insert(key.clone(), value.clone());
        }
    }
    read_output(words, &mut rest, &mut settings);
    settings.lay(GenerationSettings::in_words_of(Dialect::GEMINI, rest));
    settings
}

/// Whether the neutral settings now say all that the word did.
fn read_word(key: &str, value: &Value, settings: &mut GenerationSettings) -> bool {
    let sampling = &mut settings.sampling;
    match key {
        "temperature" => take(&mut sampling.temperature, value, number),
        "topP" => take(&mut sampling.top_p, value, number),
        "topK" => take(&mut sampling.top_k, value, number),
        "seed" => take(&mut sampling.seed, value, Value::as_i64),
        "stopSequences" => take(&mut sampling.stop, value, texts),
        "maxOutputTokens" => take(&mut settings.max_output, value, Value::as_u64),
        THINKING => {
            // Budgets and `includeThoughts` say more than an effort does.
            take(&mut settings.effort, value, effort) && (value.is_null() || says_level_only(value))
        }
        TOOL_CONFIG => take(&mut settings.tool_choice, value, tool_choice),
        _ => false,
    }
}

/// Reads a value; `null` takes a default away. False if it cannot be read.
fn take<T>(setting: &mut Setting<T>, value: &Value, read: impl Fn(&Value) -> Option<T>) -> bool {
    match read(value) {
        Some(read) => *setting = Setting::Set(read),
        None if value.is_null() => *setting = Setting::Unset,
        None => return false,
    }
    true
}

fn number(value: &Value) -> Option<Number> {
    value.as_number().cloned()
}

fn texts(value: &Value) -> Option<Vec<String>> {
    value.as_array()?.iter().map(|text| text.as_str().map(str::to_owned)).collect()
}

fn effort(value: &Value) -> Option<Effort> {
    match (value.get(LEVEL).and_then(Value::as_str), value.get(BUDGET).and_then(Value::as_i64)) {
        (Some("MINIMAL"), _) => Some(Effort::Minimal),
        (Some("LOW"), _) => Some(Effort::Low),
        (Some("MEDIUM"), _) => Some(Effort::Medium),
        (Some("HIGH"), _) => Some(Effort::High),
        (_, Some(0)) => Some(Effort::None),
        (_, Some(1..=2048)) => Some(Effort::Low),
        (_, Some(2049..=8192)) => Some(Effort::Medium),
        (_, Some(8193..)) => Some(Effort::High),
        // A negative budget leaves it to the model.
        _ => None,
    }
}

fn says_level_only(value: &Value) -> bool {
    value.as_object().is_some_and(|fields| fields.len() == 1 && fields.contains_key(LEVEL))
}

fn tool_choice(value: &Value) -> Option<ToolChoice> {
    let calling = only_field(value, CALLING)?;
    let mode = calling.get("mode")?.as_str()?;
    let names = calling.get("allowedFunctionNames");
    if calling.len() != 1 + usize::from(names.is_some()) {
        return None;
    }
    match (mode, names.map(texts)) {
        ("AUTO", None) => Some(ToolChoice::Auto),
        ("NONE", None) => Some(ToolChoice::None),
        ("ANY", None) => Some(ToolChoice::Required),
        ("ANY", Some(Some(mut names))) => match names.len() {
            0 => None,
            1 => names.pop().map(ToolChoice::Only),
            _ => Some(ToolChoice::Allowed { names, required: true }),
        },
        _ => None,
    }
}

fn only_field<'a>(value: &'a Value, key: &str) -> Option<&'a JsonObject> {
    let fields = value.as_object().filter(|fields| fields.len() == 1)?;
    fields.get(key)?.as_object()
}

/// Two words make the form of the output, and only together.
fn read_output(words: &JsonObject, rest: &mut JsonObject, settings: &mut GenerationSettings) {
    let schema = words.get(SCHEMA);
    let format = match words.get(MIME_TYPE) {
        Some(Value::String(kind)) if kind == JSON => {
            Some(OutputFormat::Json { name: None, schema: schema.cloned(), strict: true })
        }
        Some(Value::String(kind)) if kind == "text/plain" && schema.is_none() => Some(OutputFormat::Text),
        _ => None,
    };
    if let Some(format) = format.filter(|_| schema.is_none_or(Value::is_object)) {
        settings.output = Setting::Set(format);
        rest.retain(|key, _| key != MIME_TYPE && key != SCHEMA);
    }
}

/// Writes settings as a request has them over its alias; `null` takes a default away. Words of the dialect stay as
/// they are where they mean what the neutral field says.
fn write(settings: &GenerationSettings) -> JsonObject {
    let mut words = settings.words_of(&Dialect::GEMINI).cloned().unwrap_or_default();
    let sampling = &settings.sampling;
    put(&mut words, "temperature", &sampling.temperature);
    put(&mut words, "maxOutputTokens", &settings.max_output);
    put(&mut words, "topP", &sampling.top_p);
    put(&mut words, "topK", &sampling.top_k);
    put(&mut words, "seed", &sampling.seed);
    put(&mut words, "stopSequences", &sampling.stop);
    let same =
        |words: &JsonObject, choice| words.get(TOOL_CONFIG).and_then(tool_choice).as_ref() == Some(choice);
    match &settings.tool_choice {
        Setting::Set(choice) if !same(&words, choice) => {
            words.insert(TOOL_CONFIG.to_owned(), json!({CALLING: calling(choice)}));
        }
        Setting::Unset => {
            words.insert(TOOL_CONFIG.to_owned(), Value::Null);
        }
        Setting::Set(_) | Setting::Inherit => {}
    }
    let (kind, schema) = match &settings.output {
        Setting::Inherit => return words,
        Setting::Unset => (Value::Null, Value::Null),
        Setting::Set(OutputFormat::Text) => (json!("text/plain"), Value::Null),
        Setting::Set(OutputFormat::Json { schema, .. }) => (json!(JSON), schema.clone().unwrap_or_default()),
    };
    words.insert(MIME_TYPE.to_owned(), kind);
    words.insert(SCHEMA.to_owned(), schema);
    words
}

fn put<T: Clone + Into<Value>>(words: &mut JsonObject, key: &str, setting: &Setting<T>) {
    let value = match setting {
        Setting::Inherit => return,
        Setting::Unset => Value::Null,
        Setting::Set(value) => value.clone().into(),
    };
    words.insert(key.to_owned(), value);
}

fn calling(choice: &ToolChoice) -> Value {
    match choice {
        // A model that may choose cannot be given names; the others are not declared to it.
        ToolChoice::Auto | ToolChoice::Allowed { required: false, .. } => json!({"mode": "AUTO"}),
        ToolChoice::None => json!({"mode": "NONE"}),
        ToolChoice::Required => json!({"mode": "ANY"}),
        ToolChoice::Only(name) => json!({"mode": "ANY", "allowedFunctionNames": [name]}),
        ToolChoice::Allowed { names, required: true } => {
            json!({"mode": "ANY", "allowedFunctionNames": names})
        }
    }
}

/// Whether the request's own words of the dialect say the effort already.
fn says_effort(settings: &GenerationSettings) -> bool {
    let words = settings.words_of(&Dialect::GEMINI).and_then(|words| words.get(THINKING));
    match &settings.effort {
        Setting::Inherit => true,
        Setting::Unset => false,
        Setting::Set(wanted) => words.and_then(effort).as_ref() == Some(wanted),
    }
}

/// Puts an effort in place of the alias's budget or level: models before Gemini 3 know only budgets.
fn set_effort(resolved: &mut Resolved, wanted: Setting<Effort>) {
    let budgets = super::capabilities::has_thinking_budget(&resolved.id);
    let thinking = resolved.settings.entry(THINKING).or_insert_with(|| json!({}));
    if let Some(fields) = thinking.as_object_mut() {
        fields.shift_remove(BUDGET);
        fields.shift_remove(LEVEL);
        match wanted {
            Setting::Set(effort) if budgets => fields.insert(BUDGET.to_owned(), json!(budget(effort))),
            Setting::Set(effort) => fields.insert(LEVEL.to_owned(), json!(level(effort))),
            Setting::Inherit | Setting::Unset => None,
        };
    }
    if thinking.as_object().is_some_and(JsonObject::is_empty) {
        resolved.settings.shift_remove(THINKING);
    }
}

fn budget(effort: Effort) -> u64 {
    match effort {
        Effort::None => 0,
        Effort::Minimal => 512,
        Effort::Low => 2048,
        Effort::Medium => 8192,
        Effort::High | Effort::XHigh | Effort::Max => 24_576,
    }
}

fn level(effort: Effort) -> &'static str {
    match effort {
        Effort::None | Effort::Minimal => "MINIMAL",
        Effort::Low => "LOW",
        Effort::Medium => "MEDIUM",
        Effort::High | Effort::XHigh | Effort::Max => "HIGH",
    }
}

#[cfg(test)]
mod tests;
