//! The built-in tools: files, search, edits, the shell, the web and the model's notes.
//!
//! Owns: the workspace and its path check, ignore rules, encodings, and the results that tools return to the
//! model.
//! Does not own: whether a call may run (policy), scheduling and truncating long results (`agent`), child
//! processes (`exec`).
//! Start at [`builtin`]; each tool is in the file named after it. Tools that need a model, the network or a
//! user-defined command have their own constructors. [`read_many`] implements `@path` mentions.

mod arguments;
mod background;
mod citation;
mod diff;
mod discovered;
mod encoding;
mod file_content;
mod file_kind;
mod file_scope;
mod get_internal_docs;
mod glob;
mod google_web_search;
mod grep_search;
mod html_text;
mod ignore_rules;
mod list_directory;
mod omission;
mod path_list;
mod read_file;
mod read_many_files;
mod replace;
mod run_shell_command;
mod sandbox_slot;
mod save_memory;
mod shown;
mod untrusted;
mod visible_files;
mod walk;
mod web_fetch;
mod withheld;
mod workspace;
mod write_file;
mod write_todos;

use std::path::PathBuf;
use std::sync::Arc;

use pollux_config::groups::{FileFiltering, Tools};
use pollux_domain::model::ModelClient;
use pollux_domain::terminals::ClientTerminals;
use pollux_domain::time::Clock;
use pollux_domain::tool::Tool;
use pollux_exec::background::Background;
use pollux_net::client::ClientError;

pub use discovered::{Discovered, DiscoveryError, DiscoverySetup, UnclosedQuote, discover};
pub use path_list::{list_paths, path_list_key};
pub use read_many_files::{ReadMany, ReadManyError, ReadManyRequest, Skipped, read_many};
pub use sandbox_slot::SandboxSlot;
pub use visible_files::VisibleFiles;
pub use web_fetch::WebFetchSetup;
pub use workspace::{
    MAX_EXTRA_DIRECTORIES, Workspace, WorkspaceError, WorkspaceSetup, check_added_directories, real_path,
};

use file_scope::FileScope;

/// The dependencies of the tools.
#[derive(Clone)]
pub struct ToolSetup {
    pub workspace: Arc<Workspace>,
    pub filtering: FileFiltering,
    pub tools: Tools,
    /// The complete environment of shell commands; see `pollux_exec::environment::for_command`.
    pub child_env: Vec<(String, String)>,
    /// Holds processes that outlive their call; the owner of the run shuts it down.
    pub background: Arc<Background>,
    /// The borders shell commands run in.
    pub sandbox: SandboxSlot,
    pub clock: Arc<dyn Clock>,
    /// Terminals of the program that drives the session, for commands without a sandbox.
    pub client_terminals: Option<Arc<dyn ClientTerminals>>,
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

/// The tool that reads web pages.
pub fn web_fetch(setup: WebFetchSetup) -> Result<Arc<dyn Tool>, ClientError> {
    Ok(Arc::new(web_fetch::WebFetch::new(setup)?))
}

/// The tool that searches the web through a model.
pub fn google_web_search(model: Arc<dyn ModelClient>) -> Arc<dyn Tool> {
    Arc::new(google_web_search::GoogleWebSearch::new(model))
}

/// The tool that keeps facts in `file`, which is `GEMINI.md` in the user's own folder.
pub fn save_memory(file: PathBuf) -> Arc<dyn Tool> {
    Arc::new(save_memory::SaveMemory::new(file))
}

/// The tool that shows the list of subtasks.
pub fn write_todos() -> Arc<dyn Tool> {
    Arc::new(write_todos::WriteTodos::new())
}

/// The tool that reads the handbook; not among the main tools, as upstream has it.
pub fn get_internal_docs() -> Arc<dyn Tool> {
    Arc::new(get_internal_docs::GetInternalDocs::new())
}
