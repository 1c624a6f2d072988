//! MCP servers: connections, and what they offer as tools, prompts and resources.
//!
//! Owns: starting and watching servers, discovery, cleaned schemas, results as content. Does not own: whether a
//! call may run (`policy`), stored tokens and OAuth (`net`), settings files.
