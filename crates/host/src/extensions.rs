//! The extensions of a run: which are installed, which are active, and what they contribute.

use std::path::PathBuf;

use pollux_config::groups::Secret;
use pollux_config::paths::{GEMINI_DIR, same_place};
use pollux_domain::exit::ExitKind;
use pollux_domain::failure::Failure;
use pollux_extend::extension::{Extension, Installed, Kind, LoadRequest, Origin, load};
use pollux_hooks::ExtensionHooks;
use pollux_install::extension::Sources;
use pollux_install::integrity::{CONTENTS, Depth, recorded_contents};
use serde_json::Value;

use super::Loaded;

pub use super::found_extensions::Extensions;

/// Extensions are disabled.
pub const SWITCHED_OFF_BY_ADMIN: &str =
    "Extensions are disabled by administrator. Check admin settings or contact your admin.";

/// All extensions, read on first use; nothing is read if their folder does not exist.
pub fn of(loaded: &Loaded) -> &Extensions {
    loaded.extensions.get_or_init(|| {
        if is_off(loaded, "admin.extensions.enabled") {
            return Extensions::default();
        }
        let (user, project) =
            (loaded.home.extensions_dir(), loaded.project.root().join(GEMINI_DIR).join("extensions"));
        let trusted = loaded.trust.uses_project();
        let own = trusted && !same_place(loaded.project.root(), loaded.home.user_home());
        let sources = sources(loaded);
        let found = load(&LoadRequest {
            user: &user,
            project: own.then_some(&*project),
            workspace: loaded.project.root(),
            trusted,
            only: &loaded.only_extensions,
            disabled: &texts(loaded, "extensions.disabled"),
            refuses: &|folder, metadata| sources.refusal(folder, metadata),
            configurable: !is_off(loaded, "experimental.extensionConfig"),
        });
        match found {
            Ok(found) => Extensions { all: found.all, warnings: found.warnings, ..Extensions::default() },
            Err(error) => {
                let failure =
                    Failure::from_error(ExitKind::Config, &error).hint("remove one of the two folders");
                Extensions { failure: Some(failure), ..Extensions::default() }
            }
        }
    })
}

/// Warnings about extensions, for those who show them: some need a look at more files.
pub fn warnings(loaded: &Loaded) -> impl Iterator<Item = String> {
    let found = of(loaded);
    found.warnings.iter().cloned().chain(found.all.iter().filter_map(Installed::ignored_addresses))
}

/// All names, including disabled extensions.
pub fn names(loaded: &Loaded) -> Vec<String> {
    of(loaded).all.iter().map(|one| one.extension.name.clone()).collect()
}

/// Checks that extensions can be loaded (exit code 52).
pub fn check_extensions(loaded: &Loaded) -> Result<(), Failure> {
    match &of(loaded).failure {
        Some(failure) => Err(failure.clone()),
        None => Ok(()),
    }
}

/// The active extensions of this run, sorted by name.
pub fn active(loaded: &Loaded) -> impl Iterator<Item = &Installed> {
    of(loaded).all.iter().filter(|one| one.active)
}

/// The same, for the loaders of skills and agents.
pub fn readable(loaded: &Loaded) -> Vec<Extension> {
    active(loaded).map(|one| one.extension.clone()).collect()
}

/// A folder of each active extension, such as `commands`.
pub fn parts(loaded: &Loaded, part: &str) -> Vec<(String, PathBuf)> {
    active(loaded).map(|one| (one.extension.name.clone(), one.extension.part(part))).collect()
}

/// Extensions with hooks, with their settings as environment variables.
pub fn hooks(loaded: &Loaded) -> Vec<ExtensionHooks> {
    let with_hooks = active(loaded).filter(|one| one.extension.part("hooks").join("hooks.json").exists());
    with_hooks
        .map(|one| ExtensionHooks {
            name: one.extension.name.clone(),
            directory: one.extension.path.clone(),
            variables: one.environment(&|service, variable| secret(loaded, service, variable)),
        })
        .collect()
}

/// Themes of active extensions; each name is followed by the extension's name.
pub fn extension_themes(loaded: &Loaded) -> Vec<(String, Value)> {
    let of = |installed: &Installed| {
        let named = |theme: &Value| {
            let name = theme.get("name").and_then(Value::as_str)?;
            Some((format!("{name} ({})", installed.extension.name), theme.clone()))
        };
        installed.manifest.themes().iter().filter_map(named).collect::<Vec<_>>()
    };
    active(loaded).flat_map(of).collect()
}

/// Policy folders of extensions.
pub fn policies(loaded: &Loaded) -> Vec<PathBuf> {
    active(loaded).map(|one| one.extension.part("policies")).filter(|folder| folder.is_dir()).collect()
}

/// Tools that extensions exclude.
pub fn excluded_tools(loaded: &Loaded) -> Vec<String> {
    active(loaded).flat_map(|one| one.manifest.excluded_tools()).collect()
}

