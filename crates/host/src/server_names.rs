//! Names of MCP servers, as settings and extensions give them.

use super::{Loaded, extensions};

/// The MCP servers that settings and extensions name.
pub fn server_names(loaded: &Loaded) -> Vec<String> {
    let servers = loaded.settings.section("mcpServers").as_object().into_iter().flatten();
    let mut names: Vec<String> = servers.map(|(name, _)| name.clone()).collect();
    names.extend(extensions::server_names(loaded));
    names.sort();
    names.dedup();
    names
}

/// `mcp.allowed`: the only servers there are, if it is set.
pub fn only_servers(loaded: &Loaded) -> Option<Vec<String>> {
    loaded.settings.get("mcp.allowed").filter(|(value, _)| value.is_array())?;
    Some(loaded.texts("mcp.allowed"))
}
