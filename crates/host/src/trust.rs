//! Folder trust: the question and notes of a run, and the operations behind `pollux trust`.

pub mod difference;
pub mod page;

use std::path::{Path, PathBuf};

use pollux_config::env::Env;
use pollux_config::paths::{Home, same_place};
use pollux_config::settings;
use pollux_config::startup::Start;
use pollux_config::trust::{
    self, Binding, FolderTrust, Inventory, Record, Standing, TrustRequest, TrustRule,
};
use pollux_domain::exit::ExitKind;
use pollux_domain::failure::Failure;
use pollux_domain::time::{Clock, SystemClock};
use pollux_policy::load::integrity;
use serde_json::Value;

use crate::loaded::Loaded;
use crate::request::Request;

/// The current state of a folder.
#[derive(Debug, Clone)]
pub struct View {
    pub folder: PathBuf,
    /// The file that lists trusted folders.
    pub register: PathBuf,
    pub standing: Standing,
    pub inventory: Inventory,
    /// Its content when it was trusted.
    pub record: Option<Record>,
    /// The home directory, whose `.gemini` belongs to the user.
    pub is_home: bool,
}

/// The trust question about an undecided or changed folder, at the start of a conversation.
pub struct Asked {
    view: View,
}

/// The outcome of the trust question.
pub struct TrustDecision {
    pub trusted: bool,
    pub problem: Option<&'static str>,
}

/// Inspects the folder for the question.
pub fn question(folder: &TrustedFolder) -> Result<Asked, Failure> {
    Ok(Asked { view: folder.look()? })
}

impl Asked {
    /// The lines to show: what the folder would run, and what changed.
    pub fn lines(&self) -> Vec<String> {
        let changes = match self.view.standing.trust {
            FolderTrust::Changed => format!("\n{}", difference::text(&self.view)),
            FolderTrust::Trusted | FolderTrust::Untrusted | FolderTrust::Undecided => String::new(),
        };
        format!("{}{changes}", page::question(&self.view)).lines().map(str::to_owned).collect()
    }

    pub(crate) fn is_trusted(&self) -> bool {
        self.view.standing.trust.uses_project()
    }

    /// Whether the folder contains anything that would run.
    pub fn would_run(&self) -> bool {
        self.view.inventory.announcements.iter().any(|said| said.role.runs())
    }

    /// The choices: id and label.
    pub fn answers(&self) -> Vec<(String, String)> {
        let name = |path: Option<&std::path::Path>| {
            path.and_then(std::path::Path::file_name)
                .map(|name| page::visible(&name.to_string_lossy()))
                .unwrap_or_default()
        };
        let folder = self.view.folder.as_path();
        vec![
            ("folder".to_owned(), format!("Trust folder ({})", name(Some(folder)))),
            ("parent".to_owned(), format!("Trust parent folder ({})", name(folder.parent()))),
            ("never".to_owned(), "Don't trust".to_owned()),
        ]
    }

    /// Applies the answer. Without an answer nothing is decided.
    pub fn answered(self, folder: &TrustedFolder, answer: Option<&str>) -> Result<TrustDecision, Failure> {
        let parent = match answer {
            Some("folder") => false,
            Some("parent") => true,
            Some("never") => {
                folder.deny()?;
                return Ok(TrustDecision { trusted: false, problem: None });
            }
            _ => return Ok(TrustDecision { trusted: false, problem: None }),
        };
        let inventory = &self.view.inventory;
        // Trust covers exactly the content that was shown.
        if inventory.excess.is_some() || folder.look()?.inventory.digest != inventory.digest {
            let problem =
                "The folder could not be inspected or has changed in the meantime; it was not trusted.";
            return Ok(TrustDecision { trusted: false, problem: Some(problem) });
        }
        folder.allow(parent, inventory)?;
        Ok(TrustDecision { trusted: folder.look()?.standing.trust.uses_project(), problem: None })
    }
}

/// The changed paths, shortened to one line.
pub fn changed_paths(binding: &Binding) -> String {
    const SHOWN: usize = 3;
    match binding {
        Binding::Changed(paths) => {
            let mut named: Vec<String> = paths.iter().take(SHOWN).map(|path| page::visible(path)).collect();
            if paths.len() > SHOWN {
                named.push(format!("{} more", paths.len() - SHOWN));
            }
            named.join(", ")
        }
        Binding::Unclear(why) => page::visible(why),
        Binding::Unbound | Binding::Same | Binding::FirstUse(_) => String::new(),
    }
}

