//! What a subcommand runs with in addition to its arguments.

use std::io::Write;

use pollux_config::env::Env;
use pollux_domain::exit::ExitKind;
use pollux_domain::failure::Failure;
use pollux_domain::redact::redacted;
use pollux_domain::terminal_text::plain;
use pollux_host::prompter::Prompter;
use pollux_host::request::Request;

/// The request, environment, streams and prompter of a subcommand.
pub struct Context<'a> {
    pub request: &'a Request,
    pub env: &'a Env,
    /// Results.
    pub out: &'a mut dyn Write,
    /// Notes and warnings.
    pub err: &'a mut dyn Write,
    pub out_is_terminal: bool,
    pub err_is_terminal: bool,
    /// Whether to print notes about settings; an interactive session printed them when it started.
    pub shows_notes: bool,
    pub prompter: Prompter<'a>,
}

impl Context<'_> {
    /// Prints notes about settings.
    pub(crate) fn note(&mut self, lines: &[String]) {
        if self.shows_notes {
            self.warn(lines);
        }
    }

    /// Prints lines on stderr. Texts of others neither steer the terminal nor leak a key.
    pub(crate) fn warn(&mut self, lines: &[String]) {
        for line in lines {
            // A closed stderr cannot be reported.
            let _ = writeln!(self.err, "{}", redacted(&plain(line)));
        }
    }

    /// Asks for confirmation, unless `--yes` was given.
    pub(crate) fn agreed(&mut self, yes: bool, question: &str, plan: &str) -> Result<(), Failure> {
        if yes {
            return Ok(());
        }
        if !self.prompter.at_terminal {
            let text = format!(
                "{plan}
Cannot ask for confirmation without a terminal; nothing was changed."
            );
            return Err(Failure::new(ExitKind::Input, text).hint("use `--yes` to skip the question"));
        }
        if self.prompter.confirms(&format!(
            "{plan}
{question} [y/N] "
        )) {
            return Ok(());
        }
        Err(Failure::new(ExitKind::Failure, "Nothing was changed."))
    }
}
