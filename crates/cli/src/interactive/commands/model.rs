//! `/model`: which model answers.

use super::super::Front;
use crate::wire;

impl Front<'_, '_> {
    /// `/model`
    pub(super) async fn model(&mut self, _rest: &str, conversation: &mut wire::Conversation) {
        let text = self.model_line(conversation).await;
        self.face.note(&text);
    }

    /// The model and how full its window is.
    pub(super) async fn model_line(&mut self, conversation: &mut wire::Conversation) -> String {
        let Some(view) = self.view(conversation).await else { return String::new() };
        let stands_for = match view.resolved_model == view.model {
            true => String::new(),
            false => format!(" ({})", view.resolved_model),
        };
        let share = (view.tokens * 100).checked_div(view.window).unwrap_or_default();
        format!("Model: {}{stands_for}, {share}% of {} tokens used", view.model, view.window)
    }
}
