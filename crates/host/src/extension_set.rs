//! The operations behind `pollux extensions`: install, update, enable, configure and validate.

mod configuring;
mod rows;
mod validating;

use std::path::Path;
use std::time::Duration;

use pollux_config::env::Env;
use pollux_config::groups::Secret;
use pollux_config::paths::sha256_hex;
use pollux_config::settings;
use pollux_domain::exit::ExitKind;
use pollux_domain::failure::Failure;
use pollux_exec::background::Background;
use pollux_extend::extension::{Enablement, Installed, Kind, Metadata, Origin, Switch, switch};
use pollux_install::extension::{
    API, Consent, ExtensionPaths, InstallError, InstallRequest, InstallServices, Releases, SettingValues,
    Staged, UpdateState, check, consent, find, infer, infer_link, stage, uninstall,
};
use pollux_install::fetch::Git;
use pollux_install::integrity::{Depth, Integrity, IntegrityState};
use pollux_net::client::ClientOptions;
use pollux_net::credentials::CredentialStore;
use serde_json::Value;
use tokio_util::sync::CancellationToken;

use super::extensions::{self, SWITCHED_OFF_BY_ADMIN};
use super::{Loaded, auth, helpers, load_settings, mcp, trust};
use crate::prompter::Prompter;
use crate::request::Request;
use crate::{VERSION, cannot_start};

pub use rows::{ExtensionOutcome, ExtensionRow, NewExtension, SettingRow, SwitchScope, Updated};

/// Time limit for each git command.
const GIT_TIME: Duration = Duration::from_secs(300);

/// The extensions for `pollux extensions`.
pub fn extension_set(options: &Request, env: &Env) -> Result<ExtensionSet, Failure> {
    of_a_home(options, env)
}

/// As above for background use: Ctrl+C is not handled here.
pub fn unattended(options: &Request, env: &Env) -> Result<ExtensionSet, Failure> {
    Ok(ExtensionSet { attended: false, ..of_a_home(options, env)? })
}

fn of_a_home(options: &Request, env: &Env) -> Result<ExtensionSet, Failure> {
    let loaded = load_settings(options, env)?;
    if extensions::is_off(&loaded, "admin.extensions.enabled") {
        return Err(Failure::new(ExitKind::Config, SWITCHED_OFF_BY_ADMIN));
    }
    extensions::check_extensions(&loaded)?;
    let notes = loaded.notes.iter().cloned().chain(extensions::warnings(&loaded)).collect();
    let all = extensions::of(&loaded).all.clone();
    let places = ExtensionPaths {
        gemini_dir: loaded.home.gemini_dir().to_path_buf(),
        user_home: loaded.home.user_home().to_path_buf(),
        workspace: loaded.project.root().to_path_buf(),
    };
    let store = loaded.credential_store();
    Ok(ExtensionSet { loaded, all, places, notes, store, attended: true })
}

/// The installed extensions of a home directory.
pub struct ExtensionSet {
    loaded: Loaded,
    all: Vec<Installed>,
    places: ExtensionPaths,
    notes: Vec<String>,
    store: std::sync::Arc<CredentialStore>,
    /// A user is waiting, and Ctrl+C cancels the operation.
    attended: bool,
}

/// Consent given in advance.
struct Manner {
    consent: bool,
    asks_settings: bool,
}

impl ExtensionSet {
    /// Notes for stderr.
    pub fn notes(&self) -> &[String] {
        &self.notes
    }

    /// Names and versions, sorted.
    pub fn names(&self) -> Vec<(String, String)> {
        let own = self.all.iter().filter(|one| one.origin == Origin::User);
        own.map(|one| (one.extension.name.clone(), one.extension.version.clone())).collect()
    }

    /// All details, plus warnings about extensions whose files have changed.
    pub fn rows(&self) -> (Vec<ExtensionRow>, Vec<String>) {
        let rules = Enablement::read(&self.places.extensions());
        let rows = self.all.iter().map(|one| self.row(one, &rules)).collect();
        let integrity = self.integrity();
        let changed = self.all.iter().filter_map(|one| changed(&integrity, one)).collect();
        (rows, changed)
    }

