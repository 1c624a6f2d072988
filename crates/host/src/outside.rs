//! What a conversation reaches of the machine, and what it makes of a prompt with it.

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
use super::prompt::{self, Expanded};
use super::{Loaded, agents, mcp, skills, workspace};

/// What a conversation reaches of the machine.
pub struct Outside {
    pub workspace: Arc<Workspace>,
    pub background: Arc<Background>,
    /// They connect while everything else goes on.
    pub servers: Option<Arc<Servers>>,
    /// Another conversation follows, with the same servers.
    pub(crate) cleared: AtomicBool,
    kept: Kept,
    pub commands: Commands,
    /// `None` where they are switched off.
    pub skills: Option<Arc<SkillRegistry>>,
    /// Lines about skills and servers that cannot be used.
    pub(crate) unused: Vec<String>,
}

impl Outside {
    pub(crate) fn open(loaded: &Loaded, manner: Manner) -> Result<Self, Failure> {
        let workspace = Arc::new(workspace::workspace(loaded)?);
        let background = Arc::new(Background::new(loaded.home.tmp_dir().join("background-processes")));
        let interactive = manner == Manner::Interactive;
        let (servers, mut unused) = mcp::start(loaded, workspace.directories(), interactive);
        let (skills, wrong) = skills::shelf(loaded, &workspace);
        unused.extend(wrong);
        let kept = loaded.servers.clone();
        let commands = Commands::default();
        Ok(Self {
            workspace,
            background,
            servers,
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
        let mut expanded = self.expand_files(prompt, loaded, cancel).await?;
        if let Ok((parts, _)) = &mut expanded {
            parts.extend(agents::note(prompt, loaded).map(Part::text));
        }
        Some(expanded)
    }

    async fn expand_files(
        &self,
        prompt: &str,
        loaded: &Loaded,
        cancel: &CancellationToken,
    ) -> Option<Result<Expanded, Failure>> {
        let filtering = &loaded.groups.context.filtering;
        let servers = self.servers.as_deref();
        if let Some(shelf) = self.skills.as_deref()
            && let Some((skill, words)) = skills::called(Some(shelf), prompt)
        {
            let (part, words) = match skills::activated(shelf, &skill, words) {
                Ok(activated) => activated,
                Err(failure) => return Some(Err(failure)),
            };
            let expanded = prompt::expand(&words, &self.workspace, filtering, servers, cancel).await?;
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
        tokio::join!(servers, self.background.shutdown());
    }
}

/// Whether a person is there to be asked.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Manner {
    Interactive,
    Headless,
}
