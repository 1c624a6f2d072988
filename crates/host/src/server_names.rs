//! Names of configured MCP servers, and who configured them.

use pollux_config::server_name::same_server;
use pollux_config::settings::Layer;
use pollux_extend::extension::Origin;
use pollux_mcp::Owners;
use pollux_policy::qualified_tool_name;
use serde_json::Value;

use super::{Loaded, extensions};

/// The configured MCP servers, including those of extensions.
pub fn server_names(loaded: &Loaded) -> Vec<String> {
    let servers = loaded.settings.section("mcpServers").as_object().into_iter().flatten();
    let mut names: Vec<String> = servers.map(|(name, _)| name.clone()).collect();
    names.extend(extensions::server_names(loaded));
    names.sort();
    names.dedup();
    names
}

/// Whose the configured servers are.
pub(crate) fn owners(loaded: &Loaded) -> Owners {
    let mut owners = Owners::default();
    let is_projects = |key: &str| loaded.settings.origin(key).layer == Layer::Project;
    let of_extensions: Vec<(String, bool)> = extensions::active(loaded)
        .flat_map(|one| {
            let of_project = one.origin == Origin::Project;
            one.manifest.servers().map(move |(name, _)| (name.to_owned(), of_project))
        })
        .collect();
    let mut add = |name: &str, of_project: bool| {
        let list = if of_project { &mut owners.of_project } else { &mut owners.of_user };
        if !list.iter().any(|known| known == name) {
            list.push(name.to_owned());
        }
    };
    for (name, _) in loaded.settings.section("mcpServers").as_object().into_iter().flatten() {
        let of_project = is_projects(&format!("mcpServers.{name}"));
        // A project can only tune the server of an extension.
        if !(of_project && of_extensions.iter().any(|(known, of_project)| known == name && !of_project)) {
            add(name, of_project);
        }
    }
    if loaded.settings.get("mcp.serverCommand").is_some_and(|(command, _)| command.is_string()) {
        add("mcp", is_projects("mcp.serverCommand"));
    }
    of_extensions.iter().filter(|(_, of_project)| *of_project).for_each(|(name, _)| add(name, true));
    loaded.client_servers.iter().for_each(|(name, _)| add(name, false));
    let required = loaded.settings.get("admin.mcp.requiredConfig").map(|(required, _)| required);
    required.and_then(Value::as_object).into_iter().flatten().for_each(|(name, _)| add(name, false));
    owners.of_project.retain(|name| !owners.of_user.contains(name));
    owners
}

/// Why a server is not used: what the user says of another one, or of that one's tools, would count for it.
pub(crate) fn conflict(owners: &Owners, known: &[String], name: &str) -> Option<String> {
    let is_stronger = |other: &&String| *other != name && owners.order(other) < owners.order(name);
    if let Some(other) = known.iter().filter(is_stronger).find(|other| same_server(other, name)) {
        return Some(format!("rules cannot tell its name from that of the server `{other}`"));
    }
    let start = qualified_tool_name(name, "");
    let others = owners.of_user.iter().filter(|_| !owners.is_of_user(name));
    let mut others = others.filter(|other| start.starts_with(&qualified_tool_name(other, "")));
    others.next().map(|other| format!("its tools would have names of tools of your server `{other}`"))
}

/// `mcp.allowed`: if set, the only servers used.
pub fn only_servers(loaded: &Loaded) -> Option<Vec<String>> {
    loaded.settings.get("mcp.allowed").filter(|(value, _)| value.is_array())?;
    Some(loaded.texts("mcp.allowed"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_server_that_could_be_taken_for_one_of_the_users_is_not_used() {
        let names = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect::<Vec<_>>();
        let owners = Owners { of_user: names(&["my tools", "git"]), of_project: names(&["p q", "e_f"]) };
        let known = names(&["my tools", "git", "my_tools", "p q", "e f", "e_f", "git_hub", "gitlab", "p_q"]);
        for (name, is_refused) in [
            ("my tools", false),
            ("my_tools", true),
            ("My/tools", true),
            ("git", false),
            ("git_hub", true),
            ("git hub", true),
            ("gitlab", false),
            // Of an extension, and of the project.
            ("e f", false),
            ("e_f", true),
            ("p_q", false),
            ("p q", true),
        ] {
            assert_eq!(conflict(&owners, &known, name).is_some(), is_refused, "{name}");
        }
    }
}
