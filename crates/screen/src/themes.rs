//! The available themes and the chosen one.

use pollux_host::Loaded;
use pollux_tui::terminal::background;
use pollux_tui::theme::{Shade, Theme};
use serde_json::Value;

/// All themes by their names in `ui.theme`: built-in, custom, and from extensions.
pub(crate) fn themes(loaded: &Loaded) -> Vec<(String, Theme)> {
    let mut all: Vec<(String, Theme)> = Vec::new();
    all.extend(Theme::names().filter_map(|(name, _)| Some((name.to_owned(), Theme::named(name)?))));
    let own = loaded.settings.get("ui.customThemes").and_then(|(themes, _)| themes.as_object());
    let own = own.into_iter().flatten().map(|(name, written)| (name.clone(), written.clone()));
    for (name, written) in own.chain(pollux_host::extension_themes(loaded)) {
        all.extend(Theme::custom(&name, &written).ok().map(|theme| (name, theme)));
    }
    all
}

/// The chosen theme; by default one that suits the terminal, according to the environment.
pub(crate) fn chosen_theme(loaded: &Loaded) -> Theme {
    if loaded.env.non_empty("NO_COLOR").is_some() {
        return Theme::no_colour();
    }
    let chosen = loaded.settings.get("ui.theme").and_then(|(value, _)| value.as_str());
    let found = chosen.and_then(|name| own(name, loaded).or_else(|| Theme::named(name)));
    let shade = || loaded.env.get("COLORFGBG").and_then(background::of_variable).unwrap_or(Shade::Dark);
    found.unwrap_or_else(|| Theme::for_shade(shade()))
}

fn own(name: &str, loaded: &Loaded) -> Option<Theme> {
    let written = loaded.settings.get("ui.customThemes").and_then(|(themes, _)| themes.get(name));
    if let Some(theme) = written.and_then(|written| Theme::custom(name, written).ok()) {
        return Some(theme);
    }
    if name.ends_with(".json") {
        return from_file(name, loaded);
    }
    // Read extensions only for a name that can be theirs.
    let found = name.ends_with(')').then(|| pollux_host::extension_themes(loaded))?;
    let (_, written) = found.into_iter().find(|(known, _)| known == name)?;
    Theme::custom(name, &written).ok()
}

/// A theme from a file, which must be inside the home directory.
fn from_file(name: &str, loaded: &Loaded) -> Option<Theme> {
    let home = loaded.home.user_home();
    let path = match name.strip_prefix("~/") {
        Some(rest) => home.join(rest),
        None => loaded.env.cwd().join(name),
    };
    let path = path.canonicalize().ok().filter(|path| path.starts_with(home))?;
    let written: Value = serde_json::from_str(&std::fs::read_to_string(path).ok()?).ok()?;
    let called = written.get("name").and_then(Value::as_str).unwrap_or(name).to_owned();
    Theme::custom(&called, &written).ok()
}
