//! Which model stands in for the chosen one, and which are skipped.

use std::time::Duration;

use pollux_domain::model::ModelError;
use tokio::time::Instant;

/// The models that stand in for the chosen one.
#[derive(Debug, Default)]
pub(crate) struct FallbackState {
    /// Models to propose if the settings list none.
    pub(super) alternatives: Vec<String>,
    pub(super) stand_in: Option<StandIn>,
    /// Models that failed, and until when they are skipped.
    cooling: Vec<(String, Instant)>,
    /// Why the chosen model cannot answer, if the user must be asked before the next request.
    pub(super) unanswered: Option<ModelError>,
    /// Listed models that the user knows to be skipped.
    pub(super) told: Vec<String>,
}

#[derive(Debug)]
pub(super) struct StandIn {
    pub(super) name: String,
    pub(super) consent: Consent,
    /// Why the chosen model did not answer.
    pub(super) error: ModelError,
}

/// How the user agreed to another model.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Consent {
    Listed,
    ThisTurn,
    Session,
}

impl FallbackState {
    pub(crate) fn new(alternatives: Vec<String>) -> Self {
        Self { alternatives, ..Self::default() }
    }

    pub(crate) fn stand_in(&self) -> Option<&str> {
        self.stand_in.as_ref().map(|stand_in| stand_in.name.as_str())
    }

    /// Forgets the stand-in and every failure: the user chose a model.
    pub(crate) fn return_to_choice(&mut self) {
        self.stand_in = None;
        self.unanswered = None;
        self.cooling.clear();
    }

    pub(super) fn is_cooling(&self, model: &str) -> bool {
        let now = Instant::now();
        self.cooling.iter().any(|(name, until)| name == model && *until > now)
    }

    pub(super) fn cool(&mut self, model: &str, delay: Duration) {
        self.cooling.retain(|(name, _)| name != model);
        self.cooling.extend(Instant::now().checked_add(delay).map(|until| (model.to_owned(), until)));
    }
}
