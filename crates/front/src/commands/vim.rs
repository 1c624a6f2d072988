//! `/vim`: toggle vim mode.

use pollux_host::request::Scope;

use crate::Front;
use crate::presentation::is_on;

const KEY: &str = "general.vimMode";

impl Front<'_, '_> {
    /// Toggles vim mode, now and in later sessions.
    pub(super) fn vim(&mut self) {
        let (options, env) = (self.turn.request, &self.turn.loaded.env);
        let changed = pollux_host::load_settings(options, env).and_then(|loaded| {
            let on = !is_on(&loaded.settings, KEY);
            pollux_host::settings::settings(options, env)?.set(KEY, &on.to_string(), Scope::User)?;
            Ok(on)
        });
        match changed {
            Ok(on) => self.ui.set_vim(on),
            Err(failure) => self.ui.error(&failure.message()),
        }
    }
}
