//! The order in which a run finds its home, trust, `.env` files and settings.
//!
//! Nothing that a project brings along is read before the folder's trust is decided.

use std::path::PathBuf;

use crate::dotenv::{DotenvReport, load_dotenv};
use crate::env::Env;
use crate::paths::{Home, Project};
use crate::settings::{self, ArgOverrides, LoadRequest, Migration, Settings, SettingsError};
use crate::trust::{self, FolderTrust, TrustError, TrustReason, TrustRequest};

/// What a run starts with.
#[derive(Debug, Default)]
pub struct StartRequest {
    /// The process's variables and working directory.
    pub env: Env,
    /// The project's root; mostly the working directory.
    pub root: PathBuf,
    /// `--skip-trust`
    pub skip_trust: bool,
    /// `--ignore-env`
    pub ignore_env: bool,
    pub args: ArgOverrides,
    pub migration: Migration,
}

/// Everything that is known before anything runs.
#[derive(Debug)]
pub struct Start {
    /// With what `.env` files added.
    pub env: Env,
    pub home: Home,
    pub project: Project,
    pub trust: FolderTrust,
    pub trust_reason: TrustReason,
    pub dotenv: DotenvReport,
    pub settings: Settings,
}

/// A file that must be corrected first; exit code 52.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    #[error(transparent)]
    Settings(#[from] SettingsError),
    #[error(transparent)]
    Trust(#[from] TrustError),
}

/// Finds and reads everything, in the safe order.
pub fn start(request: StartRequest) -> Result<Start, StartError> {
    let StartRequest { mut env, root, skip_trust, ignore_env, args, migration } = request;
    let home = Home::locate(&env);
    let project = Project::locate(&home, &root);
    let feature_enabled = settings::early(&env, &home)?.folder_trust;
    let request =
        TrustRequest { env: &env, home: &home, folder: project.root(), skip_trust, feature_enabled };
    let (trust, trust_reason) = trust::decide(&request)?;
    let mut options = settings::dotenv_options(&env, &home, project.root(), trust.for_project())?;
    options.ignore_local |= ignore_env;
    let dotenv = load_dotenv(&mut env, &home, project.root(), trust.for_project(), &options);
    let settings = settings::load(&LoadRequest {
        env: &env,
        home: &home,
        project_root: project.root(),
        trust: trust.for_project(),
        args,
        migration,
    })?;
    Ok(Start { env, home, project, trust, trust_reason, dotenv, settings })
}

#[cfg(test)]
mod tests;
