//! How a model is to answer: the generation settings of a request, in words that every provider can map.

use std::collections::BTreeMap;

use serde_json::{Number, Value};

use super::Dialect;
use crate::JsonObject;

/// One setting of a request over the default of the model's alias.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Setting<T> {
    /// As the alias has it.
    #[default]
    Inherit,
    /// Not sent at all, whatever the alias has: the provider's own default.
    Unset,
    Set(T),
}

impl<T> Setting<T> {
    /// The value, if this setting has one.
    pub fn value(&self) -> Option<&T> {
        match self {
            Self::Set(value) => Some(value),
            Self::Inherit | Self::Unset => None,
        }
    }

    /// Lays another setting over this one.
    pub fn lay(&mut self, over: Self) {
        if !matches!(over, Self::Inherit) {
            *self = over;
        }
    }

    /// A setting that takes the default away where there is no value.
    pub fn set_or_unset(value: Option<T>) -> Self {
        value.map_or(Self::Unset, Self::Set)
    }
}

/// The generation settings of a request.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct GenerationSettings {
    pub sampling: Sampling,
    /// Most tokens that the reply may have.
    pub max_output: Setting<u64>,
    /// How much the model should reason before it answers.
    pub effort: Setting<Effort>,
    pub tool_choice: Setting<ToolChoice>,
    /// Whether one reply may ask for several calls.
    pub parallel_calls: Setting<bool>,
    pub output: Setting<OutputFormat>,
    /// Names the conversation for the provider's prompt cache; requests with the same beginning share it.
    pub cache_key: Setting<String>,
    /// Settings in the words of one dialect, sent to that dialect only. A neutral field above wins over the words
    /// that mean the same.
    pub extra: BTreeMap<Dialect, JsonObject>,
}

/// How the next token is picked. Numbers stay as they were written, so that `1` is not sent as `1.0`.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Sampling {
    pub temperature: Setting<Number>,
    pub top_p: Setting<Number>,
    pub top_k: Setting<Number>,
    pub seed: Setting<i64>,
    /// Texts at which the reply ends.
    pub stop: Setting<Vec<String>>,
}

/// How much a model reasons, from nothing to as much as it can.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Effort {
    None,
    Minimal,
    Low,
    Medium,
    High,
    XHigh,
    Max,
}

impl Effort {
    /// Every effort, from nothing upwards.
    pub const ALL: [Self; 7] =
        [Self::None, Self::Minimal, Self::Low, Self::Medium, Self::High, Self::XHigh, Self::Max];

    /// The word in settings, which is also OpenAI's and Anthropic's.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::None => "none",
            Self::Minimal => "minimal",
            Self::Low => "low",
            Self::Medium => "medium",
            Self::High => "high",
            Self::XHigh => "xhigh",
            Self::Max => "max",
        }
    }

    /// Reads the word in settings.
    pub fn parse(word: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|effort| effort.as_str() == word)
    }

    /// The closest of the levels that a model has; the lower one of two that are equally far.
    pub fn nearest(self, levels: &[Self]) -> Option<Self> {
        let rank = |effort: Self| Self::ALL.iter().position(|known| *known == effort).unwrap_or(0);
        levels.iter().copied().min_by_key(|level| (rank(*level).abs_diff(rank(self)), rank(*level)))
    }
}

/// Which of the offered tools the model may or must call.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ToolChoice {
    /// Any, or none.
    Auto,
    /// None, although they are declared.
    None,
    /// At least one.
    Required,
    /// This one.
    Only(String),
    /// One of these; `required` if it must call one.
    Allowed { names: Vec<String>, required: bool },
}

/// The form of the reply's text.
#[derive(Debug, Clone, PartialEq)]
pub enum OutputFormat {
    Text,
    /// JSON, of the schema if there is one.
    Json {
        /// A name for the schema, for providers that want one.
        name: Option<String>,
        schema: Option<Value>,
        /// Whether the provider should hold the model to the schema.
        strict: bool,
    },
}

impl GenerationSettings {
    /// Settings in the words of one dialect and nothing else.
    pub fn in_words_of(dialect: Dialect, words: JsonObject) -> Self {
        let mut settings = Self::default();
        if !words.is_empty() {
            settings.extra.insert(dialect, words);
        }
        settings
    }

    /// The words of one dialect.
    pub fn words_of(&self, dialect: &Dialect) -> Option<&JsonObject> {
        self.extra.get(dialect)
    }

    /// Lays other settings over these.
    pub fn lay(&mut self, over: Self) {
        self.sampling.lay(over.sampling);
        self.max_output.lay(over.max_output);
        self.effort.lay(over.effort);
        self.tool_choice.lay(over.tool_choice);
        self.parallel_calls.lay(over.parallel_calls);
        self.output.lay(over.output);
        self.cache_key.lay(over.cache_key);
        for (dialect, words) in over.extra {
            self.extra.entry(dialect).or_default().extend(words);
        }
    }
}

impl Sampling {
    fn lay(&mut self, over: Self) {
        self.temperature.lay(over.temperature);
        self.top_p.lay(over.top_p);
        self.top_k.lay(over.top_k);
        self.seed.lay(over.seed);
        self.stop.lay(over.stop);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn overrides_win_and_unset_values_stay() {
        let words = |value: Value| match value {
            Value::Object(words) => words,
            _ => JsonObject::new(),
        };
        let mut below = GenerationSettings {
            max_output: Setting::Set(7),
            effort: Setting::Set(Effort::Low),
            ..GenerationSettings::in_words_of(Dialect::GEMINI, words(json!({"labels": 1, "x": 1})))
        };
        below.sampling.temperature = Setting::Set(1.into());
        let mut over = GenerationSettings::in_words_of(Dialect::GEMINI, words(json!({"x": 2})));
        over.sampling.temperature = Setting::Unset;
        over.effort = Setting::Set(Effort::High);
        below.lay(over);
        assert_eq!(below.sampling.temperature, Setting::Unset);
        assert_eq!((below.max_output, below.effort), (Setting::Set(7), Setting::Set(Effort::High)));
        assert_eq!(below.words_of(&Dialect::GEMINI), Some(&words(json!({"labels": 1, "x": 2}))));
        assert_eq!(below.words_of(&Dialect::CHAT), None);
    }

    #[test]
    fn an_effort_that_a_model_lacks_becomes_the_nearest_one() {
        use Effort::{High, Low, Max, Medium, Minimal, XHigh};
        assert_eq!(Max.nearest(&[Low, High]), Some(High));
        assert_eq!(Medium.nearest(&[Low, High]), Some(Low));
        assert_eq!(Effort::None.nearest(&[Minimal, XHigh]), Some(Minimal));
        assert_eq!(High.nearest(&[]), None);
        assert!(Effort::ALL.into_iter().all(|effort| Effort::parse(effort.as_str()) == Some(effort)));
    }
}
