//! How the screen looks at first, and what of a call can be changed in an editor.

use pollux_config::settings::Settings as Given;
use pollux_domain::JsonObject;
use pollux_domain::approval::{ApprovalMode, ApprovalRequest, Subject};
use pollux_tui::app::{App, Footer, Header, Settings};
use pollux_tui::keys::KeyMap;
use pollux_tui::theme::{Shade, Theme};
use serde_json::Value;

use crate::run::VERSION;
use crate::wire::Loaded;

/// Lines of a tool's output that are shown.
const BOX_LINES: usize = 15;

/// The screen before anything was said. Nothing is looked for that the first frame does not show.
pub(in crate::interactive) fn first_look(loaded: &Loaded, mode: ApprovalMode) -> App {
    let flag = |key: &str| is_on(&loaded.settings, key);
    let (keys, problems) = keys(loaded);
    let settings = Settings {
        theme: theme(loaded),
        keys,
        vim: flag("general.vimMode"),
        alternate: flag("ui.useAlternateBuffer"),
        hide_tips: flag("ui.hideTips"),
        hide_footer: flag("ui.hideFooter"),
        line_numbers: flag("ui.showLineNumbers"),
        box_lines: BOX_LINES,
    };
    let has_context =
        loaded.groups.context.file_names.iter().any(|name| loaded.project.root().join(name).exists());
    let header = Header { version: VERSION.to_owned(), sign_in: String::new(), has_context, notes: problems };
    App::new(settings, header, footer(loaded, &loaded.groups.model.name), mode)
}

/// The last line, as far as the settings tell.
pub(in crate::interactive) fn footer(loaded: &Loaded, model: &str) -> Footer {
    let hidden = |key: &str| is_on(&loaded.settings, key);
    let root = loaded.project.root();
    let shown = |text: String, key: &str| if hidden(key) { String::new() } else { text };
    let place = match root.strip_prefix(loaded.home.user_home()) {
        Ok(rest) if rest.as_os_str().is_empty() => "~".to_owned(),
        Ok(rest) => format!("~/{}", rest.display()),
        Err(_) => root.display().to_string(),
    };
    Footer {
        workspace: shown(place, "ui.footer.hideCWD"),
        branch: branch(root).unwrap_or_default(),
        sandbox: shown(
            match (loaded.trust.uses_project(), loaded.groups.tools.sandbox.enabled == Some(true)) {
                (false, _) => "untrusted".to_owned(),
                (true, true) => "sandbox".to_owned(),
                (true, false) => "no sandbox".to_owned(),
            },
            "ui.footer.hideSandboxStatus",
        ),
        model: shown(model.to_owned(), "ui.footer.hideModelInfo"),
        ..Footer::default()
    }
}

/// The branch, read from the repository's own file: no program is started for it.
fn branch(root: &std::path::Path) -> Option<String> {
    let git = root.ancestors().map(|folder| folder.join(".git")).find(|path| path.exists())?;
    let folder = match git.is_dir() {
        true => git,
        // A work tree names its folder in a file.
        false => {
            let text = std::fs::read_to_string(&git).ok()?;
            git.parent()?.join(text.trim().strip_prefix("gitdir:")?.trim())
        }
    };
    let head = std::fs::read_to_string(folder.join("HEAD")).ok()?;
    let head = head.trim();
    match head.strip_prefix("ref: refs/heads/") {
        Some(branch) => Some(branch.to_owned()),
        None => Some(head.chars().take(7).collect()),
    }
}

pub(in crate::interactive) fn is_on(settings: &Given, key: &str) -> bool {
    settings.get(key).is_some_and(|(value, _)| value.as_bool() == Some(true))
}

/// The theme that is chosen; without one, that of a dark terminal.
fn theme(loaded: &Loaded) -> Theme {
    if loaded.env.get("NO_COLOR").is_some_and(|value| !value.is_empty()) {
        return Theme::no_colour();
    }
    let chosen = loaded.settings.get("ui.theme").and_then(|(value, _)| value.as_str());
    let own = |name: &str| {
        let (themes, _) = loaded.settings.get("ui.customThemes")?;
        Theme::custom(name, themes.get(name)?).ok()
    };
    let found = chosen.and_then(|name| own(name).or_else(|| Theme::named(name)));
    found.unwrap_or_else(|| Theme::for_shade(Shade::Dark))
}

/// The keys, and what is wrong with the file that changes them.
fn keys(loaded: &Loaded) -> (KeyMap, Vec<String>) {
    let file = loaded.home.gemini_dir().join("keybindings.json");
    match std::fs::read_to_string(&file) {
        Err(_) => (KeyMap::default(), Vec::new()),
        Ok(text) => {
            let (keys, problems) = KeyMap::read(&text);
            (keys, problems.iter().map(|problem| format!("{}: {problem}", file.display())).collect())
        }
    }
}

/// What of a call can be changed in an editor, and the name of a file for it.
pub(super) fn editable(request: &ApprovalRequest) -> Option<(String, String)> {
    match &request.subject {
        Subject::Edit { diff: Some(diff), .. } => Some((diff.after.clone(), diff.file_name.clone())),
        Subject::Command { command, .. } => Some((command.clone(), "command.sh".to_owned())),
        _ => None,
    }
}

/// The arguments with what the person made of it; `None` when nothing was changed.
pub(super) fn changed(request: &ApprovalRequest, text: &str) -> Option<JsonObject> {
    let mut args = request.args.clone();
    let mut set = |key: &str, value: &str| args.insert(key.to_owned(), Value::from(value));
    match &request.subject {
        Subject::Edit { diff: Some(diff), .. } if diff.after != text => {
            if request.args.contains_key("content") {
                set("content", text);
            } else {
                // The whole file is what is replaced, so that the change is exactly what was written.
                set("old_string", diff.before.as_deref().unwrap_or_default());
                set("new_string", text);
            }
        }
        Subject::Command { command, .. } if command.trim_end() != text.trim_end() => {
            set("command", text.trim_end());
        }
        _ => return None,
    }
    Some(args)
}
