//! Edits JSON text and leaves all other bytes unchanged.

use jsonc_parser::ast::{Object, ObjectProp, Value as Node};
use serde::Serialize;
use serde_json::Value;

use crate::jsonc::{self, Defect};

mod gap;

use gap::Gap;

/// A text that parses, and keeps parsing after each change.
pub(crate) struct Patch {
    bom: bool,
    text: String,
    newline: &'static str,
    unit: String,
}

/// A key on the way is not an object, so nothing can be put below it.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Blocked {
    /// Dotted path of that key.
    pub(crate) key: String,
}

/// A value cut out of the text with the comments that were written about it.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Taken {
    /// The value's own text; further lines are indented relative to the first.
    pub(crate) raw: String,
    pub(crate) comments: Vec<String>,
}

/// Where a path leads.
enum Place<'b, 'a> {
    Found { object: &'b Object<'a>, index: usize },
    Missing { object: &'b Object<'a>, depth: usize },
    Blocked { depth: usize },
}

/// Text that takes the place of a range.
struct Splice {
    from: usize,
    to: usize,
    text: String,
}

impl Patch {
    pub(crate) fn open(text: &str) -> Result<Self, Defect> {
        let bare = jsonc::strip_bom(text);
        jsonc::parse(bare)?;
        let root = jsonc::object(bare)?;
        let unit = root.properties.first().map(|first| line_indent(bare, first.range.start));
        Ok(Self {
            bom: bare.len() != text.len(),
            newline: if bare.contains("\r\n") { "\r\n" } else { "\n" },
            unit: unit.filter(|unit| !unit.is_empty()).unwrap_or("  ").to_owned(),
            text: bare.to_owned(),
        })
    }

    pub(crate) fn into_text(self) -> String {
        if self.bom { format!("\u{feff}{}", self.text) } else { self.text }
    }

    /// The text as it stands, without its byte order mark.
    pub(crate) fn text(&self) -> &str {
        &self.text
    }

    /// Goes back to an earlier [`Self::text`].
    pub(crate) fn reset(&mut self, text: String) {
        self.text = text;
    }

    /// The value at a path as the text has it.
    pub(crate) fn get(&self, path: &[&str]) -> Option<Value> {
        let mut value = jsonc::parse(&self.text).ok()?.value;
        for name in path {
            value = value.get_mut(*name)?.take();
        }
        Some(value)
    }

    /// Sets a value; objects on the way are created.
    pub(crate) fn set(&mut self, path: &[&str], value: &Value) -> Result<(), Blocked> {
        if self.get(path).as_ref() == Some(value) {
            return Ok(());
        }
        let raw = pretty(value, &self.unit);
        self.put(path, &Taken { raw, comments: Vec::new() })
    }

    /// Puts a value's own text at a path, with its comments above it.
    pub(crate) fn put(&mut self, path: &[&str], taken: &Taken) -> Result<(), Blocked> {
        let Ok(root) = jsonc::object(&self.text) else { return Ok(()) };
        let splices = match place(&root, path) {
            Place::Found { object, index } => match object.properties.get(index) {
                Some(property) => {
                    let indent = line_indent(&self.text, property.range.start);
                    let range = range_of(&property.value);
                    vec![Splice { from: range.0, to: range.1, text: self.lay_out(&taken.raw, indent) }]
                }
                None => Vec::new(),
            },
            Place::Missing { object, depth } => match path.split_at_checked(depth) {
                Some((_, rest)) => self.insertion(object, rest, taken),
                None => Vec::new(),
            },
            Place::Blocked { depth } => {
                let known = path.iter().take(depth).copied().collect::<Vec<_>>();
                return Err(Blocked { key: known.join(".") });
            }
        };
        self.apply(splices);
        Ok(())
    }

    /// Removes a key; comments above it stay. Says whether it was there.
    pub(crate) fn remove(&mut self, path: &[&str]) -> bool {
        let was_there = self.cut(path, false).is_some();
        // An earlier value under the same name must not come back.
        while was_there && self.cut(path, false).is_some() {}
        was_there
    }

    /// Removes a key together with the comments about it and returns both.
    pub(crate) fn take(&mut self, path: &[&str]) -> Option<Taken> {
        let taken = self.cut(path, true)?;
        self.remove(path);
        Some(taken)
    }

