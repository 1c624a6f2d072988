//! What `pollux trust show` prints.

use std::fmt::Write;

use pollux_config::trust::{Announcement, Binding, FolderTrust, Item, ItemKind, Role, TrustReason};
use pollux_domain::terminal_text;
use serde_json::{Value, json};

use super::{View, changed_paths};

/// The text page: trust state, commands, settings and files, and what programs compare.
pub fn text(view: &View) -> String {
    let mut text = question(view);
    let head = text.find('\n').map_or(text.len(), |end| end + 1);
    let register = visible(&view.register.to_string_lossy());
    text.insert_str(head, &format!("trusted folders file: {register}\n"));
    if !view.is_home {
        // Writing to a String cannot fail.
        let _ = writeln!(text, "\ndigest: {}", view.inventory.digest);
    }
    text
}

/// The same for a person who is asked to trust the folder.
pub fn question(view: &View) -> String {
    let mut text = format!("{}: {}\n", visible(&view.folder.to_string_lossy()), standing(view));
    if view.is_home {
        text.push_str(
            "\nThis is your home directory: its .gemini folder is your own and does not need trust.\n",
        );
        return text;
    }
    let all = &view.inventory.announcements;
    section(&mut text, "It would run", all.iter().filter(|said| said.role.runs()).map(command));
    let settings = all.iter().filter(|said| said.role == Role::Setting);
    section(&mut text, "It would set", settings.map(setting));
    let variables = all.iter().filter(|said| said.role == Role::Variable);
    section(&mut text, "Variables in its .env files (values hidden)", variables.map(variable));
    section(&mut text, "Files checked for changes", view.inventory.items.iter().map(file));
    if view.inventory.items.is_empty() {
        text.push_str("\nIt contains nothing that would run or be applied.\n");
    }
    if let Some(excess) = &view.inventory.excess {
        let _ = writeln!(text, "\nThe list is incomplete: {}.", visible(excess));
    }
    text
}

/// The trust state of the folder and its reason, on one line.
pub fn standing(view: &View) -> String {
    let word = match view.standing.trust {
        FolderTrust::Trusted => "trusted",
        FolderTrust::Untrusted => "not trusted",
        FolderTrust::Undecided => "not trusted yet",
        FolderTrust::Changed => "no longer trusted",
    };
    format!("{word} ({})", why(view))
}

fn why(view: &View) -> String {
    let rule = match &view.standing.reason {
        TrustReason::Restricted => return "GEMINI_RESTRICTED_MODE is set".to_owned(),
        TrustReason::SkipFlag => return "--skip-trust".to_owned(),
        TrustReason::Environment => return "set by GEMINI_CLI_TRUST_WORKSPACE".to_owned(),
        TrustReason::FeatureOff => return "security.folderTrust.enabled is off".to_owned(),
        TrustReason::NoRule => return "no decision yet".to_owned(),
        TrustReason::Rule(path) => format!("entry for `{}`", visible(path)),
    };
    match &view.standing.binding {
        Binding::Unbound => rule,
        Binding::Same => {
            let since = view.record.as_ref().and_then(|record| record.time.as_deref());
            since.map_or_else(
                || rule.clone(),
                |since| format!("{rule}; content unchanged since {}", visible(since)),
            )
        }
        Binding::FirstUse(_) => format!("{rule}; its content will be recorded at the first use"),
        Binding::Changed(_) => format!("changed since: {}", changed_paths(&view.standing.binding)),
        Binding::Unclear(_) => {
            format!("could not compare its content: {}", changed_paths(&view.standing.binding))
        }
    }
}

fn section(text: &mut String, title: &str, lines: impl Iterator<Item = String>) {
    let mut lines = lines.peekable();
    if lines.peek().is_some() {
        let _ = writeln!(text, "\n{title}:");
        lines.for_each(|line| {
            let _ = writeln!(text, "  {line}");
        });
    }
}

fn command(said: &Announcement) -> String {
    let mut line = match said.role {
        Role::Shell => format!("{} {}: {}", said.role.word(), visible(&said.source), visible(&said.text)),
        _ => format!("{} {}: {}", said.role.word(), visible(&said.name), visible(&said.text)),
    };
    if !said.details.is_empty() {
        let _ = write!(line, " ({})", visible(&said.details.join("; ")));
    }
    if said.source != ".gemini/settings.json" && said.role != Role::Shell {
        let _ = write!(line, " [{}]", visible(&said.source));
    }
    line
}

fn setting(said: &Announcement) -> String {
    let unused = if said.used { "" } else { " (ignored in project settings)" };
    format!("{} = {}{unused}", visible(&said.name), visible(&said.text))
}

fn variable(said: &Announcement) -> String {
    let unused = if said.used { "" } else { " (ignored in project settings)" };
    format!("{} [{}]{unused}", visible(&said.name), visible(&said.source))
}

fn file(item: &Item) -> String {
    let target = item.text.as_deref().unwrap_or_default().trim_end();
    match item.kind {
        ItemKind::File | ItemKind::Variables => visible(&item.path),
        ItemKind::Link => format!("{} is a {}", visible(item.path.trim_end_matches('@')), visible(target)),
        ItemKind::LinkOut => {
            let path = visible(&item.path);
            format!("{path} is a {} outside the folder; its target was not read", visible(target))
        }
        ItemKind::Special => format!("{} cannot be read", visible(&item.path)),
    }
}

/// The JSON page.
pub fn json(view: &View) -> Value {
    let standing = match view.standing.trust {
        FolderTrust::Trusted => "trusted",
        FolderTrust::Untrusted => "untrusted",
        FolderTrust::Undecided => "undecided",
        FolderTrust::Changed => "changed",
    };
    let rule = match &view.standing.reason {
        TrustReason::Rule(path) => Value::from(path.as_str()),
        _ => Value::Null,
    };
    let changed = match &view.standing.binding {
        Binding::Changed(paths) => paths.clone(),
        _ => Vec::new(),
    };
    let said = |said: &Announcement| {
        json!({
            "role": said.role.word(), "name": said.name, "text": said.text, "details": said.details,
            "source": said.source, "used": said.used,
        })
    };
    let all = &view.inventory.announcements;
    let (runs, sets): (Vec<&Announcement>, Vec<_>) = all.iter().partition(|said| said.role.runs());
    let file = |item: &Item| json!({"path": item.path, "kind": item.kind.word(), "sha256": item.hash});
    json!({
        "folder": view.folder.to_string_lossy(),
        "standing": standing,
        "trusted": view.standing.trust.uses_project(),
        "reason": why(view),
        "register": view.register.to_string_lossy(),
        "rule": rule,
        "digest": view.inventory.digest,
        "complete": view.inventory.excess.is_none(),
        "changed": changed,
        "runs": runs.into_iter().map(said).collect::<Vec<_>>(),
        "sets": sets.into_iter().map(said).collect::<Vec<_>>(),
        "files": view.inventory.items.iter().map(file).collect::<Vec<_>>(),
    })
}

/// A text on one line, with control and invisible characters escaped.
pub fn visible(text: &str) -> String {
    terminal_text::name(text).into_owned()
}

/// The same for several lines.
pub fn visible_lines(text: &str) -> String {
    terminal_text::visible(text).into_owned()
}
