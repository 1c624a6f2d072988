//! Tracks the possible values of variables and of the words that use them.
//!
//! Every value assigned anywhere in a command line counts wherever the variable is used, because loops and
//! functions make the order of the text unreliable.

use std::cell::Cell;
use std::collections::HashMap;

/// Limit of variants of one word.
const MAX_READINGS: usize = 32;
/// Limit of pieces examined in one command line.
const MAX_PIECES: usize = 20_000;
/// Limit of variables assigned from others in a chain.
const MAX_STEPS: usize = 8;

/// Environment variables that are not secret.
const PUBLIC: &[&str] = &[
    "HOME",
    "USER",
    "LOGNAME",
    "SHELL",
    "PATH",
    "OLDPWD",
    "LANG",
    "LANGUAGE",
    "TERM",
    "TZ",
    "HOSTNAME",
    "HOSTTYPE",
    "OSTYPE",
    "MACHTYPE",
    "BASH",
    "BASH_VERSION",
    "BASHOPTS",
    "SHELLOPTS",
    "EDITOR",
    "VISUAL",
    "PAGER",
    "DISPLAY",
    "TMPDIR",
    "VIRTUAL_ENV",
    "CONDA_DEFAULT_ENV",
    "CONDA_PREFIX",
    "CI",
    "NODE_ENV",
    "RUST_LOG",
    "RUST_BACKTRACE",
    "RUSTFLAGS",
    "CARGO_HOME",
    "CARGO_TARGET_DIR",
    "RUSTUP_HOME",
    "RUSTUP_TOOLCHAIN",
    "GOPATH",
    "GOROOT",
    "GOOS",
    "GOARCH",
    "JAVA_HOME",
    "MAVEN_HOME",
    "GRADLE_HOME",
    "NVM_DIR",
    "PYENV_ROOT",
    "PYTHONPATH",
    "NODE_PATH",
    "LD_LIBRARY_PATH",
    "MANPATH",
    "XDG_CONFIG_HOME",
    "XDG_DATA_HOME",
    "XDG_CACHE_HOME",
    "XDG_RUNTIME_DIR",
    "SHLVL",
    "COLORTERM",
    "NO_COLOR",
    "FORCE_COLOR",
    "CC",
    "CXX",
    "CFLAGS",
    "CXXFLAGS",
    "LDFLAGS",
    "MAKEFLAGS",
    "PIPESTATUS",
    "REPLY",
    "FUNCNAME",
    "BASH_SOURCE",
    "BASH_REMATCH",
    "DIRSTACK",
    "0",
    "-",
    "_",
];

/// Whether an environment variable may be shown.
pub(super) fn is_public(name: &str) -> bool {
    PUBLIC.contains(&name) || name.starts_with("LC_")
}

/// Variables that are always integers.
const NUMBERS: &[&str] = &[
    "?",
    "#",
    "$",
    "!",
    "RANDOM",
    "SRANDOM",
    "SECONDS",
    "LINENO",
    "UID",
    "EUID",
    "PPID",
    "BASHPID",
    "COLUMNS",
    "LINES",
    "EPOCHSECONDS",
    "BASH_SUBSHELL",
];

/// Represents the working directory until the rest of the word is known.
pub(super) const HERE: &str = "\u{1}";

/// Marks a sample for a list of names, which is several words where it is not quoted.
pub(super) const LIST: char = '\u{4}';

/// A piece of a word.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Piece {
    Text(String),
    Variable {
        name: String,
        quoted: bool,
        /// Whether it certainly has a value already.
        certain: bool,
    },
    /// Computed from other pieces, as `${x%.rs}` is.
    Derived {
        from: Vec<Piece>,
        quoted: bool,
    },
    /// The output of a command, with a sample word for it in every check if there is one.
    Output {
        quoted: bool,
        sample: Option<super::Sample>,
    },
    Number,
    /// Takes no room: other pieces are file name patterns.
    Globs,
    Unknown,
}

impl Piece {
    fn is_quoted(&self) -> bool {
        match self {
            Self::Variable { quoted, .. } | Self::Derived { quoted, .. } | Self::Output { quoted, .. } => {
                *quoted
            }
            Self::Text(_) | Self::Number | Self::Globs | Self::Unknown => false,
        }
    }
}

/// The possible values of a word.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum WordValue {
    /// One of these lists of words.
    Words(Vec<Vec<String>>),
    /// Text that is not secret, but otherwise arbitrary.
    Data(Datum),
    Unknown,
}

