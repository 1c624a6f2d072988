//! What only a conversation knows of the things that can be named in a prompt.

use std::path::PathBuf;
use std::sync::Arc;

use pollux_extend::agents::Registry;
use pollux_extend::commands::Places;
use pollux_extend::skills::SkillRegistry;
use pollux_mcp::Servers;
use pollux_tools::Workspace;

use crate::{Conversation, Loaded, agents, custom_commands, extensions, mcp, models};

/// What a conversation offers. Skills, prompts and resources are looked at when they are asked for, so that what is
/// read anew or connects late counts.
#[derive(Clone, Default)]
pub struct Offers {
    pub workspace: Option<Arc<Workspace>>,
    pub commands: Places,
    pub skills: Option<Arc<SkillRegistry>>,
    pub servers: Option<Arc<Servers>>,
    /// Those that are switched off, too.
    pub server_names: Vec<String>,
    pub agents: Arc<Registry>,
    pub extensions: Vec<String>,
    /// Names of models with what they stand for.
    pub models: Vec<(String, String)>,
    /// Where checkpoints are, if they are made.
    pub checkpoints: Option<PathBuf>,
}

impl Conversation {
    /// What can be named from now on.
    pub fn offers(&self, loaded: &Loaded) -> Offers {
        let named = if mcp::any(loaded) { mcp::named(loaded) } else { Vec::new() };
        Offers {
            workspace: Some(Arc::clone(&self.outside.workspace)),
            commands: custom_commands::places(loaded),
            skills: self.outside.skills.clone(),
            servers: self.outside.servers.clone(),
            server_names: named.into_iter().map(|server| server.name).collect(),
            agents: Arc::clone(agents::of(loaded)),
            extensions: extensions::names(loaded),
            models: models(loaded),
            checkpoints: self.keeper.shadow().map(|shadow| shadow.folder().to_path_buf()),
        }
    }
}
