//! `pollux extensions …` as it was typed.

use pollux_host::extension_set::{NewExtension, SwitchScope};

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