/// A word that contains data.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Datum {
    /// Its index among the words.
    pub at: usize,
    /// Whether it stays one word.
    pub single: bool,
    /// Whether it starts with text, so that it is not an option.
    pub leads: bool,
}

/// A value assigned to a variable.
#[derive(Debug, Clone)]
pub(super) enum Value {
    Pieces(Vec<Piece>),
    /// Each of the words that these pieces make.
    Each(Vec<Piece>),
    /// A file name that a pattern matches.
    Pattern(String),
    Number,
    Data,
    Unknown,
}

impl Value {
    /// The value of an assignment: nothing is split there.
    pub(super) fn assigned(mut pieces: Vec<Piece>) -> Self {
        for piece in &mut pieces {
            if let Piece::Variable { quoted, .. }
            | Piece::Derived { quoted, .. }
            | Piece::Output { quoted, .. } = piece
            {
                *quoted = true;
            }
        }
        Self::Pieces(pieces)
    }
}

/// The variables of a command line.
#[derive(Debug, Default)]
pub(super) struct Variables {
    given: HashMap<String, Vec<Value>>,
    /// Names that certainly have a value at the current position.
    pub(super) certain: Vec<String>,
    /// Whether `$1` and the like are given.
    pub(super) parameters: bool,
    /// The number of pieces examined.
    looked: Cell<usize>,
}

impl Variables {
    pub(super) fn give(&mut self, name: &str, value: Value) {
        let values = self.given.entry(name.to_owned()).or_default();
        if values.len() <= MAX_READINGS {
            values.push(value);
        }
    }

    /// Whether arithmetic on a variable is harmless: bash evaluates any text in it.
    pub(super) fn is_number(&self, name: &str) -> bool {
        let piece = Piece::Variable { name: name.to_owned(), quoted: true, certain: false };
        let number = |text: &str| text.is_empty() || text.len() < 18 && text.parse::<i64>().is_ok();
        match self.readings(std::slice::from_ref(&piece), 0) {
            Reading::Texts(texts) => texts.iter().all(|words| words.iter().all(|word| number(word))),
            _ => false,
        }
    }

    /// The possible values of a word made of these pieces.
    pub(super) fn standing(&self, at: usize, pieces: &[Piece]) -> WordValue {
        match self.readings(pieces, 0) {
            Reading::Texts(mut readings) => {
                let placed = readings.iter_mut().flatten().all(settle);
                if placed { WordValue::Words(readings) } else { WordValue::Unknown }
            }
            Reading::Data => {
                let leads = matches!(pieces.first(), Some(Piece::Text(text)) if !text.starts_with('-') && !text.is_empty());
                WordValue::Data(Datum { at, single: pieces.iter().all(|piece| self.stays_one(piece)), leads })
            }
            Reading::Unknown => WordValue::Unknown,
        }
    }

    fn stays_one(&self, piece: &Piece) -> bool {
        match piece {
            Piece::Text(_) | Piece::Number | Piece::Globs => true,
            Piece::Variable { quoted, .. } | Piece::Derived { quoted, .. } | Piece::Output { quoted, .. } => {
                *quoted
            }
            Piece::Unknown => false,
        }
    }

    fn readings(&self, pieces: &[Piece], step: usize) -> Reading {
        let mut all = vec![Draft::default()];
        let mut data = false;
        let mut globs = false;
        let joined = pieces.iter().filter(|piece| !matches!(piece, Piece::Globs)).count() > 1;
        for piece in pieces {
            self.looked.set(self.looked.get() + 1);
            if self.looked.get() > MAX_PIECES {
                return Reading::Unknown;
            }
            let (texts, quoted) = match piece {
                Piece::Text(text) => (Texts::one(text), true),
                Piece::Number => (Texts::one("1"), true),
                Piece::Globs => {
                    globs = true;
                    continue;
                }
                Piece::Output { sample: Some(sample), .. } => (Texts::one(sample), true),
                Piece::Output { .. } => (Texts::Data, false),
                Piece::Derived { from, .. } => match self.readings(from, step) {
                    Reading::Unknown => return Reading::Unknown,
                    _ => (Texts::Data, false),
                },
                Piece::Variable { name, quoted, certain } => (self.texts(name, *certain, step), *quoted),
                Piece::Unknown => return Reading::Unknown,
            };
            match texts {
                Texts::Unknown => return Reading::Unknown,
                Texts::Data => data = true,
                // Only the first and the last name would be a part of the word.
                Texts::Some(texts) if joined && texts.iter().any(|text| falls_apart(text, quoted)) => {
                    return Reading::Unknown;
                }
                Texts::Some(texts) if data || all.len() * texts.len() > MAX_READINGS => data = true,
                Texts::Some(texts) => {
                    all = all
                        .iter()
                        .flat_map(|draft| texts.iter().map(|text| draft.with(text, quoted)))
                        .collect();
                }
            }
        }
        if data {
            // Files anywhere could be listed.
            return if globs { Reading::Unknown } else { Reading::Data };
        }
        Reading::Texts(all.into_iter().map(Draft::finish).collect())
    }

