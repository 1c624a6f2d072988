//! How servers are shown.

use pollux_domain::exit::ExitKind;
use pollux_domain::failure::Failure;

use super::{ServerRow, Standing};

/// Characters of a description that fit a line.
const DESCRIPTION: usize = 100;

impl Standing {
    /// Upstream's signs and words.
    fn shown(self) -> (&'static str, &'static str) {
        match self {
            Self::Connected => ("✓", "Connected"),
            Self::Blocked => ("⛔", "Blocked"),
            Self::Disabled => ("○", "Disabled"),
            Self::Disconnected => ("✗", "Disconnected"),
        }
    }
}

/// `mcp list`
pub(super) fn list(rows: &[ServerRow]) -> String {
    if rows.is_empty() {
        return "No MCP servers configured.\n".to_owned();
    }
    let line = |row: &ServerRow| {
        let (sign, word) = row.standing.shown();
        format!("{sign} {}: {} - {word}\n", row.name, row.reached)
    };
    format!("Configured MCP servers:\n\n{}", rows.iter().map(line).collect::<String>())
}

/// Where every server there is belongs to a folder that is not trusted.
pub(super) fn none_here() -> String {
    "No MCP servers are enabled in this folder.\n".to_owned()
}

/// `mcp test` of a server that works.
pub(super) fn test(row: &ServerRow) -> String {
    let version = row.version.as_ref().map(|version| format!(", {version}")).unwrap_or_default();
    let mut text = format!("✓ {}: {} - Connected{version}\n", row.name, row.reached);
    text.push_str(&format!("  Tools: {}\n", counted(row.tools.iter().map(|(name, _)| name.as_str()))));
    text.push_str(&format!("  Prompts: {}\n", counted(row.prompts.iter().map(String::as_str))));
    text.push_str(&format!("  Resources: {}\n", row.resources));
    if !row.log.is_empty() {
        text.push_str("  Last lines of its output:\n");
        row.log.iter().for_each(|line| text.push_str(&format!("    {line}\n")));
    }
    text
}

fn counted<'a>(names: impl Iterator<Item = &'a str>) -> String {
    let names: Vec<&str> = names.collect();
    match names.as_slice() {
        [] => "0".to_owned(),
        names => format!("{} ({})", names.len(), names.join(", ")),
    }
}

/// `mcp test` of a server that does not.
pub(super) fn failure(row: &ServerRow) -> Failure {
    let (_, word) = row.standing.shown();
    let mut failure =
        Failure::new(ExitKind::Failure, format!("MCP server '{}' is {}", row.name, word.to_lowercase()));
    failure.causes.extend(row.reason.clone());
    if !row.log.is_empty() {
        failure.causes.push(format!("last lines of its output:\n    {}", row.log.join("\n    ")));
    }
    failure.hint(format!("configured as: {}", row.reached))
}

/// `mcp tools`
pub(super) fn tools(rows: &[ServerRow]) -> String {
    if rows.is_empty() {
        return "No MCP servers configured.\n".to_owned();
    }
    let mut text = String::new();
    for row in rows {
        let (sign, word) = row.standing.shown();
        match row.standing {
            Standing::Connected => {
                text.push_str(&format!("{sign} {}: {} tools\n", row.name, row.tools.len()))
            }
            _ => {
                let reason = row.reason.as_ref().map(|reason| format!(" ({reason})")).unwrap_or_default();
                text.push_str(&format!("{sign} {} - {word}{reason}\n", row.name));
            }
        }
        for (name, description) in &row.tools {
            let first = description.lines().next().unwrap_or_default();
            let short: String = first.chars().take(DESCRIPTION).collect();
            text.push_str(format!("  {name}  {short}").trim_end());
            text.push('\n');
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(name: &str, standing: Standing) -> ServerRow {
        ServerRow {
            name: name.to_owned(),
            reached: "npx -y srv (stdio)".to_owned(),
            standing,
            reason: Some("it ended".to_owned()),
            version: Some("srv 1.0".to_owned()),
            tools: vec![("mcp_a_t".to_owned(), "Does it.\nAnd more.".to_owned())],
            prompts: vec!["p".to_owned()],
            resources: 3,
            log: vec!["oh no".to_owned()],
        }
    }

    #[test]
    fn the_list_has_upstreams_lines() {
        use Standing::{Blocked, Connected, Disabled, Disconnected};
        let rows: Vec<ServerRow> = [("a", Connected), ("c", Blocked), ("d", Disabled), ("e", Disconnected)]
            .map(|(name, standing)| row(name, standing))
            .into();
        assert_eq!(
            list(&rows),
            "Configured MCP servers:\n\n\
             ✓ a: npx -y srv (stdio) - Connected\n\
             ⛔ c: npx -y srv (stdio) - Blocked\n○ d: npx -y srv (stdio) - Disabled\n\
             ✗ e: npx -y srv (stdio) - Disconnected\n"
        );
        assert_eq!(list(&[]), "No MCP servers configured.\n");
    }

    #[test]
    fn a_test_tells_everything_that_helps() {
        let good = test(&row("a", Standing::Connected));
        assert!(good.contains("srv 1.0\n  Tools: 1 (mcp_a_t)\n  Prompts: 1 (p)\n  Resources: 3\n"), "{good}");
        let bad = failure(&row("a", Standing::Disconnected)).message();
        assert!(bad.contains("MCP server 'a' is disconnected") && bad.contains("it ended"), "{bad}");
        assert_eq!(tools(&[row("a", Standing::Connected)]), "✓ a: 1 tools\n  mcp_a_t  Does it.\n");
    }
}
