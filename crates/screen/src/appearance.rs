//! The appearance of the screen, taken from settings and environment.

use std::time::Duration;

use pollux_config::env::Env;
use pollux_domain::approval::ApprovalMode;
use pollux_domain::terminal_text::one_line;
use pollux_front::{is_on, path_display};
use pollux_host::VERSION;
use pollux_host::{Loaded, SandboxInForce};
use pollux_tui::app::{App, Footer, FooterItem, Header, Phrases, Settings, Show, TIPS, Titles, WIT};
use pollux_tui::composer::Pastes;
use pollux_tui::keys::KeyMap;
use pollux_tui::terminal::Notify;
use serde_json::Value;

use crate::shown_tips::count_tips;
use crate::terminal_watch::ScreenOptions;
use crate::themes::chosen_theme;

/// Lines of tool output that are shown.
const BOX_LINES: usize = 15;
/// Beginnings of `TERM` for terminals without bracketed paste.
const OLD_TERMINALS: [&str; 8] = ["ansi", "cons", "cygwin", "dumb", "eterm", "linux", "screen", "vt"];

/// The screen at start. It reads nothing that the first frame does not show.
pub(crate) fn initial_app(loaded: &Loaded, mode: ApprovalMode) -> App {
    let (settings, problems) = settings(loaded);
    let has_context =
        loaded.groups.context.file_names.iter().any(|name| loaded.project.root().join(name).exists());
    let mut header =
        Header { version: VERSION.to_owned(), has_context, notes: problems, ..Header::default() };
    header.knows_tips = settings.show.tips && !count_tips(&loaded.home, &header.tips());
    let mut app = App::new(settings, header, footer(loaded, &loaded.groups.model.name, None), mode);
    app.set_paths(path_display(loaded));
    app.set_escape_at(is_on(&loaded.settings, "ui.escapePastedAtSymbols"));
    app.set_pastes(pastes(&loaded.env));
    app
}

/// What is known of the terminal's support for bracketed paste until the first paste shows it. The terminal is not
/// queried, because input could not be read until it answers, and some never do.
fn pastes(env: &Env) -> Pastes {
    let is = |key: &str, known: &[&str]| env.get(key).is_some_and(|value| known.contains(&value));
    let is_known = ["KITTY_WINDOW_ID", "KONSOLE_VERSION", "TMUX", "VTE_VERSION", "WT_SESSION"]
        .iter()
        .any(|key| env.non_empty(key).is_some())
        || is("TERM", &["xterm-kitty", "xterm-ghostty", "foot", "foot-extra", "alacritty", "wezterm"])
        || is("TERM_PROGRAM", &["ghostty", "WezTerm", "iTerm.app", "vscode", "zed", "Apple_Terminal"]);
    let is_old = |term: &str| OLD_TERMINALS.iter().any(|old| term.starts_with(old));
    match env.non_empty("TERM") {
        _ if is_known => Pastes::Marked,
        // Whatever else calls itself by a newer name marks pastes, too.
        Some(term) if !is_old(term) => Pastes::Marked,
        _ => Pastes::Unmarked,
    }
}

/// The settings of the screen, and the errors in the keybindings file.
pub(crate) fn settings(loaded: &Loaded) -> (Settings, Vec<String>) {
    let flag = |key: &str| is_on(&loaded.settings, key);
    let (keys, problems) = keys(loaded);
    let show = Show {
        banner: !flag("ui.hideBanner"),
        tips: !flag("ui.hideTips"),
        footer: !flag("ui.hideFooter"),
        context: !flag("ui.hideContextSummary"),
        hint: flag("ui.showShortcutsHint"),
        wheel: flag("ui.showSpinner"),
    };
    let settings = Settings {
        theme: chosen_theme(loaded),
        keys,
        vim: flag("general.vimMode"),
        alternate: flag("ui.useAlternateBuffer"),
        show,
        line_numbers: flag("ui.showLineNumbers"),
        box_lines: BOX_LINES,
        compact: flag("ui.compactToolOutput"),
        command_colours: flag("tools.shell.showColor"),
        thoughts: word(loaded, "ui.inlineThinkingMode") == Some("full"),
        model_in_chat: flag("ui.showModelInfoInChat"),
        phrases: phrases(loaded),
        titles: titles(loaded),
    };
    (settings, problems)
}

/// The options of the screen's thread.
pub(crate) fn screen_options(loaded: &Loaded) -> ScreenOptions {
    let flag = |key: &str| is_on(&loaded.settings, key);
    let env = |name: &str| loaded.env.get(name).unwrap_or_default();
    let notify = match word(loaded, "general.notificationMethod") {
        Some("osc9") => Notify::Osc9,
        Some("osc777") => Notify::Osc777,
        Some("bell") => Notify::Bell,
        _ => match env("TERM_PROGRAM") {
            "iTerm.app" | "WezTerm" | "ghostty" => Notify::Osc9,
            _ if env("TERM").starts_with("rxvt") || env("TERM").contains("kitty") => Notify::Osc777,
            _ => Notify::Bell,
        },
    };
    let given = |key: &str| loaded.settings.get(key).map(|(value, _)| value);
    let seconds = given("ui.terminalBackgroundPollingInterval").and_then(Value::as_u64).unwrap_or(60);
    let follows = flag("ui.autoThemeSwitching") && follows_terminal(loaded) && env("TERM") != "linux";
    ScreenOptions {
        alternate: flag("ui.useAlternateBuffer"),
        colours: env("NO_COLOR").is_empty(),
        notify: flag("general.enableNotifications").then_some(notify),
        background: follows.then(|| Duration::from_secs(seconds.max(1))),
        memory: items(loaded).contains(&FooterItem::Memory),
    }
}