    pub fn install(
        &mut self,
        new: &NewExtension,
        asking: &mut Prompter<'_>,
    ) -> Result<ExtensionOutcome, Failure> {
        let wish = InstallRequest {
            source: new.source.clone(),
            reference: new.reference.clone(),
            auto_update: new.auto_update,
            pre_release: new.pre_release,
        };
        let metadata = infer(&wish, &self.places.workspace).map_err(|error| refused(&error))?;
        let manner = Manner { consent: new.consent, asks_settings: !new.skip_settings };
        let (name, notes) = self.bring(metadata, &manner, asking)?;
        Ok(ExtensionOutcome {
            out: format!("Extension \"{name}\" installed successfully and enabled.\n"),
            notes,
        })
    }

    pub fn link(
        &mut self,
        path: &str,
        consent: bool,
        asking: &mut Prompter<'_>,
    ) -> Result<ExtensionOutcome, Failure> {
        let metadata = infer_link(path, &self.places.workspace).map_err(|error| refused(&error))?;
        let (name, notes) = self.bring(metadata, &Manner { consent, asks_settings: true }, asking)?;
        Ok(ExtensionOutcome {
            out: format!("Extension \"{name}\" linked successfully and enabled.\n"),
            notes,
        })
    }

    pub fn uninstall(&mut self, given: &str) -> Result<(), Failure> {
        let Some(found) = find(&self.all, given).cloned() else {
            return Err(refused(&InstallError::NotFound));
        };
        if found.origin == Origin::Project {
            let text = format!("it belongs to this project (`{}`)", found.folder.display());
            return Err(Failure::new(ExitKind::Failure, text));
        }
        let left = uninstall(&found, &self.places, &self.integrity(), &self.store);
        let left = left.map_err(|error| refused(&error))?;
        self.all.retain(|one| one.folder != found.folder);
        match left {
            None => Ok(()),
            Some(reason) => {
                let name = &found.extension.name;
                let text = format!(
                    "extension \"{name}\" was removed, but its secrets may still be in the keychain, which could not be reached: {reason}"
                );
                Err(Failure::new(ExitKind::Failure, text).hint(auth::KEYCHAIN_HINT))
            }
        }
    }

    /// `None` if the extension is not installed.
    pub fn update(&mut self, name: &str, asking: &mut Prompter<'_>) -> Option<Result<Updated, Failure>> {
        self.update_named(name, asking)
    }

    pub fn switch(&mut self, name: &str, on: bool, scope: &SwitchScope) -> Result<ExtensionOutcome, Failure> {
        let Some(found) = self.all.iter().find(|one| one.extension.name == name) else {
            // Upstream's codes.
            let exit = if on { ExitKind::Config } else { ExitKind::Failure };
            return Err(Failure::new(exit, format!("Extension with name {name} does not exist."))
                .hint("run `pollux extensions list`"));
        };
        let (home, here) = (self.places.user_home.as_path(), self.places.workspace.as_path());
        let done = match (on, scope) {
            (true, SwitchScope::Unsaid) => Switch::OnEverywhere(home),
            (true, SwitchScope::User(_)) => Switch::On(home),
            (true, SwitchScope::Workspace(_)) => Switch::On(here),
            // Without a scope it is off everywhere, as `enable` turns it on everywhere.
            (false, SwitchScope::Unsaid) => Switch::Off(Path::new("/")),
            (false, SwitchScope::User(_)) => Switch::Off(home),
            (false, SwitchScope::Workspace(_)) => Switch::Off(here),
        };
        switch(&self.places.extensions(), name, done)
            .map_err(|error| Failure::from_error(ExitKind::Failure, &error))?;
        let mut said = ExtensionOutcome::default();
        if on {
            for (server, _) in found.manifest.servers() {
                if self.wake(server)? {
                    said.notes.push(format!("MCP server '{server}' was disabled - now enabled."));
                }
            }
        }
        let disabled =
            self.loaded.settings.get("extensions.disabled").and_then(|(value, _)| value.as_array());
        if on && disabled.is_some_and(|names| names.iter().any(|other| other.as_str() == Some(name))) {
            said.notes.push(format!("\"{name}\" is still listed in the setting `extensions.disabled`."));
        }
        if Enablement::read(&self.places.extensions()).is_enabled(name, here) != on {
            let (now, word) = if on { ("off", "on") } else { ("on", "off") };
            said.notes.push(format!(
                "It stays {now} in this folder; use `--scope workspace` to turn it {word} here."
            ));
        }
        let word = if on { "enabled" } else { "disabled" };
        let scope = match scope {
            SwitchScope::User(typed) | SwitchScope::Workspace(typed) => format!("for scope \"{typed}\""),
            SwitchScope::Unsaid => "in all scopes".to_owned(),
        };
        said.out = format!("Extension \"{name}\" successfully {word} {scope}.\n");
        Ok(said)
    }