/// An MCP server of an extension: name, effective entry, entry as written with paths filled in, and the extension.
pub struct ExtensionServer {
    pub name: String,
    pub entry: Value,
    pub written: Value,
    pub extension: String,
    /// Part of the project.
    pub of_project: bool,
}

/// MCP servers of extensions; the first one with a name wins.
pub fn servers(loaded: &Loaded) -> Vec<ExtensionServer> {
    let mut found: Vec<ExtensionServer> = Vec::new();
    let lent = loaded.lent_env();
    for one in active(loaded) {
        let written: Vec<Value> = one.servers_as_written(&loaded.env);
        let ready = one.servers(&lent, &|service, variable| secret(loaded, service, variable));
        for ((name, entry), written) in ready.into_iter().zip(written) {
            if !found.iter().any(|known| known.name == name) {
                let extension = one.extension.name.clone();
                let of_project = one.origin == Origin::Project;
                found.push(ExtensionServer { name, entry, written, extension, of_project });
            }
        }
    }
    found
}

/// Whether any active extension has a server; does not open the credential store.
pub fn any_server(loaded: &Loaded) -> bool {
    active(loaded).any(|one| one.manifest.servers().next().is_some())
}

/// Names of the servers of extensions.
pub fn server_names(loaded: &Loaded) -> Vec<String> {
    active(loaded).flat_map(|one| one.manifest.servers()).map(|(name, _)| name.to_owned()).collect()
}

/// Context files with their extension's folder, sorted, and warnings about those that may not be read.
pub fn context_files(loaded: &Loaded) -> (Vec<(PathBuf, PathBuf)>, Vec<String>) {
    let (mut files, mut warnings) = (Vec::new(), Vec::new());
    for one in active(loaded) {
        let (found, said) = one.context_files();
        files.extend(found.into_iter().map(|file| (one.extension.path.clone(), file)));
        warnings.extend(said);
    }
    files.sort_by(|(_, one), (_, other)| one.cmp(other));
    (files, warnings)
}

/// The plan directory set by an extension.
pub fn plan_directory(loaded: &Loaded) -> Option<PathBuf> {
    let text = active(loaded).find_map(|one| one.manifest.plan_directory()?.ok())?;
    Some(loaded.project.root().join(text))
}

/// Warnings about extensions whose files have changed since they were installed.
pub fn changed(loaded: &Loaded) -> Vec<String> {
    let installed =
        active(loaded).filter(|one| one.metadata.as_ref().is_some_and(|from| from.kind != Kind::Link));
    let mut installed = installed.peekable();
    if installed.peek().is_none() {
        return Vec::new();
    }
    let unchecked = |why: &str| {
        format!(
            "Warning: Changed files of extensions cannot be detected: {why}. Review your extensions, then delete `{}` and reinstall them to record their files again.",
            loaded.home.gemini_dir().join(CONTENTS).display()
        )
    };
    let recorded = match recorded_contents(loaded.home.gemini_dir()) {
        Ok(recorded) => recorded,
        Err(error) => return vec![unchecked(&error.to_string())],
    };
    installed
        .filter_map(|one| {
            let name = &one.extension.name;
            let (_, contents) = recorded.iter().find(|(known, _)| known == name)?;
            let Some(contents) = contents else {
                return Some(unchecked(&format!("the record of \"{name}\" is damaged")));
            };
            let changes = contents.changes(&one.folder, Depth::Glance);
            (!changes.is_empty()).then(|| changed_line(name, &changes.summary()))
        })
        .collect()
}

pub fn changed_line(name: &str, what: &str) -> String {
    format!(
        "Warning: Extension \"{name}\" has changed since it was installed ({what}). If you did not change it, uninstall and reinstall it."
    )
}

/// The settings that restrict extension sources.
pub fn sources(loaded: &Loaded) -> Sources {
    let block = loaded.settings.get("security.blockGitExtensions");
    Sources {
        allowed: texts(loaded, "security.allowedExtensions"),
        block_remote: block.is_some_and(|(value, _)| value == &Value::Bool(true)),
    }
}

/// A secret from the credential store, which is opened lazily.
pub fn secret(loaded: &Loaded, service: &str, variable: &str) -> Option<Secret> {
    let store = of(loaded).store.get_or_init(|| loaded.credential_store());
    store.secret(service, variable).ok().flatten()
}

pub fn is_off(loaded: &Loaded, key: &str) -> bool {
    loaded.settings.get(key).is_some_and(|(value, _)| value == &Value::Bool(false))
}

fn texts(loaded: &Loaded, key: &str) -> Vec<String> {
    let value = loaded.settings.get(key).and_then(|(value, _)| value.as_array());
    value.into_iter().flatten().filter_map(Value::as_str).map(str::to_owned).collect()
}
