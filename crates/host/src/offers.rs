//! Completion candidates for prompts that only a running conversation knows.

use std::path::PathBuf;
use std::sync::Arc;

use pollux_extend::agents::Registry;
use pollux_extend::commands::CommandFolders;
use pollux_extend::skills::SkillRegistry;
use pollux_mcp::Servers;
use pollux_tools::Workspace;

use crate::{Conversation, Loaded, agents, custom_commands, extensions, mcp, models};

/// What a conversation offers for completion. Skills, prompts and resources are read on demand, so that reloaded and
/// late ones are included.
#[derive(Clone, Default)]
pub struct Offers {
    pub workspace: Option<Arc<Workspace>>,
    pub commands: CommandFolders,
    pub skills: Option<Arc<SkillRegistry>>,
    pub servers: Option<Arc<Servers>>,
    /// Including disabled ones.
    pub server_names: Vec<String>,
    pub agents: Arc<Registry>,
    pub extensions: Vec<String>,
    /// Model names with descriptions.
    pub models: Vec<(String, String)>,
    /// The checkpoint folder, if checkpoints are enabled.
    pub checkpoints: Option<PathBuf>,
}

impl Conversation {
    /// The current offers.
    pub fn offers(&self, loaded: &Loaded) -> Offers {
        let named = if mcp::any(loaded) { mcp::named(loaded) } else { Vec::new() };
        Offers {
            workspace: Some(Arc::clone(&self.services.workspace)),
            commands: custom_commands::places(loaded),
            skills: self.services.skills.clone(),
            servers: self.services.servers.clone(),
            server_names: named.into_iter().map(|server| server.name).collect(),
            agents: Arc::clone(agents::of(loaded)),
            extensions: extensions::names(loaded),
            models: models(loaded),
            checkpoints: self.change_recorder.shadow().map(|shadow| shadow.folder().to_path_buf()),
        }
    }
}
