//! Tables of calls with what is expected of each, in TOML or separated by tabs.

use std::path::{Path, PathBuf};

use pollux_domain::JsonObject;
use pollux_domain::approval::ApprovalMode;
use serde_json::Value;
use toml::Spanned;

use crate::launch::PolicyCall;

pub(super) const FORM: &str = "a case is `[[case]]` with tool, args, mode, headless and expect in a .toml file, \
    or a line of tool, args, mode, headless and expect with tabs between them";

const DECISIONS: [&str; 3] = ["allow", "ask", "deny"];

/// A call and what is expected of it.
#[derive(Debug, PartialEq)]
pub(super) struct Case {
    pub(super) call: PolicyCall,
    pub(super) expected: &'static str,
    /// Where it stands, from 1.
    pub(super) line: usize,
}

/// A table that cannot be used.
#[derive(Debug, PartialEq, thiserror::Error)]
#[error("{}:{line}: {why}", file.display())]
pub(super) struct BadCase {
    file: PathBuf,
    line: usize,
    why: String,
}

/// What a case says, before it is looked at.
struct Row<'a> {
    tool: &'a str,
    args: Value,
    mode: &'a str,
    headless: bool,
    expect: &'a str,
}

/// Reads a table; the file's name says in which form it is.
pub(super) fn parse(text: &str, file: &Path) -> Result<Vec<Case>, BadCase> {
    let at = |(line, why): (usize, String)| BadCase { file: file.to_owned(), line, why };
    let is_toml = file.extension().is_some_and(|end| end == "toml");
    if is_toml { from_toml(text).map_err(at) } else { from_lines(text).map_err(at) }
}

fn from_lines(text: &str) -> Result<Vec<Case>, (usize, String)> {
    let lines = text.lines().enumerate().map(|(index, line)| (index + 1, line));
    let told = lines.filter(|(_, line)| !line.trim().is_empty() && !line.starts_with('#'));
    told.map(|(number, line)| {
        let row = line_row(line).map_err(|why| (number, why))?;
        case(row, number).map_err(|why| (number, why))
    })
    .collect()
}

fn line_row(line: &str) -> Result<Row<'_>, String> {
    let fields: Vec<&str> = line.split('\t').map(str::trim).collect();
    let [tool, args, mode, headless, expect] = fields.as_slice() else {
        return Err(format!("5 fields are needed, {} are there", fields.len()));
    };
    let headless = match *headless {
        "true" | "headless" => true,
        "false" | "" => false,
        other => return Err(format!("headless is `true` or `false`, not `{other}`")),
    };
    Ok(Row { tool, args: Value::from(*args), mode, headless, expect })
}

fn from_toml(text: &str) -> Result<Vec<Case>, (usize, String)> {
    let line = |at: usize| 1 + text.bytes().take(at).filter(|byte| *byte == b'\n').count();
    let table = toml::de::DeTable::parse(text).map_err(|error| {
        (error.span().map_or(1, |span| line(span.start)), error.message().to_owned())
    })?;
    let mut cases = Vec::new();
    let found = table.get_ref().get("case").map(Spanned::get_ref);
    let items = found.and_then(|value| value.as_array()).ok_or((1, "there is no `[[case]]`".to_owned()))?;
    for item in items.iter() {
        let number = line(item.span().start);
        let source = text.get(item.span()).unwrap_or_default();
        let _ = source;
        cases.push(toml_case(item, number).map_err(|why| (number, why))?);
    }
    Ok(cases)
}