    /// Validates an extension folder: warnings and errors.
    pub fn validate(&self, folder: &Path) -> Result<(Vec<String>, Vec<String>), Failure> {
        validating::look(folder)
    }

    pub fn configure(
        &mut self,
        name: Option<&str>,
        setting: Option<&str>,
        workspace: bool,
        asking: &mut Prompter<'_>,
    ) -> Result<ExtensionOutcome, Failure> {
        configuring::configure(self, name, setting, workspace, asking)
    }
}

impl ExtensionSet {
    /// The user's extensions, and whether each has automatic updates enabled.
    pub fn sources(&self) -> Vec<(String, Option<bool>)> {
        let own = self.all.iter().filter(|one| one.origin == Origin::User);
        own.filter_map(|one| Some((one.extension.name.clone(), one.metadata.as_ref()?.auto_update))).collect()
    }

    fn own(&self, name: &str) -> Option<&Installed> {
        self.all.iter().find(|one| one.origin == Origin::User && one.extension.name == name)
    }

    /// Whether a newer version exists; `false` if that cannot be determined.
    pub fn has_newer(&self, name: &str) -> bool {
        let Some(found) = self.own(name) else { return false };
        let state = self.with_network(async |places, outside| check(found, places, outside).await);
        matches!(state, Ok(Ok(UpdateState::Available(_))))
    }

    pub fn update_named(
        &mut self,
        name: &str,
        asking: &mut Prompter<'_>,
    ) -> Option<Result<Updated, Failure>> {
        let found = self.own(name)?.clone();
        Some(self.update_one(&found, asking))
    }

