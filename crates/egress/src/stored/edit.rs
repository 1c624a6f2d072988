//! Changes to TOML text that leave comments, order and unknown keys alone.
//!
//! An edit is made in the text, at a place that the parser reports, and proved by parsing the result: it must have
//! the new entry and otherwise equal what was there.

use toml::de::{DeTable, DeValue};
use toml::{Spanned, Table, Value};

use super::{EditError, parsed};

/// The table at a path of keys.
pub(super) fn lookup<'a>(table: &'a Table, path: &[&str]) -> Option<&'a Table> {
    path.iter().try_fold(table, |table, key| table.get(*key)?.as_table())
}

/// Adds a text to the list `key` of the table at `path`.
pub(super) fn add_to_list(text: &str, path: &[&str], key: &str, entry: &str) -> Result<String, EditError> {
    let before = parsed(text).map_err(EditError::Invalid)?;
    let mut expected = before.clone();
    let list = entry_list(&mut expected, path, key).ok_or(EditError::Form)?;
    if list.iter().any(|known| known.as_str() == Some(entry)) {
        return Ok(text.to_owned());
    }
    list.push(Value::String(entry.to_owned()));
    let quoted = quoted(entry);
    let candidates = [
        inside_list(text, path, key, &quoted),
        after_header(text, path, &format!("{key} = [{quoted}]\n")),
        Some(appended(text, &format!("[{}]\n{key} = [{quoted}]\n", header(path)))),
    ];
    let proved = |candidate: &String| parsed(candidate).is_ok_and(|table| table == expected);
    candidates.into_iter().flatten().find(proved).ok_or(EditError::Form)
}

/// Adds the table of a project.
pub(super) fn append_project(
    text: &str,
    path: &[&str],
    trust: &str,
    (key, entry): (&str, &str),
) -> Result<String, EditError> {
    let table = format!("[{}]\ntrust = {}\n{key} = [{}]\n", header(path), quoted(trust), quoted(entry));
    let out = appended(text, &table);
    // A form that cannot be extended, such as an inline table, shows here as a parse error.
    match parsed(&out) {
        Ok(_) => Ok(out),
        Err(_) => Err(EditError::Form),
    }
}

/// Removes the lines of a table that has a header of its own.
pub(super) fn remove_table(text: &str, path: &[&str]) -> Result<String, EditError> {
    let mut expected = parsed(text).map_err(EditError::Invalid)?;
    if let Some((last, above)) = path.split_last() {
        let parent = above.iter().try_fold(&mut expected, |table, key| table.get_mut(*key)?.as_table_mut());
        parent.and_then(|parent| parent.remove(*last)).ok_or(EditError::Form)?;
    }
    let start = header_line(text, path).ok_or(EditError::Form)?;
    let mut out = String::with_capacity(text.len());
    let mut within = false;
    for (number, line) in text.split_inclusive('\n').enumerate() {
        if number == start {
            within = true;
        } else if within && line.trim_start().starts_with('[') {
            within = false;
        }
        if !within {
            out.push_str(line);
        }
    }
    // A parent that only the removed header made is gone as well; the next table makes it again.
    let found = parsed(&out).map_err(EditError::Invalid)?;
    if pruned(found) == pruned(expected) { Ok(out) } else { Err(EditError::Form) }
}

/// The table without empty tables.
fn pruned(table: Table) -> Table {
    let kept = table.into_iter().filter_map(|(key, value)| match value {
        Value::Table(inner) => {
            let inner = pruned(inner);
            (!inner.is_empty()).then_some((key, Value::Table(inner)))
        }
        other => Some((key, other)),
    });
    kept.collect()
}

/// The list at a place, made if it is missing; `None` if something else is there.
fn entry_list<'a>(table: &'a mut Table, path: &[&str], key: &str) -> Option<&'a mut Vec<Value>> {
    let mut current = table;
    for part in path {
        let inner = current.entry((*part).to_owned()).or_insert_with(|| Value::Table(Table::new()));
        current = inner.as_table_mut()?;
    }
    current.entry(key.to_owned()).or_insert_with(|| Value::Array(Vec::new())).as_array_mut()
}

/// The text with an entry after the last one of an existing list.
fn inside_list(text: &str, path: &[&str], key: &str, quoted: &str) -> Option<String> {
    let document = DeTable::parse(text).ok()?;
    let mut table = document.get_ref();
    for part in path {
        table = match child(table, part)?.get_ref() {
            DeValue::Table(inner) => inner,
            _ => return None,
        };
    }
    let list = child(table, key)?;
    let DeValue::Array(items) = list.get_ref() else { return None };
    let mut out = text.to_owned();
    match items.last() {
        Some(last) => {
            let at = last.span().end;
            out.insert_str(at, &format!(",{}{quoted}", separator(text, last.span().start)));
        }
        None => out.insert_str(list.span().start + 1, quoted),
    }
    Some(out)
}

/// What stands before an item: a line break with its indent, or a space.
fn separator(text: &str, start: usize) -> String {
    let before = text.get(..start).unwrap_or_default();
    let line = before.rsplit_once('\n').map(|(_, line)| line);
    match line.filter(|line| line.chars().all(char::is_whitespace)) {
        Some(indent) => format!("\n{indent}"),
        None => " ".to_owned(),
    }
}

fn child<'a>(table: &'a DeTable<'_>, key: &str) -> Option<&'a Spanned<DeValue<'a>>> {
    table.iter().find(|(name, _)| name.get_ref().as_ref() == key).map(|(_, value)| value)
}

/// The text with a line after the header of a table.
fn after_header(text: &str, path: &[&str], line: &str) -> Option<String> {
    let number = header_line(text, path)?;
    let mut out = String::with_capacity(text.len() + line.len() + 1);
    for (at, known) in text.split_inclusive('\n').enumerate() {
        out.push_str(known);
        if at == number {
            if !known.ends_with('\n') {
                out.push('\n');
            }
            out.push_str(line);
        }
    }
    Some(out)
}

/// The line that is the header of a table.
fn header_line(text: &str, path: &[&str]) -> Option<usize> {
    let is_header = |line: &str| {
        // A line of its own is TOML by itself, and makes exactly the tables of its path.
        let Some(table) = line.trim_start().starts_with('[').then(|| parsed(line).ok()).flatten() else {
            return false;
        };
        let mut current = &table;
        for part in path {
            match (current.len(), current.get(*part).and_then(Value::as_table)) {
                (1, Some(inner)) => current = inner,
                _ => return false,
            }
        }
        current.is_empty()
    };
    text.lines().position(is_header)
}

fn appended(text: &str, table: &str) -> String {
    let gap = match text {
        "" => "",
        text if text.ends_with('\n') => "\n",
        _ => "\n\n",
    };
    format!("{text}{gap}{table}")
}

/// A path of keys as it stands in a header.
fn header(path: &[&str]) -> String {
    let is_bare = |key: &str| {
        !key.is_empty() && key.bytes().all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_'))
    };
    let parts = path.iter().map(|key| if is_bare(key) { (*key).to_owned() } else { quoted(key) });
    parts.collect::<Vec<_>>().join(".")
}

/// A text in double quotes: JSON's escapes are TOML's, except for one character that JSON leaves alone.
fn quoted(text: &str) -> String {
    serde_json::Value::from(text).to_string().replace('\u{7f}', "\\u007f")
}
