//! Start-up: finds home, trust, `.env` files and settings in a safe order.
//!
//! No project file is read before trust is decided.

use std::path::{Path, PathBuf};

use crate::dotenv::{DotenvReport, load_dotenv};
use crate::env::Env;
use crate::ownership;
use crate::paths::{Home, HomeError, Project};
use crate::project_trust::ProjectTrust;
use crate::settings::{self, ArgOverrides, LoadRequest, Migration, Settings, SettingsError};
use crate::trust::{
    self, Binding, FolderTrust, Record, RecordError, Standing, TrustError, TrustReason, TrustRequest,
};
use pollux_domain::time::Timestamp;

/// What a run starts with.
#[derive(Debug, Default)]
pub struct StartRequest {
    /// The process's variables and working directory.
    pub env: Env,
    /// The project's root; mostly the working directory.
    pub root: PathBuf,
    /// `--skip-trust`
    pub skip_trust: bool,
    /// The project's settings and `.env` files are not read, trusted or not.
    pub ignore_project: bool,
    /// `--ignore-env`
    pub ignore_env: bool,
    pub args: ArgOverrides,
    pub migration: Migration,
    /// Kept with what a folder held when it was first used.
    pub now: Option<Timestamp>,
}

/// The result of start-up.
#[derive(Debug)]
pub struct Start {
    /// With what `.env` files added.
    pub env: Env,
    pub home: Home,
    pub project: Project,
    pub trust: FolderTrust,
    pub trust_reason: TrustReason,
    /// How the folder compares with what was trusted.
    pub binding: Binding,
    /// Of a folder in its first use under trust: how many pieces it contains, or why they were not kept.
    pub first_use: Option<Result<usize, RecordError>>,
    pub dotenv: DotenvReport,
    pub settings: Settings,
    /// Lines about files of the home that others could read or write, or that cannot be read.
    pub home_notes: Vec<String>,
}

/// A file that must be corrected first; exit code 52.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    #[error(transparent)]
    Home(#[from] HomeError),
    #[error(transparent)]
    Settings(#[from] SettingsError),
    #[error(transparent)]
    Trust(#[from] TrustError),
}

/// Finds and reads everything, in the safe order.
pub fn start(request: StartRequest) -> Result<Start, StartError> {
    let StartRequest { mut env, root, skip_trust, ignore_project, ignore_env, args, migration, now } =
        request;
    let home = Home::locate(&env)?;
    let mut home_notes = ownership::tighten(&home);
    let project = Project::locate(&home, &root);
    let feature_enabled = settings::early(&env, &home)?.folder_trust;
    let request =
        TrustRequest { env: &env, home: &home, folder: project.root(), skip_trust, feature_enabled };
    let Standing { trust, reason: trust_reason, binding } = trust::standing(&request)?;
    let for_project = if ignore_project { ProjectTrust::Untrusted } else { trust.for_project() };
    let first_use = match &binding {
        Binding::FirstUse(inventory) => {
            Some(Record::write(&home, inventory, now).map(|()| inventory.items.len()))
        }
        Binding::Unbound | Binding::Same | Binding::Changed(_) | Binding::Unclear(_) => None,
    };
    let mut options = settings::dotenv_options(&env, &home, project.root(), for_project)?;
    options.ignore_local |= ignore_env;
    options.border = trust::refused_above(&env, &home, project.root()).unwrap_or_else(|error| {
        home_notes.push(format!(
            "Warning: the register of trusted folders cannot be read, so no `.env` file above this folder is used: {error}"
        ));
        project.root().parent().map(Path::to_owned)
    });
    let mut own_env = env.clone();
    load_dotenv(&mut own_env, &home, home.user_home(), ProjectTrust::Untrusted, &options);
    let dotenv = load_dotenv(&mut env, &home, project.root(), for_project, &options);
    let settings = settings::load(&LoadRequest {
        env: &env,
        offered: &dotenv.offered,
        own_env: &own_env,
        home: &home,
        project_root: project.root(),
        trust: for_project,
        args,
        migration,
    })?;
    Ok(Start { env, home, project, trust, trust_reason, binding, first_use, dotenv, settings, home_notes })
}

#[cfg(test)]
mod tests;