    fn cut(&mut self, path: &[&str], with_comments: bool) -> Option<Taken> {
        let root = jsonc::object(&self.text).ok()?;
        let Place::Found { object, index } = place(&root, path) else { return None };
        let property = object.properties.get(index)?;
        let (start, end) = range_of(&property.value);
        let indent = line_indent(&self.text, property.range.start);
        let raw = dedent(self.text.get(start..end)?, indent);
        let before = Gap::before(&self.text, object, index)?;
        let after = Gap::after(&self.text, object, index)?;
        let mut comments = Vec::new();
        if with_comments {
            comments.extend(before.leading().map(|range| dedent(range.text(&self.text), indent)));
            comments.extend(after.trailing().map(|range| range.text(&self.text).trim_end().to_owned()));
        }
        let splices = removal(&self.text, object, property, &before, &after, with_comments);
        self.apply(splices);
        Some(Taken { raw, comments })
    }

    fn insertion(&self, object: &Object<'_>, rest: &[&str], taken: &Taken) -> Vec<Splice> {
        let Some((name, below)) = rest.split_first() else { return Vec::new() };
        let base = line_indent(&self.text, object.range.start);
        let Some(last) = object.properties.last() else {
            let indent = format!("{base}{}", self.unit);
            let (from, to) = (object.range.start + 1, object.range.end.saturating_sub(1));
            let inside = self.text.get(from..to).unwrap_or_default().trim_end();
            let entry = self.entry(name, below, taken, &indent);
            let text = format!("{inside}{nl}{indent}{entry}{nl}{base}", nl = self.newline);
            return vec![Splice { from, to, text }];
        };
        let first = object.properties.first().map_or(last.range.start, |first| first.range.start);
        let one_line = !self.text.get(object.range.start..first).unwrap_or_default().contains('\n');
        let end = last.range.end;
        if one_line && taken.comments.is_empty() && !taken.raw.contains('\n') {
            let value = below
                .iter()
                .rev()
                .fold(taken.raw.clone(), |inner, name| format!("{{{}: {inner}}}", quoted(name)));
            return vec![Splice { from: end, to: end, text: format!(", {}: {value}", quoted(name)) }];
        }
        let indent =
            if one_line { format!("{base}{}", self.unit) } else { line_indent(&self.text, first).to_owned() };
        let entry = self.entry(name, below, taken, &indent);
        let tail = Gap::after(&self.text, object, object.properties.len() - 1);
        // A comment on the last entry's line belongs to that entry, so the new one goes below it.
        let at = tail.and_then(|gap| gap.trailing().last().map(|range| range.to)).unwrap_or(end);
        vec![
            Splice { from: end, to: end, text: ",".to_owned() },
            Splice { from: at, to: at, text: format!("{}{indent}{entry}", self.newline) },
        ]
    }

    /// Comments, key and value, without the first line's indentation.
    fn entry(&self, name: &str, below: &[&str], taken: &Taken, indent: &str) -> String {
        let Some((inner, rest)) = below.split_first() else {
            let mut text = String::new();
            for comment in &taken.comments {
                text.push_str(&self.lay_out(comment, indent));
                text.push_str(self.newline);
                text.push_str(indent);
            }
            text.push_str(&quoted(name));
            text.push_str(": ");
            text.push_str(&self.lay_out(&taken.raw, indent));
            return text;
        };
        let deeper = format!("{indent}{}", self.unit);
        let entry = self.entry(inner, rest, taken, &deeper);
        format!("{}: {{{nl}{deeper}{entry}{nl}{indent}}}", quoted(name), nl = self.newline)
    }

    /// Indents every line but the first.
    fn lay_out(&self, raw: &str, indent: &str) -> String {
        raw.lines().collect::<Vec<_>>().join(&format!("{}{indent}", self.newline))
    }

    fn apply(&mut self, mut splices: Vec<Splice>) {
        splices.sort_by_key(|splice| splice.from);
        let mut result = String::with_capacity(self.text.len() + 64);
        let mut at = 0;
        for splice in &splices {
            result.push_str(self.text.get(at..splice.from).unwrap_or_default());
            result.push_str(&splice.text);
            at = splice.to.max(at);
        }
        result.push_str(self.text.get(at..).unwrap_or_default());
        self.text = result;
    }
}

fn place<'b, 'a>(root: &'b Object<'a>, path: &[&str]) -> Place<'b, 'a> {
    let mut object = root;
    for (depth, name) in path.iter().enumerate() {
        // The later of two equal names is the one that counts.
        let Some(index) = object.properties.iter().rposition(|property| property.name.as_str() == *name)
        else {
            return Place::Missing { object, depth };
        };
        if depth + 1 == path.len() {
            return Place::Found { object, index };
        }
        match object.properties.get(index).map(|property| &property.value) {
            Some(Node::Object(next)) => object = next,
            Some(_) | None => return Place::Blocked { depth: depth + 1 },
        }
    }
    Place::Blocked { depth: 0 }
}