    fn integrity(&self) -> Integrity<'_> {
        Integrity::new(&self.places.gemini_dir, Some(&self.store))
    }

    fn secret(&self, service: &str, variable: &str) -> Option<Secret> {
        self.store.secret(service, variable).ok().flatten()
    }

    /// Installs an extension; returns its name and notes.
    fn bring(
        &mut self,
        metadata: Metadata,
        manner: &Manner,
        asking: &mut Prompter<'_>,
    ) -> Result<(String, Vec<String>), Failure> {
        extensions::sources(&self.loaded)
            .check(&metadata)
            .map_err(|error| Failure::from_error(ExitKind::Failure, &error))?;
        if !manner.consent {
            self.agree_to_source(&metadata, asking)?;
            self.agree_in_untrusted_folder(&metadata, asking)?;
        }
        let staged = self.fetch(metadata, asking)?;
        staged.check_name(&self.all, None, &self.places).map_err(|error| refused(&error))?;
        let name = staged.manifest.name.clone();
        if manner.consent {
            let text = consent::body(&staged.manifest, &staged.folder);
            asking.show(&format!("You have consented to the following:\n{text}\n{}\n", consent::warning()));
        } else if let Consent::Ask(text) = staged.consent(None) {
            agree(&text, &name, asking)?;
        }
        let wanted = staged.new_settings(None);
        let answers = if manner.asks_settings { self.ask(&wanted, asking) } else { Vec::new() };
        let missing: Vec<&str> = wanted
            .iter()
            .filter(|setting| {
                !answers.iter().any(|(known, value)| known == *setting && !value.reveal().is_empty())
            })
            .map(|setting| setting.name.as_str())
            .collect();
        let mut notes: Vec<String> =
            staged.manifest.warnings().iter().map(|text| format!("Extension \"{name}\": {text}")).collect();
        notes.extend(missing_line(&name, &missing));
        staged
            .install(None, &answers, &self.places, &self.integrity(), &self.store)
            .map_err(|error| refused(&error))?;
        Ok((name, notes))
    }

    /// A folder that an extension comes from has to be trusted, and stays so. The workspace covers what is in it.
    fn agree_to_source(&self, metadata: &Metadata, asking: &mut Prompter<'_>) -> Result<(), Failure> {
        let source = Path::new(&metadata.source);
        if metadata.kind.is_remote() || !source.is_dir() || self.is_trusted_workspace(source) {
            return Ok(());
        }
        let folder = trust::real_folder(source, &self.loaded);
        let asked = trust::question(&folder)?;
        if asked.is_trusted() {
            return Ok(());
        }
        asking.show(&format!("{}\n", asked.lines().join("\n")));
        let question = "Do you want to trust this folder and continue with the installation?";
        let decision = match asking.agrees(question, false) {
            true => asked.answered(&folder, Some("folder"))?,
            false => asked.answered(&folder, None)?,
        };
        if decision.trusted {
            return Ok(());
        }
        let why = decision.problem.map(|problem| format!(" {problem}")).unwrap_or_default();
        let text = format!("Installation aborted: folder `{}` is not trusted.{why}", metadata.source);
        Err(Failure::new(ExitKind::Failure, text).hint("see `pollux trust show`, or pass `--consent`"))
    }

    fn is_trusted_workspace(&self, source: &Path) -> bool {
        let real = |path: &Path| path.canonicalize().unwrap_or_else(|_| path.to_owned());
        self.loaded.trust.uses_project() && real(source).starts_with(real(&self.places.workspace))
    }

    /// Installing from an untrusted folder requires separate approval.
    fn agree_in_untrusted_folder(
        &self,
        metadata: &Metadata,
        asking: &mut Prompter<'_>,
    ) -> Result<(), Failure> {
        let here = &self.places.workspace;
        if self.loaded.trust.uses_project() {
            return Ok(());
        }
        let from_here = !metadata.kind.is_remote() && Path::new(&metadata.source).starts_with(here);
        let question = format!(
            "The current workspace at `{}` is not trusted. Installing does not trust this workspace. Install it anyway?",
            here.display()
        );
        match asking.agrees(&question, !from_here && asking.at_terminal) {
            true => Ok(()),
            false => Err(Failure::new(
                ExitKind::Failure,
                format!(
                    "Could not install extension because the current workspace at {} is not trusted.",
                    here.display()
                ),
            )
            .hint("see `pollux trust show`, or pass `--consent`")),
        }
    }

    fn fetch(&self, metadata: Metadata, asking: &mut Prompter<'_>) -> Result<Staged, Failure> {
        self.with_network(async |places, outside| {
            stage(metadata, places, outside, &mut |question| asking.agrees(question, true)).await
        })?
        .map_err(|error| refused(&error))
    }

    fn update_one(&mut self, found: &Installed, asking: &mut Prompter<'_>) -> Result<Updated, Failure> {
        let name = found.extension.name.clone();
        let state = self.with_network(async |places, outside| check(found, places, outside).await)?;
        let newer = match state.map_err(|error| refused(&error))? {
            UpdateState::Available(newer) => newer,
            UpdateState::UpToDate => return Ok(Updated::Not(None)),
            UpdateState::Never(why) => return Ok(Updated::Not(Some(why.to_owned()))),
        };
        if let Some(metadata) = &found.metadata {
            match self.integrity().verify(&name, metadata) {
                IntegrityState::Verified | IntegrityState::Unknown => {}
                IntegrityState::Invalid => {
                    let text = format!(
                        "Extension {name} cannot be updated. Extension integrity cannot be verified. To fix this, reinstall the extension."
                    );
                    return Err(Failure::new(ExitKind::Failure, text));
                }
                IntegrityState::Unchecked(reason) => {
                    let text = format!("Extension {name} cannot be updated: {reason}");
                    return Err(Failure::new(ExitKind::Failure, text).hint(auth::KEYCHAIN_HINT));
                }
            }
        }
        extensions::sources(&self.loaded)
            .check(&newer)
            .map_err(|error| Failure::from_error(ExitKind::Failure, &error))?;
        let mut notes: Vec<String> = changed(&self.integrity(), found).into_iter().collect();
        let staged = self.fetch(newer, asking)?;
        staged.check_name(&self.all, Some(found), &self.places).map_err(|error| refused(&error))?;
        if let Consent::Ask(text) = staged.consent(Some(found)) {
            agree(&text, &name, asking)?;
        }
        if let Ok(Some(before)) = self.integrity().contents(&name) {
            let changes = before.changes(&staged.folder, Depth::Full);
            notes.push(format!("Extension \"{name}\": files {}", changes.summary()));
        }
        let wanted = staged.new_settings(Some(found));
        let answers = self.ask(&wanted, asking);
        let to = staged.manifest.version.clone();
        staged
            .install(Some(found), &answers, &self.places, &self.integrity(), &self.store)
            .map_err(|error| refused(&error))?;
        Ok(Updated::Newer { from: found.extension.version.clone(), to, notes })
    }

    /// Asks for the settings of an extension if a user is present.
    fn ask(&self, wanted: &[pollux_extend::extension::Setting], asking: &mut Prompter<'_>) -> SettingValues {
        if !asking.at_terminal || extensions::is_off(&self.loaded, "experimental.extensionConfig") {
            return Vec::new();
        }
        let ask = |setting: &pollux_extend::extension::Setting| {
            let question = format!("{}\n{}", setting.name, setting.description);
            Some((setting.clone(), asking.value(question.trim_end(), setting.sensitive)?))
        };
        wanted.iter().filter_map(ask).collect()
    }

    /// Enables a disabled MCP server; returns whether it was disabled.
    fn wake(&self, server: &str) -> Result<bool, Failure> {
        let file = mcp::switches_file(&self.loaded);
        let key = server.trim().to_lowercase();
        let switches = settings::read_object(&file).ok().flatten().unwrap_or_default();
        let off = switches.get(&key).and_then(|entry| entry.get("enabled")) == Some(&Value::Bool(false));
        if off {
            settings::remove_path(&file, &[&key])
                .map_err(|error| Failure::from_error(ExitKind::Failure, &error))?;
        }
        Ok(off)
    }

    /// Runs work that may use git or the network; Ctrl+C cancels it and cleans up.
    fn with_network<T>(
        &self,
        work: impl AsyncFnOnce(&ExtensionPaths, &InstallServices<'_>) -> T,
    ) -> Result<T, Failure> {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .map_err(|error| cannot_start(&error))?;
        let background = Background::guarded(self.loaded.home.tmp_dir().join("background-processes"));
        let cancel = CancellationToken::new();
        let env = &self.loaded.env;
        let token = env.non_empty("GITHUB_TOKEN").map(str::to_owned);
        let outside = InstallServices {
            git: Git {
                program: helpers::git(env),
                environment: helpers::with_safe_path(self.loaded.sanitised_env(), env),
                background: &background,
                token: token.clone(),
                time_limit: GIT_TIME,
            },
            releases: Releases {
                api: env.non_empty("POLLUX_GITHUB_API").unwrap_or(API).trim_end_matches('/').to_owned(),
                http: ClientOptions::from_env(env, format!("pollux/{VERSION}")),
                token,
                cancel: &cancel,
            },
            cancel: &cancel,
        };
        Ok(runtime.block_on(async {
            let work = work(&self.places, &outside);
            tokio::pin!(work);
            loop {
                tokio::select! {
                    done = &mut work => return done,
                    Ok(()) = tokio::signal::ctrl_c(), if self.attended => cancel.cancel(),
                }
            }
        }))
    }

    fn row(&self, one: &Installed, rules: &Enablement) -> ExtensionRow {
        let name = &one.extension.name;
        let read =
            one.values.read(&one.manifest.settings, &|service, variable| self.secret(service, variable));
        let settings = read.into_iter().map(|set| {
            let place = set.value.as_ref().map(|(_, scope)| {
                let source = match set.setting.sensitive {
                    true => "Keychain".to_owned(),
                    false => {
                        one.values.file(*scope).map(|file| file.display().to_string()).unwrap_or_default()
                    }
                };
                (scope.word(), source)
            });
            let hidden = set.setting.sensitive;
            SettingRow {
                name: set.setting.name,
                variable: set.setting.variable,
                sensitive: hidden,
                value: set
                    .value
                    .map(|(value, _)| if hidden { "***".to_owned() } else { value.reveal().to_owned() }),
                place,
            }
        });
        ExtensionRow {
            name: name.clone(),
            version: one.extension.version.clone(),
            description: one.manifest.description.clone(),
            id: one.id.clone(),
            name_hash: sha256_hex(name.as_bytes()),
            path: one.extension.path.display().to_string(),
            origin: one.metadata.as_ref().map(|metadata| Value::Object(metadata.to_json())),
            of_project: one.origin == Origin::Project,
            active: one.active,
            enabled_for_user: rules.is_enabled(name, &self.places.user_home),
            enabled_here: rules.is_enabled(name, &self.places.workspace),
            context_files: one.context_files().0.iter().map(|file| file.display().to_string()).collect(),
            servers: one.manifest.servers().map(|(name, entry)| (name.to_owned(), entry.clone())).collect(),
            excluded_tools: one.manifest.excluded_tools(),
            skills: consent::skills_of(&one.extension.path),
            settings: settings.collect(),
        }
    }
}

