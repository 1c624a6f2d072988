//! Names of tools that a server accepts, and back.

use std::collections::HashMap;
use std::sync::Arc;

use pollux_domain::tool::ToolSpec;

use super::digest;

/// How many digits of a name's hash keep shortened names apart.
const DIGITS: usize = 6;

/// The names of one request's tools. Sessions and events only know the program's own.
#[derive(Debug, Clone, Default)]
pub(crate) struct ToolNames {
    limit: usize,
    /// By the name on the wire, where it differs.
    own: HashMap<String, String>,
}

impl ToolNames {
    /// For a server that accepts letters, digits, `_` and `-`, at most `limit` of them.
    pub(crate) fn new(tools: &[Arc<ToolSpec>], limit: usize) -> Self {
        let differing = tools.iter().filter_map(|tool| {
            let wire = wire_name(&tool.name, limit);
            (wire != tool.name).then(|| (wire, tool.name.clone()))
        });
        Self { limit, own: differing.collect() }
    }

    /// The name on the wire; also of a tool that is no longer declared.
    pub(crate) fn wire(&self, own: &str) -> String {
        wire_name(own, self.limit)
    }

    /// The program's name of a tool that the model calls.
    pub(crate) fn own(&self, wire: &str) -> String {
        self.own.get(wire).map_or(wire, String::as_str).to_owned()
    }
}

fn wire_name(own: &str, limit: usize) -> String {
    let legal = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == '-';
    if !own.is_empty() && own.len() <= limit && own.chars().all(legal) {
        return own.to_owned();
    }
    let room = limit.saturating_sub(DIGITS + 1);
    let kept: String = own.chars().map(|c| if legal(c) { c } else { '_' }).take(room).collect();
    format!("{kept}_{}", digest::hexadecimal(&[own], DIGITS))
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;
    use pollux_domain::tool::ToolKind;
    use serde_json::json;

    pub(in crate::shared) fn tool(name: &str) -> Arc<ToolSpec> {
        Arc::new(ToolSpec {
            name: name.into(),
            display_name: name.into(),
            description: String::new(),
            kind: ToolKind::Other,
            parameters: json!({}),
            output_is_markdown: false,
            offloads_long_output: false,
        })
    }

    #[test]
    fn names_fit_the_wire_and_lead_back() {
        let long = format!("srv.do:it{}", "x".repeat(71));
        let (twin_a, twin_b) = ("srv.do", "srv:do");
        let names = ToolNames::new(&[tool("ls"), tool(&long), tool(twin_a), tool(twin_b)], 64);
        assert_eq!(names.wire("ls"), "ls");
        for own in [long.as_str(), twin_a, twin_b, "ls", "ünïcode"] {
            let wire = names.wire(own);
            assert!(wire.len() <= 64, "{wire}");
            assert!(wire.chars().all(|c| c.is_ascii_alphanumeric() || "_-".contains(c)), "{wire}");
        }
        assert_ne!(names.wire(twin_a), names.wire(twin_b));
        for own in [long.as_str(), twin_a, twin_b, "ls"] {
            assert_eq!(names.own(&names.wire(own)), own);
        }
        assert_eq!(names.own("invented"), "invented");
    }
}
