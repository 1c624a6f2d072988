//! Navigates JSON text without parsing all of it: values stay text until they are needed.
//!
//! Only brackets and quotes are followed, which is much faster than parsing; whether a value is valid JSON
//! shows when it is decoded.

use std::borrow::Cow;

use pollux_domain::json::parse_lenient_str;

/// The text of a JSON value.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Raw<'a>(&'a str);

/// The fields of an object.
#[derive(Debug, Default)]
pub(crate) struct Fields<'a>(Vec<(Cow<'a, str>, Raw<'a>)>);

impl<'a> Raw<'a> {
    pub(crate) fn get(self) -> &'a str {
        self.0
    }
}

impl<'a> Fields<'a> {
    /// The value of a field; of two with the same name the last.
    pub(crate) fn get(&self, key: &str) -> Option<Raw<'a>> {
        self.0.iter().rev().find(|(name, _)| name == key).map(|(_, value)| *value)
    }

    pub(crate) fn contains_key(&self, key: &str) -> bool {
        self.get(key).is_some()
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = (&str, Raw<'a>)> {
        self.0.iter().map(|(name, value)| (name.as_ref(), *value))
    }
}

/// The value that a text begins with.
pub(crate) fn first(text: &str) -> Option<Raw<'_>> {
    Cursor { text, at: 0 }.value()
}

/// The fields of a text that is an object.
pub(crate) fn fields(text: &str) -> Option<Fields<'_>> {
    let mut cursor = Cursor { text, at: 0 };
    let fields = cursor.object()?;
    cursor.is_at_end().then_some(fields)
}

/// The objects in a value that is a list, found in one go.
pub(crate) fn objects(value: Raw<'_>) -> Option<Vec<Fields<'_>>> {
    let mut cursor = Cursor { text: value.0, at: 0 };
    let mut objects = Vec::new();
    cursor.list(|cursor| {
        cursor.skip_space();
        if cursor.peek() == Some(b'{') {
            objects.push(cursor.object()?);
        } else {
            cursor.value()?;
        }
        Some(())
    })?;
    cursor.is_at_end().then_some(objects)
}

/// The items of a value that is a list.
pub(crate) fn list(value: Raw<'_>) -> Option<Vec<Raw<'_>>> {
    let mut cursor = Cursor { text: value.0, at: 0 };
    let mut items = Vec::new();
    cursor.list(|cursor| {
        items.push(cursor.value()?);
        Some(())
    })?;
    cursor.is_at_end().then_some(items)
}

/// A field that is a string.
pub(crate) fn string(fields: &Fields<'_>, key: &str) -> Option<String> {
    text(fields.get(key)?)
}

/// A value that is a string.
pub(crate) fn text(value: Raw<'_>) -> Option<String> {
    value.0.starts_with('"').then(|| parse_lenient_str(value.0).ok())?
}

struct Cursor<'a> {
    text: &'a str,
    at: usize,
}

impl<'a> Cursor<'a> {
    fn peek(&self) -> Option<u8> {
        self.text.as_bytes().get(self.at).copied()
    }

    fn skip_space(&mut self) {
        while matches!(self.peek(), Some(b' ' | b'\n' | b'\r' | b'\t')) {
            self.at += 1;
        }
    }

    fn is_at_end(&mut self) -> bool {
        self.skip_space();
        self.at == self.text.len()
    }

    fn take(&mut self, byte: u8) -> Option<()> {
        self.skip_space();
        (self.peek() == Some(byte)).then(|| self.at += 1)
    }

    /// The object that comes next.
    fn object(&mut self) -> Option<Fields<'a>> {
        self.take(b'{')?;
        let mut fields = Vec::new();
        if self.take(b'}').is_some() {
            return Some(Fields(fields));
        }
        loop {
            let name = self.value()?;
            let name = match name.0.strip_prefix('"')?.strip_suffix('"')? {
                plain if !plain.contains('\\') => Cow::Borrowed(plain),
                _ => Cow::Owned(parse_lenient_str(name.0).ok()?),
            };
            self.take(b':')?;
            fields.push((name, self.value()?));
            if self.take(b',').is_none() {
                self.take(b'}')?;
                return Some(Fields(fields));
            }
        }
    }

    /// The list that comes next; `item` reads one of its items.
    fn list(&mut self, mut item: impl FnMut(&mut Self) -> Option<()>) -> Option<()> {
        self.take(b'[')?;
        if self.take(b']').is_some() {
            return Some(());
        }
        loop {
            item(self)?;
            if self.take(b',').is_none() {
                return self.take(b']');
            }
        }
    }

    /// The value that comes next.
    fn value(&mut self) -> Option<Raw<'a>> {
        self.skip_space();
        let start = self.at;
        let mut depth = 0usize;
        loop {
            match self.peek()? {
                b'"' => {
                    let rest = self.text.as_bytes().get(self.at + 1..)?;
                    self.at += 1 + string_end(rest, false).ok()?;
                }
                b'{' | b'[' => {
                    depth += 1;
                    self.at += 1;
                    continue;
                }
                b'}' | b']' => {
                    depth = depth.checked_sub(1)?;
                    self.at += 1;
                }
                b',' | b':' if depth == 0 => return None,
                b' ' | b'\n' | b'\r' | b'\t' | b',' | b':' => {
                    self.at += 1;
                    continue;
                }
                _ => self.scalar(),
            }
            if depth == 0 {
                return self.text.get(start..self.at).map(Raw);
            }
        }
    }

    fn scalar(&mut self) {
        let ends = |byte: u8| matches!(byte, b' ' | b'\n' | b'\r' | b'\t' | b',' | b':' | b'}' | b']' | b'"');
        while self.peek().is_some_and(|byte| !ends(byte)) {
            self.at += 1;
        }
    }
}