/// Notes about a folder that was trusted without a content record.
pub fn first_use(start: &Start) -> Vec<String> {
    match &start.first_use {
        None | Some(Ok(0)) => Vec::new(),
        Some(Ok(items)) => {
            accept_policies(&start.home, start.project.root());
            let files = if *items == 1 { "1 file".to_owned() } else { format!("{items} files") };
            vec![format!(
                "First use of this trusted folder: recorded what it can run ({files}). Run `pollux trust show` to list it."
            )]
        }
        Some(Err(error)) => vec![format!(
            "Warning: could not record what this trusted folder can run, so changes will not be detected: {error}"
        )],
    }
}

/// Updates upstream's record of accepted workspace policies to match ours. Only
/// upstream reads it, so a failure changes nothing here.
fn accept_policies(home: &Home, folder: &Path) {
    let policies = folder.join(".gemini").join("policies");
    if policies.is_dir()
        && let Ok(hash) = integrity(&policies)
    {
        let key = format!("workspace:{}", folder.display());
        let _ = settings::set_path(&home.policy_integrity_file(), &[&key], &Value::from(hash));
    }
}

/// The user's home (exit code 52).
pub fn home(env: &Env) -> Result<Home, Failure> {
    Home::locate(env).map_err(|error| Failure::from_error(ExitKind::Config, &error).hint(error.hint()))
}

/// The folder for `pollux trust`; the working directory by default.
pub fn folder(named: Option<&Path>, options: &Request, env: &Env) -> Result<TrustedFolder, Failure> {
    let path =
        named.map_or_else(|| env.cwd().to_path_buf(), |named| env.cwd().join(named).components().collect());
    if !path.is_dir() {
        return Err(Failure::new(ExitKind::Input, format!("folder `{}` not found", path.display())));
    }
    // Resolves `a/..` and links in a typed path; the working directory stays as the shell names it.
    let path = if named.is_some() { path.canonicalize().unwrap_or(path) } else { path };
    Ok(TrustedFolder { home: home(env)?, env: env.clone(), folder: path, skip_trust: options.skip_trust })
}

/// Another folder of a run, by its real path: what it is reached through may lead elsewhere tomorrow.
pub(crate) fn real_folder(path: &Path, loaded: &Loaded) -> TrustedFolder {
    TrustedFolder {
        home: loaded.home.clone(),
        env: loaded.env.clone(),
        folder: path.canonicalize().unwrap_or_else(|_| path.to_owned()),
        skip_trust: false,
    }
}

/// The folder that a command operates on.
pub struct TrustedFolder {
    env: Env,
    home: Home,
    folder: PathBuf,
    skip_trust: bool,
}

impl TrustedFolder {
    fn remember(&self, rule: TrustRule) -> Result<(), Failure> {
        trust::remember(&self.env, &self.home, &self.folder, rule).map_err(|error| {
            let failure = Failure::from_error(ExitKind::Config, &error);
            match error.hint() {
                Some(hint) => failure.hint(hint),
                None => failure,
            }
        })
    }
}

impl TrustedFolder {
    /// Inspects the folder without running, applying or writing anything.
    pub fn look(&self) -> Result<View, Failure> {
        let early = settings::early(&self.env, &self.home)
            .map_err(|error| Failure::from_error(ExitKind::Config, &error))?;
        let request = TrustRequest {
            env: &self.env,
            home: &self.home,
            folder: &self.folder,
            skip_trust: self.skip_trust,
            feature_enabled: early.folder_trust,
        };
        let standing = trust::standing(&request).map_err(|error| {
            Failure::from_error(ExitKind::Config, &error).hint("fix or delete `trustedFolders.json`")
        })?;
        Ok(View {
            folder: self.folder.clone(),
            register: self.home.trusted_folders_file(&self.env),
            standing,
            inventory: trust::take_inventory(&self.home, &self.folder),
            // An unreadable record is reported as part of the trust state.
            record: Record::read(&self.home, &self.folder).ok().flatten(),
            is_home: same_place(&self.folder, self.home.user_home()),
        })
    }

    /// Trusts it, or the folder above it, with exactly this content.
    pub fn allow(&self, parent: bool, agreed: &Inventory) -> Result<(), Failure> {
        if !same_place(&self.folder, self.home.user_home()) {
            // The content record comes first: an entry alone would accept whatever content is there later.
            Record::write(&self.home, agreed, Some(SystemClock.now()))
                .map_err(|error| Failure::from_error(ExitKind::Failure, &error))?;
        }
        self.remember(if parent { TrustRule::Parent } else { TrustRule::Folder })?;
        accept_policies(&self.home, &self.folder);
        Ok(())
    }

    /// Marks it as untrusted, overriding its parent folders.
    pub fn deny(&self) -> Result<(), Failure> {
        self.remember(TrustRule::Never)?;
        let key = format!("workspace:{}", self.folder.display());
        let _ = settings::remove_path(&self.home.policy_integrity_file(), &[&key]);
        Record::forget(&self.home, &self.folder)
            .map_err(|error| Failure::from_error(ExitKind::Failure, &error))
    }
}