/// Whether the theme is one of the two defaults.
fn follows_terminal(loaded: &Loaded) -> bool {
    let plain = loaded.env.get("NO_COLOR").is_some_and(|value| !value.is_empty());
    !plain && word(loaded, "ui.theme").is_none_or(|name| matches!(name, "Default" | "Default Light"))
}

fn word<'a>(loaded: &'a Loaded, key: &str) -> Option<&'a str> {
    loaded.settings.get(key).and_then(|(value, _)| value.as_str()).filter(|word| !word.is_empty())
}

fn phrases(loaded: &Loaded) -> Phrases {
    let own = loaded.settings.get("ui.customWittyPhrases").and_then(|(value, _)| value.as_array());
    let own: Vec<String> = own
        .into_iter()
        .flatten()
        .filter_map(Value::as_str)
        .map(one_line)
        .filter(|text| !text.is_empty())
        .collect();
    let wit = || if own.is_empty() { WIT.iter().copied().map(str::to_owned).collect() } else { own.clone() };
    let tips = || TIPS.iter().copied().map(str::to_owned);
    let (texts, seconds): (Vec<String>, u64) = match word(loaded, "ui.loadingPhrases") {
        Some("tips") => (tips().collect(), 10),
        Some("witty") => (wit(), 5),
        Some("all") => (wit().into_iter().chain(tips()).collect(), 5),
        _ => (Vec::new(), 0),
    };
    Phrases { texts, stay: Duration::from_secs(seconds) }
}

fn titles(loaded: &Loaded) -> Option<Titles> {
    let flag = |key: &str| is_on(&loaded.settings, key);
    if flag("ui.hideWindowTitle") {
        return None;
    }
    let folder = loaded.project.root().file_name().map(|name| name.to_string_lossy().into_owned());
    let folder = folder.unwrap_or_else(|| "/".to_owned());
    let fixed = loaded.env.get("CLI_TITLE").filter(|title| !title.is_empty()).map(str::to_owned);
    let fixed = fixed.or_else(|| (!flag("ui.dynamicWindowTitle")).then(|| format!("Pollux ({folder})")));
    Some(Titles { folder, fixed, thought: flag("ui.showStatusInTitle") })
}

/// The footer's items, in order.
fn items(loaded: &Loaded) -> Vec<FooterItem> {
    let flag = |key: &str| is_on(&loaded.settings, key);
    let chosen = loaded.settings.get("ui.footer.items").and_then(|(value, _)| value.as_array());
    let mut items = match chosen {
        Some(names) => names.iter().filter_map(Value::as_str).filter_map(FooterItem::named).collect(),
        None => {
            let mut items = FooterItem::DEFAULT.to_vec();
            if !flag("ui.footer.hideContextPercentage") {
                items.push(FooterItem::ContextUsed);
            }
            items.retain(|item| {
                !(flag("ui.footer.hideCWD") && *item == FooterItem::Workspace
                    || flag("ui.footer.hideSandboxStatus") && *item == FooterItem::Sandbox
                    || flag("ui.footer.hideModelInfo") && *item == FooterItem::Model)
            });
            items
        }
    };
    if flag("ui.showMemoryUsage") && !items.contains(&FooterItem::Memory) {
        items.push(FooterItem::Memory);
    }
    items
}

/// The footer. The sandbox is empty until it is known.
pub(crate) fn footer(loaded: &Loaded, model: &str, in_force: Option<&SandboxInForce>) -> Footer {
    let root = loaded.project.root();
    let place = match root.strip_prefix(loaded.home.user_home()) {
        Ok(rest) if rest.as_os_str().is_empty() => "~".to_owned(),
        Ok(rest) => format!("~/{}", rest.display()),
        Err(_) => root.display().to_string(),
    };
    let sandbox = in_force.map(SandboxInForce::status).unwrap_or_default();
    let sandbox = match loaded.trust.uses_project() || sandbox.is_empty() {
        true => sandbox,
        false => format!("untrusted, {sandbox}"),
    };
    Footer {
        items: items(loaded),
        labels: is_on(&loaded.settings, "ui.footer.showLabels"),
        workspace: place,
        branch: branch(root).unwrap_or_default(),
        unconfined: in_force == Some(&SandboxInForce::None),
        sandbox,
        model: model.to_owned(),
        machine: machine(loaded),
        ..Footer::default()
    }
}

fn machine(loaded: &Loaded) -> String {
    let known = loaded.env.get("HOSTNAME").filter(|name| !name.is_empty()).map(str::to_owned);
    let file = || std::fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default();
    known.unwrap_or_else(file).trim().to_owned()
}

/// The current branch, read from `.git` without running git.
fn branch(root: &std::path::Path) -> Option<String> {
    let git = root.ancestors().map(|folder| folder.join(".git")).find(|path| path.exists())?;
    let folder = match git.is_dir() {
        true => git,
        // In a linked work tree, `.git` is a file.
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

/// The keybindings, and the errors in their file.
pub(crate) fn keys(loaded: &Loaded) -> (KeyMap, Vec<String>) {
    let file = loaded.home.gemini_dir().join("keybindings.json");
    match std::fs::read_to_string(&file) {
        Err(_) => (KeyMap::default(), Vec::new()),
        Ok(text) => {
            let (keys, problems) = KeyMap::read(&text);
            (keys, problems.iter().map(|problem| format!("{}: {problem}", file.display())).collect())
        }
    }
}
