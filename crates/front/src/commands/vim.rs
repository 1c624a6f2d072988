//! `/vim`: prompts as in vim, or no longer.

use pollux_host::request::Scope;

use crate::Front;
use crate::face::Kind;
use crate::screen::{Message, is_on};

const KEY: &str = "general.vimMode";

impl Front<'_, '_> {
    /// Turns it around, now and for later conversations.
    pub(super) fn vim(&mut self) {
        let (options, env) = (self.turn.request, &self.turn.loaded.env);
        let changed = pollux_host::load_settings(options, env).and_then(|loaded| {
            let on = !is_on(&loaded.settings, KEY);
            pollux_host::settings::settings(options, env)?.set(KEY, &on.to_string(), Scope::User)?;
            Ok(on)
        });
        let on = match changed {
            Ok(on) => on,
            Err(failure) => return self.face.complain(&failure.message()),
        };
        let word = if on { "on" } else { "off" };
        match &self.face.kind {
            Kind::Screen(screen) => {
                screen.tell(Message::Vim(on));
                self.face.note(&format!("Vim mode is {word}."));
            }
            Kind::Lines(_) => {
                self.face.note(&format!("Vim mode is {word}; it counts on the screen, not in plain lines."))
            }
        }
    }
}
