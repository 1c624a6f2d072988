//! JSON with comments: strict otherwise, and with line numbers.

use std::collections::HashMap;

use jsonc_parser::ast::{self, Object};
use jsonc_parser::errors::{ParseError, ParseErrorKind};
use jsonc_parser::{
    CollectOptions, CommentCollectionStrategy, ParseOptions, ParseStringErrorKind, parse_to_ast,
};
use serde_json::{Map, Number, Value};

const BOM: char = '\u{feff}';

/// Strict JSON apart from comments, as upstream reads its files.
const OPTIONS: ParseOptions = ParseOptions {
    allow_comments: true,
    allow_loose_object_property_names: false,
    allow_trailing_commas: false,
    allow_missing_commas: false,
    allow_single_quoted_strings: false,
    allow_hexadecimal_numbers: false,
    allow_unary_plus_numbers: false,
    allow_bare_decimal_point_numbers: false,
    allow_non_finite_numbers: false,
    allow_extended_string_escapes: false,
};

const COLLECT: CollectOptions = CollectOptions { comments: CommentCollectionStrategy::Off, tokens: false };

/// Names that would reach into the object itself in JavaScript; upstream drops them, so they mean nothing.
const RESERVED: [&str; 3] = ["__proto__", "constructor", "prototype"];

/// What is wrong with a text and what to do about it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Defect {
    /// Counted from 1; `None` when the whole text is meant.
    pub(crate) line: Option<u32>,
    pub(crate) column: Option<u32>,
    pub(crate) reason: String,
    pub(crate) fix: String,
}

/// A parsed text.
#[derive(Debug)]
pub(crate) struct Document {
    pub(crate) value: Value,
    pub(crate) lines: Lines,
}

/// On which line each key is, by dotted path (`tools.core[1]`).
#[derive(Debug, Default)]
pub(crate) struct Lines(HashMap<String, u32>);

impl Lines {
    pub(crate) fn get(&self, path: &str) -> Option<u32> {
        self.0.get(path).copied()
    }
}

pub(crate) fn is_reserved(name: &str) -> bool {
    RESERVED.contains(&name)
}

/// The text without a byte order mark.
pub(crate) fn strip_bom(text: &str) -> &str {
    text.strip_prefix(BOM).unwrap_or(text)
}

/// Parses a text whose top level is an object.
pub(crate) fn parse(text: &str) -> Result<Document, Defect> {
    let text = strip_bom(text);
    let root = object(text)?;
    let mut reader = Reader { text, starts: line_starts(text), lines: HashMap::new() };
    let mut path = String::new();
    let value = Value::Object(reader.object(&root, &mut path)?);
    Ok(Document { value, lines: Lines(reader.lines) })
}

/// The top-level object of a text without a byte order mark.
pub(crate) fn object(text: &str) -> Result<Object<'_>, Defect> {
    match parse_to_ast(text, &COLLECT, &OPTIONS) {
        Ok(parsed) => match parsed.value {
            Some(ast::Value::Object(object)) => Ok(object),
            None => Err(Defect {
                line: None,
                column: None,
                reason: "the file is empty".to_owned(),
                fix: "write `{}` into it, or delete it".to_owned(),
            }),
            Some(_) => Err(Defect {
                line: None,
                column: None,
                // Upstream's text.
                reason: "Settings file is not a valid JSON object.".to_owned(),
                fix: "enclose the settings in `{ … }`".to_owned(),
            }),
        },
        Err(error) => Err(defect(&error)),
    }
}

struct Reader<'t> {
    text: &'t str,
    starts: Vec<usize>,
    lines: HashMap<String, u32>,
}

