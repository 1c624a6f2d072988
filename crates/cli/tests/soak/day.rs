//! What happens in the course of a day.

use pollux_test_support::TestHome;
use pollux_test_support::chance::Chance;
use pollux_test_support::mcp::server_entry;
use pollux_test_support::wires::Wire;
use serde_json::json;

pub(crate) const WIRE: Wire = Wire::Chat;
const SCOUT: &str = "---\nname: scout\ndescription: looks around\ntools: [read_file, glob]\nmax_turns: 3\n---\n\
                     You are a scout.\n";

/// What one turn is about.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum TurnKind {
    Talk,
    Read,
    Write,
    Shell,
    /// A sub-agent.
    Scout,
    /// A call to an MCP server.
    Mcp,
    /// A call that kills the MCP server.
    Killer,
    /// The first reply breaks off.
    Cut,
    /// The server is overloaded.
    Refused,
    /// A call whose hook hangs.
    Hang,
    Compress,
    /// MCP servers are connected again.
    Reload,
    /// A new session.
    Clear,
}

impl TurnKind {
    pub(crate) const COUNT: usize = Self::ALL.len();
    const ALL: [Self; 13] = [
        Self::Talk,
        Self::Read,
        Self::Write,
        Self::Shell,
        Self::Scout,
        Self::Mcp,
        Self::Killer,
        Self::Cut,
        Self::Refused,
        Self::Hang,
        Self::Compress,
        Self::Reload,
        Self::Clear,
    ];

    /// The first turns have one of each, so that the short run has them, too.
    pub(crate) fn by_chance(chance: &mut Chance, turn: usize) -> Self {
        if let Some(kind) = Self::ALL.get(turn - 1) {
            return *kind;
        }
        match chance.below(1000) {
            0..300 => Self::Talk,
            300..500 => Self::Read,
            500..650 => Self::Write,
            650..780 => Self::Shell,
            780..840 => Self::Scout,
            840..920 => Self::Mcp,
            920..930 => Self::Killer,
            930..940 => Self::Cut,
            940..960 => Self::Refused,
            960..970 => Self::Hang,
            970..990 => Self::Compress,
            990..995 => Self::Reload,
            // What a session knows of itself (points to rewind to, its receipt) grows with it.
            _ => Self::Clear,
        }
    }

    /// The slash command that it is, with its arguments.
    pub(crate) fn command(self) -> Option<(&'static str, &'static str)> {
        match self {
            Self::Compress => Some(("compress", "")),
            Self::Reload => Some(("mcp", "reload")),
            Self::Clear => Some(("clear", "")),
            _ => None,
        }
    }

    /// What a command says at its end.
    pub(crate) fn told(self) -> &'static str {
        match self {
            Self::Compress => "ompress",
            Self::Clear => "New session.",
            _ => "MCP servers reconnected.",
        }
    }

    /// The prompt; the model does what it says.
    pub(crate) fn prompt(self, turn: usize) -> String {
        format!("soak {turn} {self:?} please")
    }

    /// The turn and what it is about, from a prompt.
    pub(crate) fn of_prompt(prompt: &str) -> Option<(usize, Self)> {
        let mut words = prompt.split("soak ").nth(1)?.split(' ');
        let turn = words.next()?.parse().ok()?;
        let name = words.next()?;
        Some((turn, Self::ALL.into_iter().find(|kind| format!("{kind:?}") == name)?))
    }
}

/// What the model says at the end of a turn.
pub(crate) fn answer(turn: usize) -> String {
    format!("Turn {turn} is done.")
}

/// A user with servers, a sub-agent, a hook that hangs, and memory.
pub(crate) fn home(url: &str) -> TestHome {
    let entry = |manner: &str| {
        let mut entry = server_entry(manner);
        entry["trust"] = json!(true);
        entry
    };
    let mut settings = WIRE.settings(url);
    settings["mcpServers"] = json!({"good": entry("plain"), "frail": entry("dies")});
    settings["mcp"] = json!({"firstRequestWaitMs": 60_000});
    settings["memory"] = json!({"enabled": true, "provider": "local"});
    settings["tools"] = json!({"sandbox": false});
    // The first question of a session would be one more thing to answer.
    settings["general"] = json!({"enableAutoUpdate": false});
    settings["hooks"] = json!({"BeforeTool": [{"matcher": "glob", "hooks": [
        {"type": "command", "name": "hangs", "command": "sleep 1000 & sleep 1000", "timeout": 100}]}]});
    let home = TestHome::new()
        .settings(settings)
        .home_file(".gemini/agents/scout.md", SCOUT)
        .file("notes.txt", &"A line of notes.\n".repeat(40))
        .env("GEMINI_CLI_TRUST_WORKSPACE", "true");
    let temporary = home.home().join("temporary");
    std::fs::create_dir_all(&temporary).unwrap();
    let home = home.env("TMPDIR", temporary.to_str().unwrap());
    WIRE.variables(url, "key-0123456789").iter().fold(home, |home, (name, value)| home.env(name, value))
}
