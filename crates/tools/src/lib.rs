//! The built-in tools: files, search, edits and the shell.
//!
//! Owns: the workspace and its access test, ignore rules, encodings, and what each tool says to the model.
//! Does not own: whether a call may run (policy), scheduling and cutting long results (`agent`), child
//! processes (`exec`).
//! Start at [`builtin`]; each tool is one file named after it. [`read_many`] serves `@path` mentions.

mod arguments;
mod background;
mod diff;
mod encoding;
mod file_content;
mod file_kind;
mod file_scope;
mod glob;
mod grep_search;
mod ignore_rules;
mod list_directory;
mod omission;
mod read_file;
mod read_many_files;
mod replace;
mod run_shell_command;
mod untrusted;
mod walk;
mod workspace;
mod write_file;

use std::sync::Arc;

use pollux_config::groups::{FileFiltering, Tools};
use pollux_domain::time::Clock;
use pollux_domain::tool::Tool;
use pollux_exec::background::Background;

pub use read_many_files::{ReadMany, ReadManyError, ReadManyRequest, Skipped, read_many};
pub use workspace::{MAX_EXTRA_DIRECTORIES, Workspace, WorkspaceError, WorkspaceSetup};

use file_scope::FileScope;

/// What the tools work with.
#[derive(Clone)]
pub struct ToolSetup {
    pub workspace: Arc<Workspace>,
    pub filtering: FileFiltering,
    pub tools: Tools,
    /// The whole environment of shell commands; see `pollux_exec::environment::for_command`.
    pub child_env: Vec<(String, String)>,
    /// Holds what outlives its call; whoever owns the run shuts it down.
    pub background: Arc<Background>,
    pub clock: Arc<dyn Clock>,
}

/// All built-in tools, in upstream's order of registration.
pub fn builtin(setup: ToolSetup) -> Vec<Arc<dyn Tool>> {
    let scope = Arc::new(FileScope::new(&setup));
    vec![
        Arc::new(list_directory::ListDirectory::new(Arc::clone(&scope))),
        Arc::new(read_file::ReadFile::new(Arc::clone(&scope))),
        Arc::new(grep_search::GrepSearch::new(Arc::clone(&scope))),
        Arc::new(glob::Glob::new(Arc::clone(&scope))),
        Arc::new(replace::Replace::new(Arc::clone(&scope))),
        Arc::new(write_file::WriteFile::new(Arc::clone(&scope))),
        Arc::new(run_shell_command::RunShellCommand::new(&setup)),
        Arc::new(background::ListBackgroundProcesses::new(Arc::clone(&setup.background))),
        Arc::new(background::ReadBackgroundOutput::new(Arc::clone(&setup.background))),
    ]
}

/// The tool that reads many files; not among [`builtin`], as upstream has it.
pub fn read_many_files(setup: &ToolSetup) -> Arc<dyn Tool> {
    Arc::new(read_many_files::ReadManyFiles::new(Arc::new(FileScope::new(setup))))
}
