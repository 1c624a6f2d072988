//! Names of configured MCP servers.

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

/// `mcp.allowed`: if set, the only servers used.
pub fn only_servers(loaded: &Loaded) -> Option<Vec<String>> {
    loaded.settings.get("mcp.allowed").filter(|(value, _)| value.is_array())?;
    Some(loaded.texts("mcp.allowed"))
}
