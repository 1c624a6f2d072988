//! Trust in a folder: what a run says about it, and the folder behind `pollux trust`.

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

use crate::request::Request;

/// A folder as it is now.
#[derive(Debug, Clone)]
pub struct View {
    pub folder: PathBuf,
    /// The file that lists trusted folders.
    pub register: PathBuf,
    pub standing: Standing,
    pub inventory: Inventory,
    /// What it held when it was agreed to.
    pub record: Option<Record>,
    /// It is the home, whose `.gemini` is the user's own.
    pub is_home: bool,
}

/// What a person who begins a conversation is asked about a folder that nobody decided on, or that changed.
pub struct Asked {
    view: View,
}

/// What came of it.
pub struct Settled {
    pub trusted: bool,
    pub problem: Option<&'static str>,
}

/// Looks at the folder for the question.
pub fn question(folder: &TrustedFolder) -> Result<Asked, Failure> {
    Ok(Asked { view: folder.look()? })
}

impl Asked {
    /// What the folder would run, and what changed.
    pub fn lines(&self) -> Vec<String> {
        let changes = match self.view.standing.trust {
            FolderTrust::Changed => format!("\n{}", difference::text(&self.view)),
            FolderTrust::Trusted | FolderTrust::Untrusted | FolderTrust::Undecided => String::new(),
        };
        format!("{}{changes}", page::text(&self.view)).lines().map(str::to_owned).collect()
    }

    /// Whether trust would let something of the folder run.
    pub fn would_run(&self) -> bool {
        self.view.inventory.announcements.iter().any(|said| said.role.runs())
    }

    /// The answers: a word, and what it means.
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

    /// Carries the answer out. No answer decides nothing.
    pub fn answered(self, folder: &TrustedFolder, answer: Option<&str>) -> Result<Settled, Failure> {
        let parent = match answer {
            Some("folder") => false,
            Some("parent") => true,
            Some("never") => {
                folder.deny()?;
                return Ok(Settled { trusted: false, problem: None });
            }
            _ => return Ok(Settled { trusted: false, problem: None }),
        };
        let inventory = &self.view.inventory;
        // What was agreed to is what was on the screen.
        if inventory.excess.is_some() || folder.look()?.inventory.digest != inventory.digest {
            let problem = "The folder cannot be looked over or changed meanwhile; nothing was agreed to.";
            return Ok(Settled { trusted: false, problem: Some(problem) });
        }
        folder.allow(parent, inventory)?;
        Ok(Settled { trusted: folder.look()?.standing.trust.uses_project(), problem: None })
    }
}

/// The paths that changed, as far as they fit on a line.
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

/// Lines about a folder that was trusted without anybody having kept what it held.
pub fn first_use(start: &Start) -> Vec<String> {
    match &start.first_use {
        None | Some(Ok(0)) => Vec::new(),
        Some(Ok(items)) => {
            accept_policies(&start.home, start.project.root());
            let files = if *items == 1 { "1 file".to_owned() } else { format!("{items} files") };
            vec![format!(
                "This trusted folder is used for the first time: what it may run is kept as it is now ({files}). `pollux trust show` lists it."
            )]
        }
        Some(Err(error)) => vec![format!(
            "Warning: what this trusted folder may run could not be kept, so that a change will not be noticed: {error}"
        )],
    }
}

/// Keeps upstream's register of accepted workspace policies in step, so that it agrees with ours. Only
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

/// The user's home (52).
pub fn home(env: &Env) -> Result<Home, Failure> {
    Home::locate(env).map_err(|error| Failure::from_error(ExitKind::Config, &error).hint(error.hint()))
}

/// The folder that `pollux trust` is about; the working directory unless one is named.
pub fn folder(named: Option<&Path>, options: &Request, env: &Env) -> Result<TrustedFolder, Failure> {
    let path = named.map_or_else(|| env.cwd().to_path_buf(), |named| env.cwd().join(named));
    if !path.is_dir() {
        return Err(Failure::new(ExitKind::Input, format!("there is no folder `{}`", path.display())));
    }
    // `a/..` and links in a path that was typed; a working directory stays as the shell names it.
    let path = if named.is_some() { path.canonicalize().unwrap_or(path) } else { path };
    Ok(TrustedFolder { home: home(env)?, env: env.clone(), folder: path, skip_trust: options.skip_trust })
}

/// A folder that the command is about.
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
    /// Looks at it; runs, applies and writes nothing.
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
            Failure::from_error(ExitKind::Config, &error)
                .hint("correct or remove the file that lists trusted folders")
        })?;
        Ok(View {
            folder: self.folder.clone(),
            register: self.home.trusted_folders_file(&self.env),
            standing,
            inventory: trust::take_inventory(&self.home, &self.folder),
            // A record that cannot be read is part of the standing.
            record: Record::read(&self.home, &self.folder).ok().flatten(),
            is_home: same_place(&self.folder, self.home.user_home()),
        })
    }

    /// Trusts it, or the folder above it, with exactly this content.
    pub fn allow(&self, parent: bool, agreed: &Inventory) -> Result<(), Failure> {
        if !same_place(&self.folder, self.home.user_home()) {
            // First what is agreed to: a line in the register alone would take the content as it is later.
            Record::write(&self.home, agreed, Some(SystemClock.now()))
                .map_err(|error| Failure::from_error(ExitKind::Failure, &error))?;
        }
        self.remember(if parent { TrustRule::Parent } else { TrustRule::Folder })?;
        accept_policies(&self.home, &self.folder);
        Ok(())
    }

    /// Distrusts it, whatever is said about the folders above.
    pub fn deny(&self) -> Result<(), Failure> {
        self.remember(TrustRule::Never)?;
        let key = format!("workspace:{}", self.folder.display());
        let _ = settings::remove_path(&self.home.policy_integrity_file(), &[&key]);
        Record::forget(&self.home, &self.folder)
            .map_err(|error| Failure::from_error(ExitKind::Failure, &error))
    }
}
