//! What only a conversation knows of the things that can be named in a prompt.

use std::path::PathBuf;
use std::sync::Arc;

use pollux_extend::agents::Registry;
use pollux_extend::commands::Places;
use pollux_extend::skills::Shelf;
use pollux_mcp::Servers;
use pollux_tools::Workspace;

use super::Machine;
use crate::wire::{Conversation, Loaded, agents, custom_commands, extensions, mcp, models};

/// What a conversation offers. Skills, prompts and resources are looked at when they are asked for, so that what is
/// read anew or connects late counts.
#[derive(Clone, Default)]
pub(super) struct Offers {
    pub(super) workspace: Option<Arc<Workspace>>,
    pub(super) commands: Places,
    pub(super) skills: Option<Arc<Shelf>>,
    pub(super) servers: Option<Arc<Servers>>,
    /// Those that are switched off, too.
    pub(super) server_names: Vec<String>,
    pub(super) agents: Arc<Registry>,
    pub(super) extensions: Vec<String>,
    /// Names of models with what they stand for.
    pub(super) models: Vec<(String, String)>,
    /// Where checkpoints are, if they are made.
    pub(super) checkpoints: Option<PathBuf>,
}

impl Conversation {
    /// Tells the desk what can be named from now on.
    pub(crate) fn offer(&self, desk: &Machine, loaded: &Loaded) {
        let named = if mcp::any(loaded) { mcp::named(loaded) } else { Vec::new() };
        desk.set_offers(Offers {
            workspace: Some(Arc::clone(&self.outside.workspace)),
            commands: custom_commands::places(loaded),
            skills: self.outside.skills.clone(),
            servers: self.outside.servers.clone(),
            server_names: named.into_iter().map(|server| server.name).collect(),
            agents: Arc::clone(agents::of(loaded)),
            extensions: extensions::names(loaded),
            models: models(loaded),
            checkpoints: self.keeper.shadow().map(|shadow| shadow.folder().to_path_buf()),
        });
    }
}
