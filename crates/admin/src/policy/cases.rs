//! Tables of calls with what is expected of each, in TOML or separated by tabs.

use std::path::{Path, PathBuf};

use pollux_domain::JsonObject;
use pollux_domain::approval::ApprovalMode;
use serde_json::Value;
use toml::de::DeTable;

use super::{PolicyCall, PolicyView};

pub(super) const FORM: &str = "in a .toml file, write `[[case]]` tables with tool, args, mode, headless and \
                               expect; in other files, write these five fields in one line, separated by tabs";

const DECISIONS: [&str; 3] = ["allow", "ask", "deny"];

/// A call and what is expected of it.
#[derive(Debug, PartialEq)]
pub(super) struct Case {
    pub(super) call: PolicyCall,
    pub(super) expected: &'static str,
    /// Its line, from 1.
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
        return Err(format!("expected 5 fields, found {}", fields.len()));
    };
    let headless = match *headless {
        "true" | "headless" => true,
        "false" | "" => false,
        other => return Err(format!("headless must be `true` or `false`, not `{other}`")),
    };
    Ok(Row { tool, args: Value::from(*args), mode, headless, expect })
}

fn from_toml(text: &str) -> Result<Vec<Case>, (usize, String)> {
    let line = |at: usize| 1 + text.bytes().take(at).filter(|byte| *byte == b'\n').count();
    let wrong = |error: toml::de::Error| {
        (error.span().map_or(1, |span| line(span.start)), error.message().to_owned())
    };
    let none = || (1, "no `[[case]]` found".to_owned());
    // Read twice: once for the places, once for the values.
    let table = DeTable::parse(text).map_err(wrong)?;
    let places = table.get_ref().get("case").and_then(|value| value.get_ref().as_array()).ok_or_else(none)?;
    let values: Value = toml::from_str(text).map_err(wrong)?;
    let values = values.get("case").and_then(Value::as_array).ok_or_else(none)?;
    let numbered = places.iter().map(|place| line(place.span().start)).zip(values);
    numbered
        .map(|(number, value)| {
            let row = table_row(value).map_err(|why| (number, why))?;
            case(row, number).map_err(|why| (number, why))
        })
        .collect()
}

fn table_row(value: &Value) -> Result<Row<'_>, String> {
    const KEYS: [&str; 5] = ["tool", "args", "mode", "headless", "expect"];
    let table = value.as_object().ok_or("`case` must be a table, written `[[case]]`")?;
    if let Some(key) = table.keys().find(|key| !KEYS.contains(&key.as_str())) {
        return Err(format!("unknown key `{key}` in a case"));
    }
    let text = |key: &str| match table.get(key) {
        None => Ok(""),
        Some(value) => value.as_str().ok_or_else(|| format!("`{key}` must be a string")),
    };
    let headless = match table.get("headless") {
        None => false,
        Some(value) => value.as_bool().ok_or("`headless` must be true or false")?,
    };
    let args = table.get("args").cloned().unwrap_or_else(|| Value::Object(JsonObject::new()));
    Ok(Row { tool: text("tool")?, args, mode: text("mode")?, headless, expect: text("expect")? })
}

fn case(row: Row<'_>, line: usize) -> Result<Case, String> {
    if row.tool.is_empty() {
        return Err("the case has no tool".to_owned());
    }
    let args = match row.args {
        Value::String(text) => serde_json::from_str(&text).map_err(|error| format!("args: {error}"))?,
        value => value,
    };
    let Value::Object(args) = args else { return Err("args must be an object".to_owned()) };
    let mode = match row.mode {
        "" => None,
        text => Some(text.parse::<ApprovalMode>().map_err(|_| format!("unknown mode `{text}`"))?),
    };
    let expected = DECISIONS.into_iter().find(|word| *word == row.expect);
    let expected = expected.ok_or_else(|| format!("expected allow, ask or deny, not `{}`", row.expect))?;
    Ok(Case {
        call: PolicyCall {
            tool: row.tool.to_owned(),
            args,
            view: PolicyView { mode, headless: row.headless },
        },
        expected,
        line,
    })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn both_forms_say_the_same() {
        let lines = "# tool, args, mode, headless, expect\n\nglob\t{\"pattern\": \"*\"}\tplan\ttrue\tallow\n";
        let toml = "\n\n[[case]]\ntool = \"glob\"\nargs = {pattern = \"*\"}\nmode = \"plan\"\nheadless = true\nexpect = \"allow\"\n";
        let args = json!({"pattern": "*"}).as_object().cloned().unwrap();
        let view = PolicyView { mode: Some(ApprovalMode::Plan), headless: true };
        let call = PolicyCall { tool: "glob".into(), args, view };
        let expected = vec![Case { call, expected: "allow", line: 3 }];
        assert_eq!(parse(lines, Path::new("a.tsv")).unwrap(), expected);
        assert_eq!(parse(toml, Path::new("a.toml")).unwrap(), expected);
    }

    #[test]
    fn a_bad_case_is_named_by_its_line() {
        let cases = [
            ("a.tsv", "glob\t{}\n", "a.tsv:1: expected 5 fields, found 2"),
            (
                "a.tsv",
                "\nglob\t{\t\t\tallow",
                "a.tsv:2: args: EOF while parsing an object at line 1 column 1",
            ),
            ("a.tsv", "glob\t[]\t\t\tallow", "a.tsv:1: args must be an object"),
            ("a.tsv", "glob\t{}\tfast\t\tallow", "a.tsv:1: unknown mode `fast`"),
            ("a.tsv", "glob\t{}\t\tno\tallow", "a.tsv:1: headless must be `true` or `false`, not `no`"),
            ("a.tsv", "glob\t{}\t\t\tmaybe", "a.tsv:1: expected allow, ask or deny, not `maybe`"),
            ("a.toml", "x = 1\n", "a.toml:1: no `[[case]]` found"),
            ("a.toml", "\n[[case]]\nexpect = \"deny\"\n", "a.toml:2: the case has no tool"),
            (
                "a.toml",
                "[[case]]\ntool = \"glob\"\nexpects = \"deny\"\n",
                "a.toml:1: unknown key `expects` in a case",
            ),
        ];
        for (file, text, expected) in cases {
            assert_eq!(parse(text, Path::new(file)).unwrap_err().to_string(), expected);
        }
    }
}
