//! What a subcommand is given beside its arguments.

use std::io::Write;

use pollux_config::env::Env;
use pollux_domain::exit::ExitKind;
use pollux_domain::failure::Failure;
use pollux_domain::redact::redacted;
use pollux_domain::terminal_text::plain;
use pollux_host::prompter::Prompter;
use pollux_host::request::Request;

/// Where a subcommand runs, where it speaks, and who can be asked.
pub struct Context<'a> {
    pub request: &'a Request,
    pub env: &'a Env,
    /// Results.
    pub out: &'a mut dyn Write,
    /// Lines beside them.
    pub err: &'a mut dyn Write,
    pub out_is_terminal: bool,
    pub err_is_terminal: bool,
    /// Whether to say what was found in settings on the way; a conversation said it when it began.
    pub shows_notes: bool,
    pub prompter: Prompter<'a>,
}

impl Context<'_> {
    /// Lines about what was found in settings.
    pub(crate) fn note(&mut self, lines: &[String]) {
        if self.shows_notes {
            self.warn(lines);
        }
    }

    /// Lines beside the result: texts of others neither steer the terminal nor spill a key.
    pub(crate) fn warn(&mut self, lines: &[String]) {
        for line in lines {
            // Nobody can be told when stderr is gone.
            let _ = writeln!(self.err, "{}", redacted(&plain(line)));
        }
    }

    /// Whether it may be done: `--yes`, or a person's word.
    pub(crate) fn agreed(&mut self, yes: bool, question: &str, plan: &str) -> Result<(), Failure> {
        if yes {
            return Ok(());
        }
        if !self.prompter.at_terminal {
            let text = format!(
                "{plan}
Nobody can be asked, because this is no terminal; nothing was changed."
            );
            return Err(Failure::new(ExitKind::Input, text).hint("`--yes` does it without a question"));
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
