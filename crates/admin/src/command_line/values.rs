//! Values of arguments, and what is expected of them.

use std::error::Error;
use std::ffi::OsStr;
use std::fmt;

use clap::builder::{PossibleValuesParser, StringValueParser, TypedValueParser};
use clap::error::{ContextKind, ContextValue, ErrorKind};
use clap::{Arg, Command};
use pollux_domain::approval::ApprovalMode;
use pollux_host::request::Scope;

/// What a value should have been; follows "expected".
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Expected {
    pub(crate) what: String,
    /// Whether the value may be repeated in the message. Values that can hold secrets are not.
    pub(crate) shows_given: bool,
}

impl Expected {
    pub(crate) fn new(what: impl Into<String>) -> Self {
        Self { what: what.into(), shows_given: true }
    }

    pub(crate) fn without_value(what: impl Into<String>) -> Self {
        Self { what: what.into(), shows_given: false }
    }
}

impl fmt::Display for Expected {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(&self.what)
    }
}

impl Error for Expected {}

/// A number above 0.
pub(crate) fn count<T: std::str::FromStr + PartialOrd + Default>(text: &str) -> Result<T, Expected> {
    let number = text.parse::<T>().ok().filter(|number| *number > T::default());
    number.ok_or_else(|| Expected::new("a positive number"))
}

/// `user` or `project`: the settings file to change.
pub(crate) fn scopes() -> impl TypedValueParser<Value = Scope> {
    PossibleValuesParser::new(["user", "project"])
        .map(|name| if name == "project" { Scope::Project } else { Scope::User })
}

/// The approval modes by name.
pub fn approval_modes() -> impl TypedValueParser<Value = ApprovalMode> {
    PossibleValuesParser::new(["default", "auto_edit", "yolo", "plan"])
        .map(|name| name.parse().unwrap_or_default())
}

/// The name of a variable. Anything else may be a key pasted by mistake, so it is not repeated.
pub fn variable_names() -> impl TypedValueParser<Value = String> {
    StringValueParser::new().try_map(|text| {
        let is_name = text.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_')
            && text.bytes().next().is_some_and(|first| !first.is_ascii_digit());
        if is_name {
            Ok(text)
        } else {
            Err(Expected::without_value("the name of an environment variable, not a key"))
        }
    })
}

/// A list, separated by commas, with at least one item and no empty ones.
pub fn full_lists(expected: &'static str) -> impl TypedValueParser<Value = String> {
    StringValueParser::new().try_map(move |text| {
        let is_full = text.split(',').all(|item| !item.trim().is_empty());
        if is_full { Ok(text) } else { Err(Expected::new(expected)) }
    })
}

/// The items of a repeated option whose values may hold several, separated by commas.
///
/// Items are trimmed and empty ones dropped; a lone empty value stays, as gemini-cli keeps it.
pub fn items(values: &[String]) -> Vec<String> {
    if let [only] = values
        && only.is_empty()
    {
        return vec![String::new()];
    }
    let items = values.iter().flat_map(|value| value.split(','));
    items.map(str::trim).filter(|item| !item.is_empty()).map(str::to_owned).collect()
}

/// A text without the white space around it; nothing but white space counts as missing.
#[derive(Debug, Clone, Copy)]
pub(crate) struct FilledParser;

impl TypedValueParser for FilledParser {
    type Value = String;

    fn parse_ref(&self, cmd: &Command, arg: Option<&Arg>, value: &OsStr) -> Result<String, clap::Error> {
        let text = StringValueParser::new().parse_ref(cmd, arg, value)?;
        if !text.trim().is_empty() {
            return Ok(text.trim().to_owned());
        }
        let mut error = clap::Error::new(ErrorKind::MissingRequiredArgument).with_cmd(cmd);
        let name = arg.map(ToString::to_string).unwrap_or_default();
        error.insert(ContextKind::InvalidArg, ContextValue::Strings(vec![name]));
        Err(error)
    }
}

/// Any text, also one that begins with a dash, except the flags that ask for help.
#[derive(Debug, Clone, Copy)]
pub(crate) struct PossiblyHelpParser;

impl TypedValueParser for PossiblyHelpParser {
    type Value = String;

    fn parse_ref(&self, cmd: &Command, arg: Option<&Arg>, value: &OsStr) -> Result<String, clap::Error> {
        let text = StringValueParser::new().parse_ref(cmd, arg, value)?;
        match text.as_str() {
            "--help" | "-h" => Err(clap::Error::new(ErrorKind::DisplayHelp).with_cmd(cmd)),
            _ => Ok(text),
        }
    }
}
