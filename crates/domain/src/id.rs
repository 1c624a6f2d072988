//! Identifier types.

use std::fmt;

/// Names one session: a UUID, or what `--session-id` gave.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct SessionId(String);

/// Why a text is not a session id.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
pub enum BadSessionId {
    #[error("The --session-id option cannot be empty.")]
    Empty,
    #[error("Invalid session ID \"{0}\": Only alphanumeric characters, dashes, and underscores are allowed.")]
    Characters(String),
    #[error("Invalid session ID \"{0}\": numbers and \"latest\" select sessions of the list.")]
    Selects(String),
}

impl SessionId {
    /// A fresh random id.
    pub fn random() -> Self {
        Self(uuid::Uuid::new_v4().to_string())
    }

    /// Checks an id given by a user.
    pub fn parse(text: &str) -> Result<Self, BadSessionId> {
        if text.trim().is_empty() {
            return Err(BadSessionId::Empty);
        }
        if !text.chars().all(|c| c.is_ascii_alphanumeric() || c == '-' || c == '_') {
            return Err(BadSessionId::Characters(text.to_owned()));
        }
        Ok(Self(text.to_owned()))
    }

    /// Checks the id that a user gives to a new session. Numbers and `latest` would hide what they select otherwise.
    pub fn parse_new(text: &str) -> Result<Self, BadSessionId> {
        let id = Self::parse(text)?;
        if text.chars().all(|c| c.is_ascii_digit()) || text.eq_ignore_ascii_case("latest") {
            return Err(BadSessionId::Selects(text.to_owned()));
        }
        Ok(id)
    }

    /// Takes an id found in a file, which may hold any text.
    pub fn from_file(text: impl Into<String>) -> Self {
        Self(text.into())
    }

    /// The id as text.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// The first eight characters, made safe for file names.
    pub fn short(&self) -> String {
        self.0
            .chars()
            .take(8)
            .map(|c| if c.is_ascii_alphanumeric() || c == '-' || c == '_' { c } else { '_' })
            .collect()
    }
}

impl fmt::Display for SessionId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// Names one tool call inside the program: `<tool>__<the model's id>`.
///
/// The model's own id is what travels back to it; the prefix keeps ids unique and readable in
/// transcripts and events, as upstream has it.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct CallId(String);

impl CallId {
    /// Builds the id from the tool's name and the model's id.
    pub fn new(tool: &str, raw: &str) -> Self {
        let prefix = format!("{tool}__");
        if raw.starts_with(&prefix) { Self(raw.to_owned()) } else { Self(format!("{prefix}{raw}")) }
    }

    /// Takes an id found in a session file.
    pub fn from_file(text: impl Into<String>) -> Self {
        Self(text.into())
    }

    /// The id as text.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// The id the model knows: without the tool's prefix.
    pub fn on_wire(&self, tool: &str) -> &str {
        self.0.strip_prefix(tool).and_then(|rest| rest.strip_prefix("__")).unwrap_or(&self.0)
    }
}

impl fmt::Display for CallId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_call_id_gets_its_prefix_once_and_loses_it_on_the_wire() {
        let id = CallId::new("glob", "abc");
        assert_eq!(id.as_str(), "glob__abc");
        assert_eq!(CallId::new("glob", "glob__abc"), id);
        assert_eq!(id.on_wire("glob"), "abc");
    }

    #[test]
    fn session_ids_are_checked_for_their_characters() {
        assert_eq!(SessionId::parse(" "), Err(BadSessionId::Empty));
        assert!(SessionId::parse("a/b").is_err());
        assert_eq!(SessionId::parse("my_run-1").unwrap().as_str(), "my_run-1");
        assert_eq!(SessionId::parse_new("7"), Err(BadSessionId::Selects("7".to_owned())));
        assert!(SessionId::parse_new("Latest").is_err() && SessionId::parse_new("7a").is_ok());
    }
}
