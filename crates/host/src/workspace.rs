//! The folders of a run and the context files in them.

use std::path::Path;
use std::sync::Arc;

use pollux_domain::exit::ExitKind;
use pollux_domain::failure::Failure;
use pollux_extend::context::{ContextFiles, ContextFolders};
use pollux_tools::{Workspace, WorkspaceSetup, check_added_directories};

use super::Loaded;

pub fn workspace(loaded: &Loaded) -> Result<Workspace, Failure> {
    let workspace = Workspace::open(&WorkspaceSetup {
        root: loaded.project.root().to_path_buf(),
        include_directories: loaded.groups.context.include_directories.clone(),
        project_temp: loaded.project.temp_dir().to_path_buf(),
        gemini_dir: loaded.home.gemini_dir().to_path_buf(),
        user_home: loaded.home.user_home().to_path_buf(),
    })
    .map_err(|error| Failure::from_error(ExitKind::Input, &error))?;
    Ok(workspace.seen_through(loaded.client_files.as_ref().map(|files| Arc::clone(&files.0))))
}

/// Checks the number of directories that a flag or a command adds (exit code 42).
pub(crate) fn check_directories(given: &[String]) -> Result<(), Failure> {
    check_added_directories(given).map_err(|error| Failure::from_error(ExitKind::Input, &error))
}

pub fn context_files(loaded: &Loaded, workspace: &Workspace) -> ContextFiles {
    let places = ContextFolders {
        gemini_dir: loaded.home.gemini_dir().to_path_buf(),
        project_temp: loaded.project.temp_dir().to_path_buf(),
        roots: workspace.directories().to_vec(),
        trusted: loaded.trust.uses_project(),
        homes: [Some(loaded.home.user_home()), loaded.env.non_empty("HOME").map(Path::new)]
            .into_iter()
            .flatten()
            .map(Path::to_path_buf)
            .collect(),
    };
    ContextFiles::new(places, &loaded.groups.context)
}