fn removal(
    text: &str,
    object: &Object<'_>,
    property: &ObjectProp<'_>,
    before: &Gap,
    after: &Gap,
    with_comments: bool,
) -> Vec<Splice> {
    let own_start = match before.leading().next() {
        Some(comment) if with_comments => comment.from,
        Some(_) | None => property.range.start,
    };
    let line_start = own_start - spaces_before(text, own_start);
    let starts_line = line_start == 0 || text.as_bytes().get(line_start - 1) == Some(&b'\n');
    let end = after.trailing().last().map_or(property.range.end, |comment| comment.to);
    let end = after.comma.map_or(end, |comma| end.max(comma + 1));
    let is_last = after.comma.is_none();
    let ends_line = line_end(text, end);
    let mut splices = Vec::with_capacity(2);
    if is_last && let Some(comma) = before.comma {
        splices.push(Splice { from: comma, to: comma + 1, text: String::new() });
    }
    let (from, to) = match (starts_line, ends_line) {
        (true, Some(next_line)) if is_first_line(text, object, line_start) => {
            (line_start, after_blank_lines(text, next_line))
        }
        (true, Some(next_line)) => (line_start, next_line),
        // Something else shares the line: keep one separation.
        (true, None) => (own_start, end + spaces_after(text, end)),
        (false, _) if is_last => (line_start, end),
        (false, _) => (own_start, end + spaces_after(text, end)),
    };
    splices.push(Splice {
        from: from.max(before.comma.map_or(0, |comma| comma + 1)),
        to,
        text: String::new(),
    });
    if object.properties.len() == 1 {
        tidy_empty(text, object, &mut splices);
    }
    splices
}

/// Whether only white space stands between `{` and an offset.
fn is_first_line(text: &str, object: &Object<'_>, offset: usize) -> bool {
    text.get(object.range.start + 1..offset).is_some_and(|between| between.trim().is_empty())
}

fn after_blank_lines(text: &str, mut offset: usize) -> usize {
    while let Some(next) = line_end(text, offset) {
        offset = next;
    }
    offset
}

/// `{` and `}` with only white space left between them become `{}`.
fn tidy_empty(text: &str, object: &Object<'_>, splices: &mut Vec<Splice>) {
    let (from, to) = (object.range.start + 1, object.range.end.saturating_sub(1));
    let blank = |from: usize, to: usize| text.get(from..to).is_none_or(|kept| kept.trim().is_empty());
    if splices.iter().all(|splice| blank(from, splice.from) && blank(splice.to, to)) {
        splices.clear();
        splices.push(Splice { from, to, text: String::new() });
    }
}

fn range_of(node: &Node<'_>) -> (usize, usize) {
    let range = jsonc_parser::common::Ranged::range(node);
    (range.start, range.end)
}

/// The white space that begins the line of an offset.
fn line_indent(text: &str, offset: usize) -> &str {
    let before = text.get(..offset).unwrap_or_default();
    let line = before.rsplit('\n').next().unwrap_or_default();
    line.get(..line.len() - line.trim_start_matches([' ', '\t']).len()).unwrap_or_default()
}

fn spaces_before(text: &str, offset: usize) -> usize {
    let before = text.get(..offset).unwrap_or_default();
    before.len() - before.trim_end_matches([' ', '\t']).len()
}

fn spaces_after(text: &str, offset: usize) -> usize {
    let after = text.get(offset..).unwrap_or_default();
    after.len() - after.trim_start_matches([' ', '\t']).len()
}

/// The start of the next line if only white space is left on this one.
fn line_end(text: &str, offset: usize) -> Option<usize> {
    let at = offset + spaces_after(text, offset);
    let rest = text.get(at..)?;
    if rest.starts_with("\r\n") { Some(at + 2) } else { rest.starts_with('\n').then_some(at + 1) }
}

fn dedent(raw: &str, indent: &str) -> String {
    raw.lines().map(|line| line.strip_prefix(indent).unwrap_or(line)).collect::<Vec<_>>().join("\n")
}

fn quoted(name: &str) -> String {
    Value::from(name).to_string()
}

fn pretty(value: &Value, unit: &str) -> String {
    let formatter = serde_json::ser::PrettyFormatter::with_indent(unit.as_bytes());
    let mut bytes = Vec::new();
    let mut serializer = serde_json::Serializer::with_formatter(&mut bytes, formatter);
    match value.serialize(&mut serializer) {
        Ok(()) => String::from_utf8(bytes).unwrap_or_else(|_| value.to_string()),
        Err(_) => value.to_string(),
    }
}

#[cfg(test)]
mod tests;
