//! MCP servers declared by agents. They obey the same rules as configured ones and live as long as one sub-agent run.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;

use pollux_agent::{OwnServers, StartedServers};
use pollux_config::server_name::same_server;
use pollux_domain::approval::Person;
use pollux_domain::tool::ToolSource;
use pollux_domain::{BoxFuture, JsonObject};
use pollux_exec::background::Background;
use pollux_extend::agents::{Kind, Origin, Registry};
use pollux_mcp::{Owners, Report, Servers, Setup, Status};
use serde_json::Value;
use tokio_util::sync::CancellationToken;

use super::{Loaded, mcp, server_names};

/// The servers of all enabled agents, by agent name. Nothing is started.
pub(super) fn of(
    loaded: &Loaded,
    registry: &Registry,
    roots: &[PathBuf],
    background: &Arc<Background>,
    interactive: bool,
) -> BTreeMap<String, Arc<dyn OwnServers>> {
    let mut all: BTreeMap<String, Arc<dyn OwnServers>> = BTreeMap::new();
    let lent = loaded.lent_env();
    for agent in registry.enabled() {
        let Kind::Local(local) = &agent.kind else { continue };
        if local.mcp_servers.is_empty() {
            continue;
        }
        let env = if is_users_own(&agent.origin) { &loaded.env } else { &lent };
        let owners = owners(loaded, &agent.origin, &local.mcp_servers);
        let (configs, problems) = mcp::of_agent(loaded, &agent.name, &local.mcp_servers, env, &owners);
        let setup = (!configs.is_empty()).then(|| Setup {
            owners,
            ..mcp::setup(loaded, configs, roots.to_vec(), background, interactive)
        });
        let servers = ServersOfAgent { agent: agent.name.clone(), setup, problems };
        all.insert(agent.name.clone(), Arc::new(servers));
    }
    all
}

/// Whose servers there are for one agent.
fn owners(loaded: &Loaded, origin: &Origin, own: &JsonObject) -> Owners {
    let mut owners = server_names::owners(loaded);
    let list = match origin {
        Origin::Builtin | Origin::User(_) => &mut owners.of_user,
        Origin::Project(_) => &mut owners.of_project,
        Origin::Extension { .. } => return owners,
    };
    list.extend(own.keys().cloned());
    owners
}

/// Whether the user wrote the agent, and not a project or an extension.
pub(super) fn is_users_own(origin: &Origin) -> bool {
    match origin {
        Origin::Builtin | Origin::User(_) => true,
        Origin::Project(_) | Origin::Extension { .. } => false,
    }
}

/// Servers that the user trusts in their own agents; agents from elsewhere cannot reuse these names.
pub(super) fn trusted(registry: &Registry) -> Vec<String> {
    let (mut trusted, mut others) = (Vec::new(), Vec::new());
    for agent in registry.enabled() {
        let Kind::Local(local) = &agent.kind else { continue };
        for (name, entry) in &local.mcp_servers {
            let own = matches!(agent.origin, Origin::User(_));
            let vouched = own && entry.get("trust") == Some(&Value::Bool(true));
            if vouched { trusted.push(name.clone()) } else { others.push(name.as_str()) }
        }
    }
    trusted.retain(|name| !others.iter().any(|other| same_server(other, name)));
    trusted
}

struct ServersOfAgent {
    agent: String,
    /// `None` if no server may be started.
    setup: Option<Setup>,
    problems: Vec<String>,
}

impl OwnServers for ServersOfAgent {
    fn start<'a>(
        &'a self,
        person: Option<Arc<dyn Person>>,
        cancel: &'a CancellationToken,
    ) -> BoxFuture<'a, StartedServers> {
        Box::pin(async move {
            let mut problems = self.problems.clone();
            let Some(setup) = &self.setup else { return StartedServers::none(problems) };
            let servers = Arc::new(Servers::start(setup.clone()));
            if let Some(person) = person {
                servers.introduce(person);
            }
            servers.settled(cancel).await;
            problems.extend(servers.reports().into_iter().filter_map(|report| self.problem(report)));
            let ending = Arc::clone(&servers);
            StartedServers {
                tools: Some(servers),
                problems,
                end: Box::pin(async move { ending.shutdown().await }),
            }
        })
    }
}

impl ServersOfAgent {
    fn problem(&self, report: Report) -> Option<String> {
        let why = match report.status {
            Status::Connected => return None,
            // The tools of the last connection are declared at once; calls wait for the server.
            Status::Connecting if !report.tools.is_empty() => return None,
            Status::Connecting => "still starting".to_owned(),
            Status::Disconnected => report.problem.unwrap_or_default(),
        };
        Some(format!("MCP server '{}' of agent '{}': {why}", report.name, self.agent))
    }
}
