//! Checks for extension updates in the background of an interactive run.

use std::io;

use pollux_config::env::Env;
use pollux_domain::event::{Event, NoticeCode, Severity};
use pollux_extend::extension::{Kind, Origin};
use tokio::sync::oneshot;

use super::{Loaded, extension_set, extensions};
use crate::extension_set::Updated;
use crate::prompter::Prompter;
use crate::request::Request;

/// Results of the background thread.
pub(super) struct ExtensionUpdates(oneshot::Receiver<Vec<String>>);

impl ExtensionUpdates {
    /// Checks for updates once per run. Extensions with automatic updates are updated if that needs no consent; the
    /// others are only reported. `None` if there is nothing to check.
    pub(super) fn look(options: &Request, loaded: &Loaded) -> Option<Self> {
        loaded.updates.set(()).ok()?;
        started(options, loaded).map(Self)
    }

    /// The messages, once everything is done.
    pub(super) async fn events(&mut self) -> Vec<Event> {
        let notice =
            |message| Event::Notice { severity: Severity::Info, code: NoticeCode::Extension, message };
        (&mut self.0).await.unwrap_or_default().into_iter().map(notice).collect()
    }
}

fn started(options: &Request, loaded: &Loaded) -> Option<oneshot::Receiver<Vec<String>>> {
    let manner = Manner {
        updates: !extensions::is_off(loaded, "general.enableAutoUpdate"),
        tells: !extensions::is_off(loaded, "general.enableAutoUpdateNotification"),
    };
    let can_be_newer = |one: &&pollux_extend::extension::Installed| {
        let from = one.metadata.as_ref().filter(|from| from.kind != Kind::Link);
        one.origin == Origin::User && from.is_some_and(|from| manner.wants(from.auto_update))
    };
    extensions::of(loaded).all.iter().find(can_be_newer)?;
    let (sender, receiver) = oneshot::channel();
    let (options, env) = (options.clone(), loaded.env.clone());
    let look = move || drop(sender.send(lines(&options, &env, manner)));
    std::thread::Builder::new().name("extension-updates".to_owned()).spawn(look).ok()?;
    Some(receiver)
}

/// The options from the settings.
#[derive(Clone, Copy)]
struct Manner {
    updates: bool,
    tells: bool,
}

impl Manner {
    fn wants(self, auto_update: Option<bool>) -> bool {
        self.tells || (self.updates && auto_update == Some(true))
    }
}

/// Errors are silent, since the user did not ask for this check.
fn lines(options: &Request, env: &Env, manner: Manner) -> Vec<String> {
    let Ok(mut set) = extension_set::unattended(options, env) else { return Vec::new() };
    let (mut lines, mut newer) = (Vec::new(), Vec::new());
    for (name, auto_update) in set.sources() {
        if !manner.wants(auto_update) {
            continue;
        }
        if !(manner.updates && auto_update == Some(true)) {
            newer.extend(set.has_newer(&name).then_some(name));
            continue;
        }
        let (mut asked, mut nobody) = (Vec::new(), io::empty());
        let mut asking = Prompter { at_terminal: false, input: &mut nobody, screen: &mut asked };
        match set.update_named(&name, &mut asking) {
            Some(Ok(Updated::Newer { from, to, .. })) => lines.push(format!(
                "Extension \"{name}\" successfully updated: {from} → {to}. It takes effect at the next start."
            )),
            // The update needs new consent.
            Some(Err(_)) if !asked.is_empty() => newer.push(name),
            Some(Ok(Updated::Not(_)) | Err(_)) | None => {}
        }
    }
    if manner.tells {
        lines.extend(announcement(&newer));
    }
    lines
}

/// The beginning is upstream's, for scripts that wait for it.
fn announcement(newer: &[String]) -> Option<String> {
    match newer {
        [] => None,
        [only] => Some(format!(
            "You have 1 extension with an update available, run \"/extensions update {only}\" to review it."
        )),
        several => Some(format!(
            "You have {} extensions with an update available, run \"/extensions update --all\" to review them.",
            several.len()
        )),
    }
}

