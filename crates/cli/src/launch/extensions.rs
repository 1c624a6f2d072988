//! `pollux extensions …` as it was typed.

/// What to do with extensions.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum ExtensionsCommand {
    Install(NewExtension),
    /// Used where it lies.
    Link {
        path: String,
        consent: bool,
    },
    Uninstall {
        names: Vec<String>,
        all: bool,
    },
    /// `None` for all.
    Update {
        name: Option<String>,
    },
    Switch {
        name: String,
        on: bool,
        scope: SwitchScope,
    },
    List {
        json: bool,
    },
    /// `--list-extensions`
    Names,
    New {
        path: String,
        template: Option<String>,
    },
    Validate {
        path: String,
    },
    Config {
        name: Option<String>,
        setting: Option<String>,
        workspace: bool,
    },
}

/// An extension to be installed.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct NewExtension {
    pub(crate) source: String,
    pub(crate) reference: Option<String>,
    pub(crate) auto_update: bool,
    pub(crate) pre_release: bool,
    /// Agreed beforehand.
    pub(crate) consent: bool,
    pub(crate) skip_settings: bool,
}

/// Where it is switched on or off.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum SwitchScope {
    /// On: wherever it was off. Off: for the user.
    Unsaid,
    /// As it was typed.
    User(String),
    Workspace(String),
}
