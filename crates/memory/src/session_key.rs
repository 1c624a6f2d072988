//! The keys of sessions in the store.

use crate::state::AgentId;

const MAIN: &str = "main";
const HOOK: &str = "hook:";
const MARKS: [&str; 2] = [":topic:", ":thread:"];

/// A session key: participants and channel as one lower-case string.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct SessionKey(String);

impl SessionKey {
    /// The shared session of all direct chats.
    pub fn main(agent: &AgentId) -> Self {
        Self::of(agent, &[MAIN])
    }

    pub fn group(agent: &AgentId, channel: &str, group: &str) -> Self {
        Self::of(agent, &[channel, "group", group])
    }

    pub fn channel(agent: &AgentId, channel: &str, id: &str) -> Self {
        Self::of(agent, &[channel, "channel", id])
    }

    /// A direct chat that is kept apart: by person, by channel and person, or by account too.
    pub fn dm(agent: &AgentId, channel: Option<&str>, account: Option<&str>, peer: &str) -> Self {
        let mut parts: Vec<&str> = channel.into_iter().chain(account).collect();
        parts.extend(["dm", peer]);
        Self::of(agent, &parts)
    }

    /// A session of the program itself, by its id.
    pub fn session(agent: &AgentId, id: &str) -> Self {
        Self::of(agent, &["session", id])
    }

    pub fn hook(id: &str) -> Self {
        Self(format!("{HOOK}{}", id.trim().to_lowercase()))
    }

    /// Parses any spelling; all spellings of the main session are unified.
    pub fn parse(raw: &str, agent: &AgentId) -> Self {
        let key = raw.trim().to_lowercase();
        if key.is_empty() || key == MAIN || key == format!("agent:{}:{MAIN}", agent.as_str()) {
            return Self::main(agent);
        }
        Self(key)
    }

    fn of(agent: &AgentId, parts: &[&str]) -> Self {
        Self(format!("agent:{}:{}", agent.as_str(), parts.join(":")).to_lowercase())
    }

    pub fn topic(&self, id: &str) -> Self {
        Self(format!("{}:topic:{}", self.0, id.trim().to_lowercase()))
    }

    pub fn thread(&self, id: &str) -> Self {
        Self(format!("{}:thread:{}", self.0, id.trim().to_lowercase()))
    }

    /// The session that a topic or thread belongs to.
    pub fn parent(&self) -> Option<Self> {
        let (at, _) = MARKS.iter().filter_map(|mark| self.0.rfind(mark).map(|at| (at, mark))).max()?;
        self.0.get(..at).filter(|parent| !parent.is_empty()).map(|parent| Self(parent.to_owned()))
    }

    /// Ended by time; see the store.
    pub fn is_hook(&self) -> bool {
        is_hook(&self.0)
    }

    /// Whether other people write there too.
    pub fn is_shared(&self) -> bool {
        self.0.contains(":group:") || self.0.contains(":channel:")
    }

    /// Whose it is; a key without an agent is the default agent's.
    pub fn agent(&self) -> AgentId {
        let parts: Vec<&str> = self.0.split(':').filter(|part| !part.is_empty()).collect();
        match parts.as_slice() {
            ["agent", id, _, ..] => AgentId::new(id),
            _ => AgentId::default(),
        }
    }

    pub fn as_str(&self) -> &str {
        &self.0
    }
}

pub(crate) fn is_hook(key: &str) -> bool {
    key.starts_with(HOOK)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_have_the_documented_forms() {
        let agent = AgentId::new("Ada");
        let group = SessionKey::group(&agent, "Slack", "C01");
        for (key, expected) in [
            (SessionKey::main(&agent), "agent:ada:main"),
            (group.clone(), "agent:ada:slack:group:c01"),
            (SessionKey::channel(&agent, "irc", "#x"), "agent:ada:irc:channel:#x"),
            (SessionKey::dm(&agent, None, None, "Bo"), "agent:ada:dm:bo"),
            (SessionKey::dm(&agent, Some("tg"), Some("acc"), "Bo"), "agent:ada:tg:acc:dm:bo"),
            (group.topic("7"), "agent:ada:slack:group:c01:topic:7"),
            (SessionKey::hook("AB"), "hook:ab"),
        ] {
            assert_eq!(key.as_str(), expected);
        }
        assert_eq!(group.thread("9").parent(), Some(group.clone()));
        assert_eq!(group.parent(), None);
        assert_eq!(group.agent(), agent);
        assert_eq!(SessionKey::hook("x").agent(), AgentId::default());
        assert!(group.is_shared() && !SessionKey::main(&agent).is_shared());
    }

    #[test]
    fn all_spellings_of_the_main_session_are_one() {
        let agent = AgentId::default();
        for raw in ["main", "MAIN", "agent:main:main", " ", "Agent:Main:Main"] {
            assert_eq!(SessionKey::parse(raw, &agent), SessionKey::main(&agent), "{raw}");
        }
    }
}
