//! `pollux skills …` as it was typed.

/// What to do with skills.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum SkillsCommand {
    List {
        /// Those that are part of the program, too.
        all: bool,
        json: bool,
    },
    Show {
        name: String,
        json: bool,
    },
    Enable {
        name: String,
    },
    Disable {
        name: String,
        scope: SkillScope,
    },
    Install(SkillSource),
    Link(SkillSource),
    Uninstall {
        name: String,
        scope: SkillScope,
    },
    Validate {
        path: String,
        json: bool,
    },
    Reload,
}

/// What is installed or linked to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct SkillSource {
    pub(crate) source: String,
    pub(crate) scope: SkillScope,
    /// A folder in it.
    pub(crate) path: Option<String>,
    /// Do not ask.
    pub(crate) consent: bool,
}

/// Whose skills, or whose settings.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum SkillScope {
    User,
    Workspace,
}

impl SkillScope {
    /// The word in messages.
    pub(crate) fn word(self) -> &'static str {
        match self {
            Self::User => "user",
            Self::Workspace => "workspace",
        }
    }
}
