//! Search requests and results, and their JSON form.

use serde_json::{Value, json};

use crate::settings::SearchMode;
use crate::source::{Provenance, Source};

/// A search request.
#[derive(Debug, Clone, Default)]
pub struct Request {
    pub query: String,
    /// The next four default to the settings.
    pub max_results: Option<usize>,
    pub min_score: Option<f64>,
    pub source: Option<Source>,
    pub mode: Option<SearchMode>,
}

impl Request {
    pub fn new(query: impl Into<String>) -> Self {
        Self { query: query.into(), ..Self::default() }
    }
}

/// What was found, best first.
#[derive(Debug, Clone)]
pub struct SearchAnswer {
    pub hits: Vec<Hit>,
    pub mode: SearchMode,
    pub provider: Option<String>,
    pub model: Option<String>,
    /// Why only keywords were used.
    pub degraded: Option<String>,
    pub warnings: Vec<String>,
}

/// A passage of a note or conversation.
#[derive(Debug, Clone, PartialEq)]
pub struct Hit {
    pub path: String,
    pub source: Source,
    pub start_line: usize,
    pub end_line: usize,
    /// From 0 to 1, against the other hits of this question.
    pub score: f64,
    /// The part of the passage that fits the question best, with `…` where it was cut.
    pub snippet: String,
    /// The character of the snippet at which the best match begins.
    pub focus: usize,
    pub provenance: Provenance,
    pub date: Option<String>,
    pub explain: Explain,
}

/// Where a score comes from. The first five sum to it.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Explain {
    pub vector: f64,
    pub text: f64,
    /// Penalty for age.
    pub recency: f64,
    /// Bonus for an exact name match.
    pub name: f64,
    /// Penalty for passages superseded by a newer note.
    pub superseded: f64,
    /// The cosine of question and chunk.
    pub cosine: Option<f64>,
    /// How well the words fit, r/(1+r).
    pub keyword: Option<f64>,
}

impl Explain {
    pub fn sum(&self) -> f64 {
        self.vector + self.text + self.recency + self.name + self.superseded
    }

    fn to_json(self) -> Value {
        json!({
            "vector": self.vector, "text": self.text, "recency": self.recency, "name": self.name,
            "superseded": self.superseded, "cosine": self.cosine, "keyword": self.keyword,
        })
    }
}

impl Hit {
    /// `path#L3-L9`, or `path#L3` for one line.
    pub fn citation(&self) -> String {
        let Self { path, start_line, end_line, .. } = self;
        if start_line == end_line {
            format!("{path}#L{start_line}")
        } else {
            format!("{path}#L{start_line}-L{end_line}")
        }
    }
}

impl SearchAnswer {
    /// The documented form.
    pub fn to_json(&self, explain: bool) -> Value {
        let result = |hit: &Hit| {
            let mut value = json!({
                "path": hit.path, "startLine": hit.start_line, "endLine": hit.end_line, "score": hit.score,
                "snippet": hit.snippet, "source": hit.source.as_str(), "citation": hit.citation(),
                "provenance": hit.provenance.as_str(),
            });
            if let Some(map) = value.as_object_mut() {
                map.extend(hit.date.clone().map(|date| ("date".to_owned(), date.into())));
                map.extend(explain.then(|| ("explain".to_owned(), hit.explain.to_json())));
            }
            value
        };
        let mut value = json!({
            "results": self.hits.iter().map(result).collect::<Vec<_>>(), "provider": self.provider,
            "model": self.model, "mode": self.mode.as_str(),
        });
        if let Some(map) = value.as_object_mut() {
            map.extend(self.degraded.clone().map(|reason| ("degraded".to_owned(), reason.into())));
            map.extend((!self.warnings.is_empty()).then(|| ("warnings".to_owned(), json!(self.warnings))));
        }
        value
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_cited() {
        let hit = |start_line, end_line| Hit {
            path: "memory/a.md".into(),
            source: Source::Memory,
            start_line,
            end_line,
            score: 0.5,
            snippet: String::new(),
            focus: 0,
            provenance: Provenance::Owner,
            date: None,
            explain: Explain::default(),
        };
        assert_eq!(
            (hit(3, 9).citation(), hit(3, 3).citation()),
            ("memory/a.md#L3-L9".into(), "memory/a.md#L3".into())
        );
    }
}
