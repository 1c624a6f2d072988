//! The services of a conversation: workspace, MCP servers, skills and custom commands, and prompt expansion with them.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use pollux_domain::content::Part;
use pollux_domain::failure::Failure;
use pollux_exec::background::Background;
use pollux_extend::skills::SkillRegistry;
use pollux_mcp::Servers;
use pollux_tools::Workspace;
use tokio_util::sync::CancellationToken;

use super::custom_commands::Commands;
use super::kept_servers::Kept;
use super::prompt::{self, Expanded, PromptText};
use super::{Loaded, agents, editor, mcp, skills, workspace};
use crate::editor::Companion;

/// The services that a conversation uses.
pub struct Services {
    pub workspace: Arc<Workspace>,
    pub background: Arc<Background>,
    /// They connect in the background.
    pub servers: Option<Arc<Servers>>,
    /// The companion of the user's editor; only where a user can be asked.
    pub editor: Option<Arc<Companion>>,
    /// Another conversation follows and reuses the servers.
    pub(crate) cleared: AtomicBool,
    kept: Kept,
    pub commands: Commands,
    /// `None` if disabled.
    pub skills: Option<Arc<SkillRegistry>>,
    /// Notes about unusable skills and servers.
    pub(crate) unused: Vec<String>,
}

impl Services {
    pub(crate) fn open(loaded: &Loaded, manner: Interaction) -> Result<Self, Failure> {
        let interactive = manner == Interaction::Interactive;
        let mut services =
            Self::with_servers(loaded, |workspace| mcp::start(loaded, workspace.directories(), interactive))?;
        if interactive {
            services.editor = Some(editor::companion(loaded, &services.workspace, &services.background));
        }
        Ok(services)
    }

    /// What a folder offers to a front end whose session runs in another process: no servers.
    pub(crate) fn of_folder(loaded: &Loaded) -> Result<Self, Failure> {
        Self::with_servers(loaded, |_| (None, Vec::new()))
    }

    fn with_servers(
        loaded: &Loaded,
        start: impl FnOnce(&Workspace) -> (Option<Arc<Servers>>, Vec<String>),
    ) -> Result<Self, Failure> {
        let workspace = Arc::new(workspace::workspace(loaded)?);
        let background = Arc::new(Background::guarded(loaded.home.tmp_dir().join("background-processes")));
        let (servers, mut unused) = start(&workspace);
        let (skills, wrong) = skills::shelf(loaded, &workspace);
        unused.extend(wrong);
        let kept = loaded.servers.clone();
        let commands = Commands::default();
        Ok(Self {
            workspace,
            background,
            servers,
            editor: None,
            cleared: AtomicBool::new(false),
            kept,
            commands,
            skills,
            unused,
        })
    }

    pub async fn expand(
        &self,
        prompt: &str,
        loaded: &Loaded,
        cancel: &CancellationToken,
    ) -> Option<Result<Expanded, Failure>> {
        self.expand_text(PromptText::typed(prompt), loaded, cancel).await
    }

    pub(crate) async fn expand_text(
        &self,
        prompt: PromptText<'_>,
        loaded: &Loaded,
        cancel: &CancellationToken,
    ) -> Option<Result<Expanded, Failure>> {
        let mut expanded = self.expand_files(prompt, loaded, cancel).await?;
        if let Ok((parts, _)) = &mut expanded {
            parts.extend(agents::note(prompt.text, loaded).map(Part::text));
        }
        Some(expanded)
    }

    async fn expand_files(
        &self,
        prompt: PromptText<'_>,
        loaded: &Loaded,
        cancel: &CancellationToken,
    ) -> Option<Result<Expanded, Failure>> {
        let filtering = &loaded.groups.context.filtering;
        let servers = self.servers.as_deref();
        if let Some(shelf) = self.skills.as_deref().filter(|_| prompt.may_be_command)
            && let Some((skill, words)) = skills::called(Some(shelf), prompt.text)
        {
            let (part, words) = match skills::activated(shelf, &skill, words) {
                Ok(activated) => activated,
                Err(failure) => return Some(Err(failure)),
            };
            let piped = if prompt.piped == 0 { 0 } else { words.len() };
            let words = PromptText { text: &words, piped, may_be_command: true };
            let expanded = prompt::expand(words, &self.workspace, filtering, servers, cancel).await?;
            return Some(skills::before(part, expanded));
        }
        prompt::expand(prompt, &self.workspace, filtering, servers, cancel).await
    }

    pub(crate) async fn shutdown(&self) {
        let servers = async {
            match &self.servers {
                Some(servers) if self.cleared.load(Ordering::Relaxed) => self.kept.put(Arc::clone(servers)),
                Some(servers) => servers.shutdown().await,
                None => {}
            }
        };
        let editor = async {
            if let Some(companion) = &self.editor {
                companion.disconnect().await;
            }
        };
        tokio::join!(servers, editor, self.background.shutdown());
    }
}

/// Whether a user can be asked.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Interaction {
    Interactive,
    Headless,
}
