//! The events on which hooks run.

use std::fmt;

use pollux_domain::spelling::distance;

/// A moment at which hooks run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Event {
    SessionStart,
    SessionEnd,
    BeforeAgent,
    AfterAgent,
    BeforeModel,
    AfterModel,
    BeforeToolSelection,
    BeforeTool,
    AfterTool,
    PreCompress,
    Notification,
}

/// A name that is not an event.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UnknownEvent {
    /// The event with the most similar name.
    pub near: Option<Event>,
}

/// Event names of other agents. Their definitions differ in more than the name; see [`crate::claude`].
const ALIASES: &[(&str, Event)] = &[
    ("PreToolUse", Event::BeforeTool),
    ("PostToolUse", Event::AfterTool),
    ("UserPromptSubmit", Event::BeforeAgent),
    ("Stop", Event::AfterAgent),
    ("SubagentStop", Event::AfterAgent),
    ("PreCompact", Event::PreCompress),
];

impl Event {
    /// All of them, in the order in which a session meets them.
    pub const ALL: [Self; 11] = [
        Self::SessionStart,
        Self::SessionEnd,
        Self::BeforeAgent,
        Self::AfterAgent,
        Self::BeforeModel,
        Self::AfterModel,
        Self::BeforeToolSelection,
        Self::BeforeTool,
        Self::AfterTool,
        Self::PreCompress,
        Self::Notification,
    ];

    /// Its name in settings and inputs.
    pub fn name(self) -> &'static str {
        match self {
            Self::SessionStart => "SessionStart",
            Self::SessionEnd => "SessionEnd",
            Self::BeforeAgent => "BeforeAgent",
            Self::AfterAgent => "AfterAgent",
            Self::BeforeModel => "BeforeModel",
            Self::AfterModel => "AfterModel",
            Self::BeforeToolSelection => "BeforeToolSelection",
            Self::BeforeTool => "BeforeTool",
            Self::AfterTool => "AfterTool",
            Self::PreCompress => "PreCompress",
            Self::Notification => "Notification",
        }
    }

    /// Reads a name: its own, one with other capitals (`before_tool`), or another agent's.
    pub fn parse(name: &str) -> Result<Self, UnknownEvent> {
        let wanted = folded(name);
        let own = Self::ALL.into_iter().find(|event| folded(event.name()) == wanted);
        own.or_else(|| Self::of_alias(name)).ok_or_else(|| UnknownEvent { near: nearest(&wanted) })
    }

    /// The event that another agent calls by this name.
    pub(crate) fn of_alias(name: &str) -> Option<Self> {
        let wanted = folded(name);
        ALIASES.iter().find(|(alias, _)| folded(alias) == wanted).map(|(_, event)| *event)
    }

    /// Whether an answer can prevent something.
    pub fn can_block(self) -> bool {
        match self {
            Self::BeforeAgent
            | Self::AfterAgent
            | Self::BeforeModel
            | Self::AfterModel
            | Self::BeforeTool
            | Self::AfterTool => true,
            Self::SessionStart
            | Self::SessionEnd
            | Self::BeforeToolSelection
            | Self::PreCompress
            | Self::Notification => false,
        }
    }

    /// The key of the input that matchers are about.
    pub(crate) fn subject_key(self) -> Option<&'static str> {
        match self {
            Self::BeforeTool | Self::AfterTool => Some("tool_name"),
            Self::SessionStart => Some("source"),
            Self::SessionEnd => Some("reason"),
            Self::PreCompress => Some("trigger"),
            Self::BeforeAgent
            | Self::AfterAgent
            | Self::BeforeModel
            | Self::AfterModel
            | Self::BeforeToolSelection
            | Self::Notification => None,
        }
    }
}

impl fmt::Display for Event {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

fn folded(name: &str) -> String {
    name.chars().filter(|c| !matches!(c, '_' | '-' | ' ')).flat_map(char::to_lowercase).collect()
}

fn nearest(wanted: &str) -> Option<Event> {
    // A name of hostile length is near to nothing.
    if wanted.chars().count() > 40 {
        return None;
    }
    let scored = Event::ALL.into_iter().map(|event| (distance(&folded(event.name()), wanted), event));
    let (distance, event) = scored.min_by_key(|(distance, _)| *distance)?;
    (distance <= 4).then_some(event)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn event_names_in_other_spellings_are_accepted() {
        for event in Event::ALL {
            assert_eq!(Event::parse(event.name()), Ok(event));
        }
        for (name, expected) in [
            ("before_tool", Event::BeforeTool),
            ("sessionstart", Event::SessionStart),
            ("PreToolUse", Event::BeforeTool),
            ("PostToolUse", Event::AfterTool),
            ("SubAgentStop", Event::AfterAgent),
            ("PreCompact", Event::PreCompress),
        ] {
            assert_eq!(Event::parse(name), Ok(expected), "{name}");
        }
    }

    #[test]
    fn an_unknown_name_gets_a_suggestion_when_one_is_near() {
        assert_eq!(Event::parse("BeforTools").unwrap_err().near, Some(Event::BeforeTool));
        assert_eq!(Event::parse("zzzzzzzzzzzz").unwrap_err().near, None);
        assert_eq!(Event::parse(&"BeforeTool".repeat(100_000)).unwrap_err().near, None);
    }
}
