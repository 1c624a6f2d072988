//! Exit codes.

/// The exit codes that scripts rely on; the numbers are upstream's.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ExitKind {
    Success,
    /// Usage errors, API failures and everything unexpected.
    Failure,
    /// No usable credentials.
    Auth,
    /// No prompt, a session that cannot be resumed, …
    Input,
    /// The sandbox cannot be used.
    Sandbox,
    /// A settings file cannot be used.
    Config,
    /// `model.maxSessionTurns` or a budget is reached.
    TurnLimit,
    /// A tool hit something the run cannot survive, such as a full disk.
    Tool,
    /// The folder is not trusted.
    Untrusted,
    /// Cancelled by the user.
    Cancelled,
    /// Ended by a signal, with its number.
    Signal(u8),
    /// A program that was run for the user failed with this code; it has reported its failure itself.
    Program(u8),
    /// A program that the user named could not be started, with the code of a shell.
    NotStarted(u8),
}

impl ExitKind {
    /// The number given to the operating system.
    pub fn code(self) -> u8 {
        match self {
            Self::Success => 0,
            Self::Failure => 1,
            Self::Auth => 41,
            Self::Input => 42,
            Self::Sandbox => 44,
            Self::Config => 52,
            Self::TurnLimit => 53,
            Self::Tool => 54,
            Self::Untrusted => 55,
            Self::Cancelled => 130,
            Self::Signal(number) => 128u8.saturating_add(number),
            Self::Program(code) | Self::NotStarted(code) => code,
        }
    }
}

/// A signal that ends a run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Received {
    Interrupt,
    Terminate,
    HangUp,
}

impl Received {
    /// The exit code a shell expects after this signal.
    pub fn exit(self) -> ExitKind {
        match self {
            Self::Interrupt => ExitKind::Cancelled,
            Self::Terminate => ExitKind::Signal(15),
            Self::HangUp => ExitKind::Signal(1),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn exit_codes_after_signals_are_those_of_a_shell() {
        assert_eq!(Received::Interrupt.exit().code(), 130);
        assert_eq!(Received::Terminate.exit().code(), 143);
        assert_eq!(Received::HangUp.exit().code(), 129);
    }
}
