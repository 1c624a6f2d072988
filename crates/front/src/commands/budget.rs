//! `/budget`: show what was spent and raise the session's limits.

use pollux_domain::budget::{BudgetChange, BudgetStatus, Exceeded, Scope, Unit};
use pollux_domain::content::Part;
use pollux_domain::event::{Op, OpResult, TurnEnd};

use crate::Front;
use crate::choice::{Choice, ChoiceRow, ListOptions};

const USAGE: &str = "Usage: /budget [+<amount> [usd|tokens|requests|minutes] | off]";
const RAISE: &str = "raise";
const OFF: &str = "off";
const STOP: &str = "stop";
/// The prompt that resumes a turn after its limit was raised.
const GO_ON: &str = "Continue.";

impl Front<'_, '_> {
    /// `/budget`
    pub(super) async fn budget(&mut self, rest: &str, conversation: &mut pollux_host::Conversation) {
        let Some(change) = change(rest) else { return self.ui.note(USAGE) };
        match self.ask(Op::Budget(change), conversation).await {
            Some(OpResult::Budget(status)) => self.ui.note(&page(&status)),
            Some(OpResult::Refused(refusal)) => self.ui.error(&refusal.message),
            Some(_) | None => {}
        }
    }

    /// `/budget` typed while a turn runs: what to ask the session.
    pub(crate) fn budget_during_turn(&mut self, rest: &str) -> Option<Op> {
        let change = change(rest);
        if change.is_none() {
            self.ui.note(USAGE);
        }
        change.map(Op::Budget)
    }

    /// Asks what to do about a limit of the session that ended the turn; the operation that continues it, if any.
    pub(crate) async fn ask_about_limit(
        &mut self,
        end: &TurnEnd,
        conversation: &mut pollux_host::Conversation,
    ) -> Option<Op> {
        let exceeded = match end {
            TurnEnd::Failed(error) => error.details.exceeded.as_ref()?,
            _ => return None,
        };
        // Without a screen the next line that is read may be a prompt from a pipe.
        if exceeded.scope != Scope::Session || exceeded.fixed || !self.ui.is_screen() {
            return None;
        }
        let change = match self.ui.choose(question(exceeded)).await?.key.as_str() {
            RAISE => BudgetChange::Raise { unit: exceeded.unit, by: exceeded.step() },
            OFF => BudgetChange::Off,
            _ => return None,
        };
        match self.ask(Op::Budget(change), conversation).await? {
            OpResult::Budget(status) => self.ui.note(&page(&status)),
            OpResult::Refused(refusal) => {
                self.ui.error(&refusal.message);
                return None;
            }
            _ => return None,
        }
        Some(Op::Prompt { parts: vec![Part::text(GO_ON)], typed: GO_ON.to_owned() })
    }
}

fn question(exceeded: &Exceeded) -> Choice {
    let raise = format!("Raise the limit by {} and continue", amount(exceeded.unit, exceeded.step()));
    let row = |key: &str, text: String| ChoiceRow {
        key: key.to_owned(),
        columns: vec![text],
        ..ChoiceRow::default()
    };
    Choice {
        title: "Budget reached".to_owned(),
        rows: vec![
            row(STOP, "Stop here".to_owned()),
            row(RAISE, raise),
            row(OFF, "Remove the limits of this session and continue".to_owned()),
        ],
        marked: Some(STOP.to_owned()),
        hint: Some("(Use Enter to select, Esc to stop)".to_owned()),
        options: ListOptions { numbered: true, ..ListOptions::default() },
        ..Choice::default()
    }
}

fn amount(unit: Unit, amount: u64) -> String {
    let number = unit.json(amount);
    let noun = unit.as_str().trim_end_matches('s');
    match unit {
        Unit::Usd => format!("{number} USD"),
        _ if number.as_f64() == Some(1.0) => format!("{number} {noun}"),
        _ => format!("{number} {noun}s"),
    }
}

/// What the words behind `/budget` ask for.
fn change(rest: &str) -> Option<BudgetChange> {
    let mut words = rest.split_whitespace();
    let change = match (words.next(), words.next()) {
        (None | Some("show"), None) => BudgetChange::Show,
        (Some("off"), None) => BudgetChange::Off,
        (Some(amount), unit) => {
            let unit = unit.map_or(Some(Unit::Usd), |word| Unit::named(&word.to_ascii_lowercase()))?;
            let by = unit.typed(amount.strip_prefix('+')?)?;
            BudgetChange::Raise { unit, by }
        }
        (None, Some(_)) => return None,
    };
    words.next().is_none().then_some(change)
}

/// What `/budget` shows.
pub(crate) fn page(status: &BudgetStatus) -> String {
    let mut lines = vec![format!("Spent in this session: {}", BudgetStatus::in_words(&status.session))];
    if status.wasted.requests > 0 {
        lines.push(format!("Wasted on failed attempts: {}", BudgetStatus::in_words(&status.wasted)));
    }
    match status.scopes.as_slice() {
        [] => lines.push("No limits. Set `budget` in your settings or use --max-budget-usd.".to_owned()),
        scopes => lines.extend(scopes.iter().map(|scope| format!("Limit per {}", scope.line()))),
    }
    lines.join("\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn limits_are_raised_by_amounts() {
        let raise = |unit, by| Some(BudgetChange::Raise { unit, by });
        assert_eq!(change("+2"), raise(Unit::Usd, 2_000_000));
        assert_eq!(change("+200k tokens"), raise(Unit::Tokens, 200_000));
        assert_eq!(change(" +5 Requests "), raise(Unit::Requests, 5));
        assert_eq!((change(""), change("off")), (Some(BudgetChange::Show), Some(BudgetChange::Off)));
        for odd in ["2", "+", "+-1", "-2", "+nan", "+1 euro", "+1 usd now", "off now"] {
            assert_eq!(change(odd), None, "{odd}");
        }
    }
}