impl Reader<'_> {
    fn object(&mut self, object: &Object<'_>, path: &mut String) -> Result<Map<String, Value>, Defect> {
        let mut map = Map::new();
        for property in &object.properties {
            let name = property.name.as_str();
            if is_reserved(name) {
                continue;
            }
            let length = path.len();
            if !path.is_empty() {
                path.push('.');
            }
            path.push_str(name);
            self.lines.insert(path.clone(), self.line_of(property.range.start));
            let value = self.value(&property.value, path)?;
            // Of two equal names the later one counts, as in JavaScript.
            map.insert(name.to_owned(), value);
            path.truncate(length);
        }
        Ok(map)
    }

    fn value(&mut self, value: &ast::Value<'_>, path: &mut String) -> Result<Value, Defect> {
        Ok(match value {
            ast::Value::Object(object) => Value::Object(self.object(object, path)?),
            ast::Value::Array(array) => {
                let mut items = Vec::with_capacity(array.elements.len());
                for (index, element) in array.elements.iter().enumerate() {
                    let length = path.len();
                    path.push_str(&format!("[{index}]"));
                    let start = jsonc_parser::common::Ranged::range(element).start;
                    self.lines.insert(path.clone(), self.line_of(start));
                    items.push(self.value(element, path)?);
                    path.truncate(length);
                }
                Value::Array(items)
            }
            ast::Value::StringLit(literal) => {
                self.check_string(literal)?;
                Value::String(literal.value.to_string())
            }
            ast::Value::NumberLit(literal) => match literal.value.parse::<Number>() {
                Ok(number) => Value::Number(number),
                Err(_) => {
                    let reason = format!("number out of range: `{}`", literal.value);
                    return Err(self.defect_at(literal.range.start, reason, "use a smaller number"));
                }
            },
            ast::Value::BooleanLit(literal) => Value::Bool(literal.value),
            ast::Value::NullKeyword(_) => Value::Null,
        })
    }

    /// The parser lets a string run over the end of its line, which nearly always is a lost quote.
    fn check_string(&self, literal: &ast::StringLit<'_>) -> Result<(), Defect> {
        let raw = self.text.get(literal.range.start..literal.range.end).unwrap_or_default();
        match raw.bytes().position(|byte| byte < 0x20) {
            None => Ok(()),
            Some(_) => Err(self.defect_at(
                literal.range.start,
                "line break or control character in a string".to_owned(),
                "close the string with `\"` on the same line, or write `\\n`",
            )),
        }
    }

    fn defect_at(&self, offset: usize, reason: String, fix: &str) -> Defect {
        let line = self.line_of(offset);
        let start = self.starts.get(line as usize - 1).copied().unwrap_or_default();
        let column = self.text.get(start..offset).map_or(1, |before| before.chars().count() + 1);
        Defect {
            line: Some(line),
            column: Some(u32::try_from(column).unwrap_or(u32::MAX)),
            reason,
            fix: fix.to_owned(),
        }
    }

    fn line_of(&self, offset: usize) -> u32 {
        let line = self.starts.partition_point(|start| *start <= offset);
        u32::try_from(line.max(1)).unwrap_or(u32::MAX)
    }
}

fn line_starts(text: &str) -> Vec<usize> {
    let after_newlines = text.bytes().enumerate().filter(|(_, byte)| *byte == b'\n').map(|(at, _)| at + 1);
    std::iter::once(0).chain(after_newlines).collect()
}

fn defect(error: &ParseError) -> Defect {
    let (reason, fix) = explain(error.kind());
    Defect {
        line: u32::try_from(error.line_display()).ok(),
        column: u32::try_from(error.column_display()).ok(),
        reason,
        fix: fix.to_owned(),
    }
}