/// Where a string whose quote was read ends: the number of bytes up to and with its last quote. If it does
/// not end here, `Err` says whether its last byte escapes what comes next. `escaped` is that of before.
pub(crate) fn string_end(bytes: &[u8], escaped: bool) -> Result<usize, bool> {
    // Quotes are rarer than escapes, so escapes are checked only at quotes.
    let mut quotes = memchr::memchr_iter(b'"', bytes);
    let end = quotes.find(|quote| !ends_in_escape(bytes.get(..*quote).unwrap_or_default(), escaped));
    end.map(|quote| quote + 1).ok_or_else(|| ends_in_escape(bytes, escaped))
}

/// Whether the last of these bytes escapes what comes next.
fn ends_in_escape(bytes: &[u8], escaped: bool) -> bool {
    let backslashes = bytes.iter().rev().take_while(|byte| **byte == b'\\').count();
    let carried = usize::from(escaped && backslashes == bytes.len());
    (backslashes + carried) % 2 == 1
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_found_whatever_is_in_them() {
        let text = r#" {"a" : "x\"}\\" ,"b":{"c":[1,"]",{}]}, "d\u0065":-1.5e3 ,"e":[ ],"a":null}"#;
        let fields = fields(text).unwrap();
        let shown: Vec<(&str, &str)> = fields.iter().map(|(key, value)| (key, value.get())).collect();
        assert_eq!(
            shown,
            [
                ("a", r#""x\"}\\""#),
                ("b", r#"{"c":[1,"]",{}]}"#),
                ("de", "-1.5e3"),
                ("e", "[ ]"),
                ("a", "null")
            ]
        );
        assert_eq!(fields.get("a").unwrap().get(), "null", "the last of two counts");
        let items = list(Raw(" [ 1 , [2,3] ,\"a,b\"] ")).unwrap();
        assert_eq!(items.iter().map(|item| item.get()).collect::<Vec<_>>(), ["1", "[2,3]", "\"a,b\""]);
        let found = objects(Raw(r#" [1, {"a":"]"} ,[{}],{ } ] "#)).unwrap();
        let shown: Vec<Option<&str>> = found.iter().map(|fields| fields.get("a").map(Raw::get)).collect();
        assert_eq!(shown, [Some("\"]\""), None]);
    }

    #[test]
    fn truncated_or_non_object_input_is_refused() {
        let whole = r#"{"a":"x\\","b":[{"c":1}]}"#;
        for cut in 0..whole.len() {
            assert!(fields(whole.get(..cut).unwrap()).is_none(), "{cut}");
        }
        for text in ["", "[]", "7", "{}x", "{,}", "{\"a\"}", "{\"a\":}", "{\"a\":1,}", "{1:2}", "]"] {
            assert!(fields(text).is_none(), "{text}");
        }
        assert!(list(Raw("{}")).is_none() && list(Raw("[1")).is_none());
        for text in ["{}", "[{}", "[{},]", "[{\"a\"}]", "[] x"] {
            assert!(objects(Raw(text)).is_none(), "{text}");
        }
    }

    #[test]
    fn the_end_of_a_string_is_found_across_pieces() {
        let text = br#"a\\\"b\\"rest"#;
        for cut in 0..=8 {
            let (first, second) = text.split_at(cut);
            let escaped = string_end(first, false).unwrap_err();
            assert_eq!(string_end(second, escaped), Ok(9 - cut), "{cut}");
        }
    }
}
