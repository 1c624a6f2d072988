//! The editors that `general.preferredEditor` can name, for `/editor` and for the front end that starts one.
//!
//! Running an editor is up to the front end, which owns the terminal.

use std::path::PathBuf;

use crate::helpers::helper;
use pollux_config::env::Env;
pub use pollux_config::search_path::is_program;

/// An editor that `general.preferredEditor` may name; names, programs and flags are upstream's.
pub struct Editor {
    pub id: &'static str,
    pub name: &'static str,
    /// Program names; the first one found is used.
    pub programs: &'static [&'static str],
    /// Flags that keep it in the foreground or in this terminal.
    pub flags: &'static [&'static str],
}

const fn editor(
    id: &'static str,
    name: &'static str,
    programs: &'static [&'static str],
    flags: &'static [&'static str],
) -> Editor {
    Editor { id, name, programs, flags }
}

/// Editors with their own window come first.
const EDITORS: &[Editor] = &[
    editor("vscode", "VS Code", &["code"], &["--wait"]),
    editor("vscodium", "VSCodium", &["codium"], &["--wait"]),
    editor("windsurf", "Windsurf", &["windsurf"], &["--wait"]),
    editor("cursor", "Cursor", &["cursor"], &["--wait"]),
    editor("zed", "Zed", &["zed", "zeditor"], &["--wait"]),
    editor("antigravity", "Antigravity", &["agy", "antigravity"], &["--wait"]),
    editor("sublimetext", "Sublime Text", &["subl"], &["--wait"]),
    editor("lapce", "Lapce", &["lapce"], &["--wait"]),
    editor("nova", "Nova", &["nova"], &["--wait"]),
    editor("bbedit", "BBEdit", &["bbedit"], &["--wait"]),
    editor("vim", "Vim", &["vim"], &[]),
    editor("neovim", "Neovim", &["nvim"], &[]),
    editor("emacs", "Emacs", &["emacs"], &["-nw"]),
    editor("hx", "Helix", &["hx"], &[]),
    editor("emacsclient", "Emacs Client", &["emacsclient"], &["-nw"]),
    editor("micro", "micro", &["micro"], &[]),
];

/// Every editor that can be preferred.
pub fn editors() -> &'static [Editor] {
    EDITORS
}

impl Editor {
    /// Whether it is installed.
    pub fn is_installed(&self, env: &Env) -> bool {
        self.program(env).is_some()
    }

    /// The path of its program, if it is installed.
    pub fn program(&self, env: &Env) -> Option<PathBuf> {
        self.programs.iter().find_map(|name| find_program(name, env))
    }
}

/// The path of a program, given by name or path.
pub fn find_program(name: &str, env: &Env) -> Option<PathBuf> {
    if name.contains('/') {
        let path = env.cwd().join(name);
        return is_program(&path).then_some(path);
    }
    helper(name, env)
}
