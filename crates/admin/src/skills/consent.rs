//! What a person hears and is asked while skills are installed.

use pollux_domain::terminal_text::plain;
use pollux_host::prompter::Prompter;

/// Says what is being done.
pub(super) fn say(prompter: &mut Prompter<'_>, text: &str) {
    // A closed stderr cannot be reported.
    let _ = writeln!(prompter.screen, "{}", plain(text));
}

/// Whether the user approves this text; `None` without a terminal. With consent given in advance it is only shown.
pub(super) fn agrees(consented: bool, text: &str, prompter: &mut Prompter<'_>) -> Option<bool> {
    if consented {
        say(prompter, &format!("You have consented to the following:\n{text}"));
        return Some(true);
    }
    say(prompter, text);
    prompter.show("Do you want to continue? [Y/n]: ");
    let answer = prompter.line()?;
    Some(matches!(answer.to_lowercase().as_str(), "" | "y" | "yes"))
}