    fn texts(&self, name: &str, certain: bool, step: usize) -> Texts {
        if step >= MAX_STEPS {
            return Texts::Unknown;
        }
        let Some(values) = self.given.get(name) else { return self.outside(name) };
        let mut all = Vec::new();
        let mut data = false;
        if !certain {
            if !super::variables::may_be_exported(name) {
                all.push(String::new());
            } else {
                match self.outside(name) {
                    Texts::Some(texts) => all.extend(texts),
                    Texts::Data => data = true,
                    Texts::Unknown => return Texts::Unknown,
                }
            }
        }
        for value in values {
            match value {
                Value::Number => all.push("1".to_owned()),
                Value::Pattern(pattern) => all.push(pattern.clone()),
                Value::Data => data = true,
                Value::Unknown => return Texts::Unknown,
                Value::Pieces(pieces) | Value::Each(pieces) => match self.readings(pieces, step + 1) {
                    Reading::Texts(texts) if matches!(value, Value::Each(_)) => {
                        // In quotes a list stays one word.
                        let whole = pieces.iter().any(Piece::is_quoted);
                        let one = |text: String| if whole { text } else { text.replace(LIST, "") };
                        all.extend(texts.into_iter().flatten().map(one))
                    }
                    Reading::Texts(texts) => all.extend(texts.into_iter().map(|words| words.concat())),
                    Reading::Data => data = true,
                    Reading::Unknown => return Texts::Unknown,
                },
            }
            if all.len() > MAX_READINGS {
                data = true;
            }
        }
        if data {
            return Texts::Data;
        }
        all.sort_unstable();
        all.dedup();
        Texts::Some(all)
    }

    /// A variable that the command does not set.
    fn outside(&self, name: &str) -> Texts {
        let is_parameter = matches!(name, "@" | "*") || name.starts_with(|c: char| ('1'..='9').contains(&c));
        match name {
            // Wherever it is used.
            "PWD" => Texts::one(HERE),
            _ if NUMBERS.contains(&name) => Texts::one("1"),
            _ if is_parameter && !self.parameters => Texts::one(""),
            _ if is_public(name) => Texts::Data,
            _ => Texts::Unknown,
        }
    }
}

/// Whether a text may become several words, of which only the first and the last join others.
fn falls_apart(text: &str, quoted: bool) -> bool {
    text.contains(LIST) || !quoted && text.contains(['*', '?', '[', super::ANY_NAME, super::ANY_FOLDERS])
}

/// Writes the working directory as `.`; false if it is part of another name.
fn settle(word: &mut String) -> bool {
    match word.strip_prefix(HERE) {
        Some(rest) if rest.is_empty() || rest.starts_with('/') => *word = format!(".{rest}"),
        _ => {}
    }
    if word.ends_with(LIST) {
        word.pop();
    }
    !word.contains(HERE) && !word.contains(LIST)
}

enum Reading {
    Texts(Vec<Vec<String>>),
    Data,
    Unknown,
}

enum Texts {
    Some(Vec<String>),
    Data,
    Unknown,
}

impl Texts {
    fn one(text: &str) -> Self {
        Self::Some(vec![text.to_owned()])
    }
}

/// A word being split into several as bash does.
#[derive(Debug, Clone, Default)]
struct Draft {
    done: Vec<String>,
    current: String,
    kept: bool,
}

impl Draft {
    fn with(&self, text: &str, quoted: bool) -> Self {
        let mut next = self.clone();
        if quoted {
            next.current.push_str(text);
            next.kept = true;
            return next;
        }
        for c in text.chars() {
            if matches!(c, ' ' | '\t' | '\n') {
                next.cut();
            } else {
                next.current.push(c);
            }
        }
        next
    }

    fn cut(&mut self) {
        if self.kept || !self.current.is_empty() {
            self.done.push(std::mem::take(&mut self.current));
        }
        self.kept = false;
    }

    fn finish(mut self) -> Vec<String> {
        self.cut();
        self.done
    }
}