/// A warning about an extension whose files have changed since it was installed.
fn changed(integrity: &Integrity<'_>, one: &Installed) -> Option<String> {
    let metadata = one.metadata.as_ref().filter(|metadata| metadata.kind != Kind::Link)?;
    let name = &one.extension.name;
    match integrity.contents(name) {
        Err(error) => Some(format!("Warning: Extension \"{name}\" cannot be checked: {error}")),
        Ok(None) => None,
        Ok(Some(before)) => {
            let changes = before.changes(&one.folder, Depth::Full);
            if !changes.is_empty() {
                return Some(extensions::changed_line(name, &changes.summary()));
            }
            match integrity.verify(name, metadata) {
                IntegrityState::Verified | IntegrityState::Unknown => None,
                IntegrityState::Invalid => Some(extensions::changed_line(name, "its recorded source")),
                IntegrityState::Unchecked(reason) => {
                    Some(format!("Warning: Extension \"{name}\" cannot be checked: {reason}"))
                }
            }
        }
    }
}

/// Shows what the extension contains and asks for consent.
fn agree(text: &str, name: &str, asking: &mut Prompter<'_>) -> Result<(), Failure> {
    if asking.agrees(&format!("{text}\nDo you want to continue?"), true) {
        return Ok(());
    }
    let failure = Failure::new(ExitKind::Failure, format!("Installation cancelled for \"{name}\"."));
    Err(if asking.at_terminal { failure } else { failure.hint("pass `--consent` in a non-interactive run") })
}

fn missing_line(name: &str, missing: &[&str]) -> Option<String> {
    (!missing.is_empty()).then(|| {
        format!(
            "Extension \"{name}\" has missing settings: {}. Please run \"pollux extensions config {name} [setting-name]\" to configure them.",
            missing.join(", ")
        )
    })
}

fn refused(error: &InstallError) -> Failure {
    let failure = Failure::from_error(ExitKind::Failure, error);
    match error {
        InstallError::InTheWay { .. } => failure.hint("remove it, or rename the extension"),
        InstallError::Integrity(error) => match error.hint() {
            Some(hint) => failure.hint(hint),
            None => failure,
        },
        InstallError::SecretLeft(_) => failure.hint(auth::KEYCHAIN_HINT),
        InstallError::Source(_) => {
            failure.hint("use a folder, an archive, a git URL, or owner/repo on GitHub")
        }
        _ => failure,
    }
}
