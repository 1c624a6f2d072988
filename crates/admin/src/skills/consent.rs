//! What a person hears and is asked while skills are installed.

use pollux_domain::terminal_text::plain;
use pollux_host::prompter::Prompter;

/// Says what is being done.
pub(super) fn say(prompter: &mut Prompter<'_>, text: &str) {
    // Nobody can be told when stderr is gone.
    let _ = writeln!(prompter.screen, "{}", plain(text));
}

/// Whether a person agrees to this text, `None` if nobody is there; somebody who consented before is only told.
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
