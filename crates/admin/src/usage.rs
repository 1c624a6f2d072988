//! Command lines that cannot be followed.

use std::ffi::OsStr;

use pollux_domain::exit::ExitKind;
use pollux_domain::failure::Failure;
use pollux_domain::id::BadSessionId;

/// Why a command line was refused. Texts that upstream also prints are its own.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub enum UsageError {
    #[error("argument {position} is not valid UTF-8: `{shown}`")]
    NotUtf8 { position: usize, shown: String },
    #[error("Unknown argument: {0}")]
    UnknownFlag(String),
    #[error("{}", missing(.0))]
    MissingValue(String),
    #[error("missing argument `{0}`")]
    MissingArgument(String),
    #[error("the flag `{flag}` takes `true` or `false`, not `{given}`")]
    NotBoolean { flag: String, given: String },
    #[error("Invalid values:\n  Argument: {argument}, Given: \"{given}\", Choices: {}", quoted(choices))]
    NotAChoice { argument: &'static str, given: String, choices: &'static [&'static str] },
    #[error(
        "The flags --resume, --session-id, and --session-file are mutually exclusive. Please provide only one."
    )]
    SeveralSessions,
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
    #[error("`--args` takes a JSON object: {0}")]
    NotAnObject(String),
    #[error("`{flag}` takes a number above 0, not `{given}`")]
    NotACount { flag: &'static str, given: String },
    #[error("say what goes back: `--conversation`, `--files` or `--both`")]
    RewindWhat,
    #[error("say what is to be forgotten: one of `--path`, `--session` and `--query`")]
    ForgetWhat,
    #[error("`--lines` takes lines from 1 on, such as `10-40`, `10-` or `10`, not `{0}`")]
    NotLines(String),
    #[error("`{0}` needs `--resume`")]
    OnlyWithResume(&'static str),
    #[error("`{0}` needs a subcommand")]
    MissingSubcommand(&'static str),
    #[error("say which extension: a name, or --all")]
    NoExtension,
    #[error("a key is not given as an argument, where it would stay in the shell's history")]
    KeyAsArgument,
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

    /// Whether the help text follows: only where it helps to find the mistake.
    pub fn shows_help(&self) -> bool {
        !matches!(
            self,
            Self::InteractivePiped
                | Self::FlagUnavailable { .. }
                | Self::CommandUnavailable { .. }
                | Self::NotUtf8 { .. }
                | Self::NotAnObject(_)
                | Self::NotACount { .. }
                | Self::RewindWhat
                | Self::ForgetWhat
                | Self::NotLines(_)
                | Self::OnlyWithResume(_)
                | Self::KeyAsArgument
                | Self::NoExtension
        )
    }

    /// Whether the command's usage line says all that is needed.
    pub fn shows_usage_line(&self) -> bool {
        match self {
            Self::MissingArgument(_) => true,
            Self::MissingValue(name) => !name.starts_with('-'),
            _ => false,
        }
    }

    /// What to do instead.
    pub fn hint(&self) -> Option<String> {
        match self {
            Self::NotUtf8 { .. } => Some("give the text on stdin instead, or name the file inside it".into()),
            Self::CommandUnavailable { name } => {
                Some(format!("to send these words to the model, write `pollux -p \"{name} …\"`"))
            }
            Self::KeyAsArgument => {
                Some("`pollux auth login` asks for it; `--api-key-stdin` reads it from a pipe".into())
            }
            Self::NoExtension => Some("`pollux extensions list` shows them".into()),
            _ => None,
        }
    }
}

/// A name without dashes is an argument's, not an option's.
fn missing(name: &str) -> String {
    if name.starts_with('-') {
        format!("the option `{name}` needs a value")
    } else {
        format!("missing argument `{name}`")
    }
}

fn quoted(choices: &[&str]) -> String {
    choices.iter().map(|choice| format!("\"{choice}\"")).collect::<Vec<_>>().join(", ")
}