fn explain(kind: &ParseErrorKind) -> (String, &'static str) {
    use ParseErrorKind as Kind;
    let (reason, fix) = match kind {
        Kind::TrailingCommasNotAllowed => ("trailing comma", "remove the trailing comma"),
        Kind::ExpectedComma => ("missing comma", "put a `,` between the two entries"),
        Kind::ExpectedColonAfterObjectKey => ("missing `:` after a key", "write `\"key\": value`"),
        Kind::ExpectedObjectValue => ("missing value after `:`", "write `\"key\": value`"),
        Kind::ExpectedStringObjectProperty => ("unquoted key", "put the key in double quotes"),
        Kind::SingleQuotedStringsNotAllowed => ("single quotes", "use double quotes"),
        Kind::UnterminatedObject => ("unclosed `{`", "add the missing `}`"),
        Kind::UnterminatedArray => ("unclosed `[`", "add the missing `]`"),
        Kind::UnterminatedCommentBlock => ("unclosed `/*` comment", "add the missing `*/`"),
        Kind::UnexpectedComma => ("unexpected comma", "remove the comma, or write the missing value"),
        Kind::UnexpectedCloseBrace => ("unexpected `}`", "remove it, or write the missing value"),
        Kind::UnexpectedCloseBracket => ("unexpected `]`", "remove it, or write the missing value"),
        Kind::UnexpectedWord | Kind::UnexpectedToken => ("unquoted text", "put text in double quotes"),
        Kind::MultipleRootJsonValues => {
            ("text after the end of the object", "remove everything after the last `}`")
        }
        Kind::NestingDepthExceeded => ("nested too deeply", "use fewer levels"),
        Kind::String(ParseStringErrorKind::UnterminatedStringLiteral) => {
            ("unclosed string", "add the missing `\"`")
        }
        Kind::String(_) => ("invalid escape in a string", "write a backslash as `\\\\`"),
        Kind::BareDecimalPointNumbersNotAllowed
        | Kind::CommentsNotAllowed
        | Kind::ExpectedDigit
        | Kind::ExpectedDigitFollowingNegativeSign
        | Kind::ExpectedPlusMinusOrDigitInNumberLiteral
        | Kind::HexadecimalNumbersNotAllowed
        | Kind::NonFiniteNumbersNotAllowed
        | Kind::UnaryPlusNumbersNotAllowed
        | Kind::UnexpectedColon
        | Kind::UnexpectedTokenInObject => {
            return (kind.to_string().to_lowercase(), "correct the syntax here");
        }
        #[expect(unreachable_patterns, reason = "a variant exists only with a feature we do not use")]
        _ => return (kind.to_string(), "correct the syntax here"),
    };
    (reason.to_owned(), fix)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn told(text: &str) -> (Option<u32>, Option<u32>, String) {
        let defect = parse(text).unwrap_err();
        (defect.line, defect.column, defect.reason)
    }

    #[test]
    fn a_defect_names_its_line_and_column() {
        assert_eq!(told("{\n  \"a\": 1,\n}"), (Some(2), Some(9), "trailing comma".to_owned()));
        assert_eq!(told("{\n\"a\": [1,\n2,]\n}"), (Some(3), Some(2), "trailing comma".to_owned()));
        assert_eq!(told("{\"a\": 1 \"b\": 2}"), (Some(1), Some(8), "missing comma".to_owned()));
        assert_eq!(told("{a: 1}"), (Some(1), Some(2), "unquoted key".to_owned()));
        assert_eq!(told("{'a': 1}").2, "single quotes");
        assert_eq!(
            told("{\"a\": \"x\n\"}"),
            (Some(1), Some(7), "line break or control character in a string".to_owned())
        );
        assert_eq!(told("{\"a\": nope}").2, "unquoted text");
        assert_eq!(told("{\"a\": yes}").2, "unquoted text");
        assert_eq!(told("{\"a\": 1").2, "unclosed `{`");
        assert_eq!(told("{} {}").2, "text after the end of the object");
        assert_eq!(told(""), (None, None, "the file is empty".to_owned()));
        assert_eq!(told(" // only this\n").2, "the file is empty");
        assert_eq!(told("[1]").2, "Settings file is not a valid JSON object.");
    }

    #[test]
    fn comments_a_mark_and_repeated_keys_are_read_as_upstream_reads_them() {
        let document =
            parse("\u{feff}{ // one\n \"a\": /* two */ 1,\n \"a\": [true,\n \"$X\"], \"__proto__\": {} }")
                .unwrap();
        assert_eq!(document.value, serde_json::json!({"a": [true, "$X"]}));
        assert_eq!((document.lines.get("a"), document.lines.get("a[1]")), (Some(3), Some(4)));
    }

    proptest::proptest! {
        #[test]
        fn no_text_makes_it_panic(text in "[{}\\[\\],:\"'/*\\\\a0.eE+\\-tn \n\u{e9}]{0,40}") {
            let _ = parse(&text);
        }
    }

    #[test]
    fn deep_nesting_is_an_error_and_not_a_crash() {
        let text = format!("{{\"a\":{}", "[".repeat(100_000));
        assert_eq!(told(&text).2, "nested too deeply");
    }
}