#[cfg(test)]
mod tests {
    #![expect(clippy::disallowed_methods, reason = "scratch files need no care")]

    use std::fs;
    use std::path::Path;

    use super::*;

    fn put(file: &Path, text: &str) {
        fs::create_dir_all(file.parent().unwrap()).unwrap();
        fs::write(file, text).unwrap();
    }

    /// An installed extension whose source has version 2.
    fn install(home: &Path, name: &str, metadata_more: &str, newer_more: &str) {
        let source = home.join("sources").join(name);
        let manifest =
            |version: &str, more: &str| format!(r#"{{"name": "{name}", "version": "{version}"{more}}}"#);
        put(&source.join("gemini-extension.json"), &manifest("2.0.0", newer_more));
        let folder = home.join(".gemini/extensions").join(name);
        put(&folder.join("gemini-extension.json"), &manifest("1.0.0", ""));
        let from = format!(r#"{{"source": "{}", "type": "local"{metadata_more}}}"#, source.display());
        put(&folder.join(".gemini-extension-install.json"), &from);
    }

    fn looked(home: &Path, settings: &str) -> Option<Vec<String>> {
        put(&home.join(".gemini/settings.json"), settings);
        let project = home.join("project");
        fs::create_dir_all(&project).unwrap();
        let vars = [
            ("HOME", home.display().to_string()),
            ("GEMINI_CLI_HOME", home.display().to_string()),
            ("GEMINI_FORCE_FILE_STORAGE", "true".to_owned()),
            ("PATH", "/usr/bin:/bin".to_owned()),
        ];
        let env = Env::new(vars.map(|(name, value)| (name.to_owned(), value)), project);
        let options = Request::default();
        let loaded = super::super::load_settings(&options, &env).unwrap();
        Some(started(&options, &loaded)?.blocking_recv().unwrap())
    }

    fn version(home: &Path, name: &str) -> String {
        let text =
            fs::read_to_string(home.join(".gemini/extensions").join(name).join("gemini-extension.json"));
        text.unwrap().split('"').nth(7).unwrap_or_default().to_owned()
    }

    #[test]
    fn whoever_wants_it_is_updated_and_what_would_do_more_is_only_told_of() {
        let home = tempfile::tempdir().unwrap();
        let home = home.path();
        assert_eq!(looked(home, "{}"), None, "without extensions nothing is looked for");
        let auto = r#", "autoUpdate": true"#;
        install(home, "plain", auto, "");
        install(home, "more", auto, r#", "mcpServers": {"srv": {"command": "evil"}}"#);
        install(home, "manual", "", "");
        let off = r#"{"general": {"enableAutoUpdate": false, "enableAutoUpdateNotification": false}}"#;
        assert_eq!(looked(home, off), None);
        let told = r#"{"general": {"enableAutoUpdate": false}}"#;
        assert_eq!(
            looked(home, told).unwrap(),
            [
                "You have 3 extensions with an update available, run \"/extensions update --all\" to review them."
            ]
        );
        assert_eq!(version(home, "plain"), "1.0.0");
        assert_eq!(
            looked(home, "{}").unwrap(),
            [
                "Extension \"plain\" successfully updated: 1.0.0 → 2.0.0. It takes effect at the next start.",
                "You have 2 extensions with an update available, run \"/extensions update --all\" to review them."
            ]
        );
        assert_eq!(version(home, "plain"), "2.0.0");
        assert_eq!(version(home, "more"), "1.0.0", "a new server is asked about first");
        fs::remove_dir_all(home.join(".gemini/extensions/manual")).unwrap();
        assert_eq!(
            looked(home, "{}").unwrap(),
            ["You have 1 extension with an update available, run \"/extensions update more\" to review it."]
        );
    }
}
