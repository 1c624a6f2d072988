//! The question after a turn that failed for a reason that a command mends.

use pollux_domain::event::TurnEnd;
use pollux_domain::model::{ModelErrorKind, ProviderId};

use crate::Front;
use crate::choice::{Choice, ListOptions};

const CLOSE: &str = "close";
const AUTH: (&str, &str) = ("/auth", "Change the key or the sign-in (/auth)");
const MODEL: (&str, &str) = ("/model", "Choose another model (/model)");

impl Front<'_, '_> {
    /// Offers the commands that help, and runs the chosen one as if it had been typed.
    pub(crate) async fn offer_fix(&mut self, end: &TurnEnd) {
        // Without a screen the next line that is read may be a prompt from a pipe.
        if !self.ui.is_screen() {
            return;
        }
        let Some(choice) = question(end) else { return };
        match self.ui.choose(choice).await {
            Some(chosen) if chosen.key != CLOSE => self.ui.queue_prompt(chosen.key),
            _ => {}
        }
    }
}

fn question(end: &TurnEnd) -> Option<Choice> {
    let TurnEnd::Failed(error) = end else { return None };
    let provider = error.details.provider.as_ref().map_or("The provider", ProviderId::as_str);
    let (title, fixes) = match error.kind {
        ModelErrorKind::Auth => ("rejected the API key or sign-in", vec![AUTH, MODEL]),
        ModelErrorKind::Billing => {
            ("reports no credit left: add credit to your account, or use another model", vec![MODEL, AUTH])
        }
        ModelErrorKind::NotFound => ("does not offer this model", vec![MODEL]),
        _ => return None,
    };
    let mut choice = Choice::of(&format!("{provider} {title}"), fixes.into_iter().chain([(CLOSE, "Close")]));
    choice.marked = Some(CLOSE.to_owned());
    choice.hint = Some("(Press a number to select, Esc to close)".to_owned());
    choice.options = ListOptions { unrequested: true, ..choice.options };
    Some(choice)
}

#[cfg(test)]
mod tests {
    use pollux_domain::model::ModelError;

    use super::*;

    fn keys(kind: ModelErrorKind) -> Vec<String> {
        let end = TurnEnd::Failed(ModelError::new(kind, Some(400), "no"));
        question(&end).map(|choice| choice.rows.into_iter().map(|row| row.key).collect()).unwrap_or_default()
    }

    #[test]
    fn only_failures_that_a_command_mends_are_asked_about() {
        assert_eq!(keys(ModelErrorKind::Auth), ["/auth", "/model", "close"]);
        assert_eq!(keys(ModelErrorKind::NotFound), ["/model", "close"]);
        assert_eq!(keys(ModelErrorKind::Network), Vec::<String>::new());
        assert!(question(&TurnEnd::Cancelled).is_none());
    }
}
