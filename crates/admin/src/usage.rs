//! Command lines that cannot be followed.

use std::ffi::OsStr;

use pollux_domain::exit::ExitKind;
use pollux_domain::failure::Failure;
use pollux_domain::id::BadSessionId;

/// Why a command line was refused. Texts that gemini-cli also prints are its own.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub enum UsageError {
    #[error("argument {position} is not valid UTF-8: `{shown}`")]
    NotUtf8 { position: usize, shown: String },
    #[error("Unknown argument: {given}")]
    Unknown {
        given: String,
        /// An option.
        nearest: Option<String>,
    },
    #[error("unknown command `{given}`")]
    UnknownCommand {
        given: String,
        nearest: String,
        /// All the words, should they be a prompt.
        words: String,
    },
    /// A command of a similar program, given to this one.
    #[error("unknown command `{given}`")]
    ForeignCommand {
        given: String,
        /// What to do here instead.
        instead: &'static str,
    },
    #[error("unknown command `{given}`")]
    UnknownSubcommand {
        /// With the words before it.
        given: String,
        nearest: Option<String>,
    },
    #[error("missing value for `{0}`")]
    MissingValue(String),
    #[error("missing argument `{0}`")]
    MissingArgument(String),
    /// At least two.
    #[error("missing arguments {}", joined(.0))]
    MissingArguments(Vec<String>),
    #[error("invalid value{} for `{name}`: expected {expected}", in_backticks(given.as_deref()))]
    BadValue {
        name: String,
        /// `None` if it may be a secret.
        given: Option<String>,
        expected: String,
    },
    #[error("Invalid values:\n  Argument: {argument}, Given: \"{given}\", Choices: {}", quoted(choices))]
    NotAChoice { argument: String, given: String, choices: Vec<String> },
    #[error(
        "The flags --resume, --session-id, and --session-file are mutually exclusive. Please provide only one."
    )]
    SeveralSessions,
    #[error(
        "The flags --list-extensions, --list-sessions, and --delete-session are mutually exclusive. Please provide only one."
    )]
    SeveralActions,
    #[error("Cannot use both a positional prompt and the --prompt (-p) flag together")]
    WordsAndPrompt,
    #[error("Cannot use both --prompt (-p) and --prompt-interactive (-i) together")]
    PromptAndInteractive,
    #[error("Cannot use both --yolo (-y) and --approval-mode together. Use --approval-mode=yolo instead.")]
    YoloAndMode,
    #[error(transparent)]
    SessionId(#[from] BadSessionId),
    #[error("Error: The --prompt-interactive flag cannot be used when input is piped from stdin.")]
    InteractivePiped,
    #[error("`{flag}` is not available in this version")]
    FlagUnavailable { flag: &'static str },
    #[error("the command `{name}` is not available in this version")]
    CommandUnavailable { name: String },
    #[error("nothing to rewind: give `--conversation`, `--files` or `--both`")]
    RewindWhat,
    #[error("nothing to forget: give one of `--path`, `--session` and `--query`")]
    ForgetWhat,
    #[error("`{0}` requires `--resume`")]
    OnlyWithResume(&'static str),
    #[error("`{0}` needs a subcommand")]
    MissingSubcommand(String),
    #[error("no extension given: name one, or use `--all`")]
    NoExtension,
    #[error("API keys are not accepted as arguments, because they would stay in the shell history")]
    KeyAsArgument,
    #[error("API keys are not accepted as arguments, because they would stay in the shell history")]
    ProviderKeyAsArgument,
    #[error("{0}")]
    Malformed(String),
}

impl UsageError {
    pub fn not_utf8(position: usize, raw: &OsStr) -> Self {
        Self::NotUtf8 { position, shown: raw.to_string_lossy().into_owned() }
    }

    /// The exit code that goes with it.
    pub fn exit(&self) -> ExitKind {
        match self {
            Self::InteractivePiped => ExitKind::Input,
            _ => ExitKind::Failure,
        }
    }

    /// The failure that a refused command line is.
    pub fn failure(&self) -> Failure {
        Failure { hint: self.hint(), ..Failure::new(self.exit(), self.to_string()) }
    }

    /// Whether the command's help page follows: only where it lists what can stand in this place.
    pub fn shows_help(&self) -> bool {
        match self {
            Self::UnknownSubcommand { nearest, .. } => nearest.is_none(),
            Self::MissingSubcommand(_) => true,
            _ => false,
        }
    }

    /// Whether the hint names the command's help page, which would hide the mistake if it followed.
    pub fn names_help(&self) -> bool {
        match self {
            Self::Unknown { nearest, .. } => nearest.is_none(),
            Self::MissingValue(_) | Self::NotAChoice { .. } | Self::Malformed(_) => true,
            _ => false,
        }
    }

    /// Whether the command's usage line says all that is needed.
    pub fn shows_usage_line(&self) -> bool {
        matches!(self, Self::MissingArgument(_) | Self::MissingArguments(_))
    }

    /// What to do instead.
    pub fn hint(&self) -> Option<String> {
        match self {
            Self::NotUtf8 { .. } => {
                Some("pass the text on stdin, or write it to a file and name the file".into())
            }
            Self::Unknown { nearest: Some(nearest), .. } => Some(format!("did you mean `{nearest}`?")),
            Self::UnknownSubcommand { nearest: Some(nearest), .. } => {
                Some(format!("did you mean `pollux {nearest}`?"))
            }
            Self::UnknownCommand { nearest, words, .. } => Some(format!(
                "did you mean `pollux {nearest}`? To send this as a prompt, run `pollux -p \"{words}\"`"
            )),
            Self::ForeignCommand { given, instead } => {
                Some(format!("{instead}. To send this as a prompt, run `pollux -p \"{given}\"`"))
            }
            Self::CommandUnavailable { name } => {
                Some(format!("to send these words to the model, run `pollux -p \"{name} …\"`"))
            }
            Self::KeyAsArgument => Some(
                "run `pollux auth login`, or pipe the key into `pollux auth login --api-key-stdin`".into(),
            ),
            Self::ProviderKeyAsArgument => {
                Some("run `pollux providers login <id>`, or pipe the key into it".into())
            }
            Self::NoExtension => Some("run `pollux extensions list` to see the names".into()),
            _ => None,
        }
    }
}

/// `a`, `b` and `c`
fn joined(names: &[String]) -> String {
    let names: Vec<String> = names.iter().map(|name| format!("`{name}`")).collect();
    match names.split_last() {
        Some((last, [])) => last.clone(),
        Some((last, others)) => format!("{} and {last}", others.join(", ")),
        None => String::new(),
    }
}

/// After a space, if there is a value to show.
fn in_backticks(value: Option<&str>) -> String {
    value.map(|value| format!(" `{value}`")).unwrap_or_default()
}

fn quoted(choices: &[String]) -> String {
    choices.iter().map(|choice| format!("\"{choice}\"")).collect::<Vec<_>>().join(", ")
}
