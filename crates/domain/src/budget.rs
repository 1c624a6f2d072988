//! What a session may spend: limits and amounts, and the port to the budget that counts them.
//!
//! The budget itself, which reserves before a request and settles after it, is in `model`. Settings are read in
//! `config`; what a session does at a limit is decided in `agent`.

use std::fmt;
use std::sync::Arc;

use serde_json::{Value, json};

use crate::JsonObject;
use crate::model::{MicroUsd, ModelClient, Usage};
use crate::plural::counted;

const MILLIS_PER_MINUTE: u64 = 60_000;
/// Below this limit, cents are too coarse.
const SMALL_LIMIT: u64 = 100_000;

/// What a limit is counted over.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Scope {
    /// From a prompt to the end of its turn.
    Turn,
    Session,
    /// A day in UTC, of all sessions.
    Day,
    /// A project, of all sessions and days.
    Project,
    /// One run of a sub-agent.
    Subagent,
}

impl Scope {
    /// The scopes that every request counts in.
    pub const SHARED: [Self; 4] = [Self::Turn, Self::Session, Self::Day, Self::Project];

    /// The word in settings and output.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Turn => "turn",
            Self::Session => "session",
            Self::Day => "day",
            Self::Project => "project",
            Self::Subagent => "subagent",
        }
    }

    /// Whether it is counted over more than one session.
    pub fn outlives_sessions(self) -> bool {
        matches!(self, Self::Day | Self::Project)
    }
}

/// What is limited.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Unit {
    Usd,
    Tokens,
    Requests,
    Minutes,
}

impl Unit {
    pub const ALL: [Self; 4] = [Self::Usd, Self::Tokens, Self::Requests, Self::Minutes];

    /// The word in settings and output.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Usd => "usd",
            Self::Tokens => "tokens",
            Self::Requests => "requests",
            Self::Minutes => "minutes",
        }
    }

    /// The name after an amount.
    fn label(self) -> &'static str {
        match self {
            Self::Usd => "USD",
            Self::Tokens | Self::Requests | Self::Minutes => self.as_str(),
        }
    }

    /// The unit of this name.
    pub fn named(word: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|unit| unit.as_str() == word)
    }

    /// An amount as JSON: dollars and minutes with a fraction, the others whole.
    pub fn json(self, amount: u64) -> Value {
        match self {
            Self::Usd => json!(amount as f64 / 1e6),
            Self::Minutes => json!(amount as f64 / MILLIS_PER_MINUTE as f64),
            Self::Tokens | Self::Requests => json!(amount),
        }
    }

    /// Reads an amount in the form of settings: a non-negative number, whole where only that makes sense.
    pub fn amount(self, number: f64) -> Option<u64> {
        let scaled = match self {
            Self::Usd => (number * 1e6).round(),
            Self::Minutes => (number * MILLIS_PER_MINUTE as f64).round(),
            Self::Tokens | Self::Requests => number,
        };
        let fits = number.is_finite() && number >= 0.0 && scaled <= 1e18 && scaled.fract() == 0.0;
        fits.then_some(scaled as u64)
    }

    /// Reads an amount as people type it: `2`, `0.5`, `200k`, `1.5M`.
    pub fn typed(self, text: &str) -> Option<u64> {
        let text = text.trim();
        let (digits, factor) = match text.chars().last() {
            Some('k' | 'K') if self != Self::Usd => (text.get(..text.len() - 1)?, 1e3),
            Some('m' | 'M') if matches!(self, Self::Tokens | Self::Requests) => {
                (text.get(..text.len() - 1)?, 1e6)
            }
            _ => (text, 1.0),
        };
        let plain = !digits.is_empty() && digits.chars().all(|c| c.is_ascii_digit() || c == '.');
        let number: f64 = digits.parse().ok().filter(|_| plain)?;
        self.amount((number * factor * 1e6).round() / 1e6)
    }
}

/// What may be spent; `None` where there is no limit.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Limits {
    pub usd: Option<MicroUsd>,
    pub tokens: Option<u64>,
    pub requests: Option<u64>,
    pub millis: Option<u64>,
}

impl Limits {
    pub fn get(&self, unit: Unit) -> Option<u64> {
        match unit {
            Unit::Usd => self.usd.map(|usd| usd.0),
            Unit::Tokens => self.tokens,
            Unit::Requests => self.requests,
            Unit::Minutes => self.millis,
        }
    }

    pub fn set(&mut self, unit: Unit, limit: Option<u64>) {
        match unit {
            Unit::Usd => self.usd = limit.map(MicroUsd),
            Unit::Tokens => self.tokens = limit,
            Unit::Requests => self.requests = limit,
            Unit::Minutes => self.millis = limit,
        }
    }

    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }

    /// The first limit that is used up. A limit of 0 of which nothing was spent stops nothing: a model may be free.
    pub fn reached(&self, spent: &Spent) -> Option<Unit> {
        Unit::ALL.into_iter().find(|unit| {
            let spent = spent.get(*unit);
            spent > 0 && self.get(*unit).is_some_and(|limit| spent >= limit)
        })
    }
}

/// What was spent.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Spent {
    pub usd: MicroUsd,
    pub tokens: u64,
    pub requests: u64,
    /// Time in which turns ran.
    pub millis: u64,
}

impl Spent {
    pub fn get(&self, unit: Unit) -> u64 {
        match unit {
            Unit::Usd => self.usd.0,
            Unit::Tokens => self.tokens,
            Unit::Requests => self.requests,
            Unit::Minutes => self.millis,
        }
    }

    #[must_use]
    pub fn plus(self, other: Self) -> Self {
        Self {
            usd: MicroUsd(self.usd.0.saturating_add(other.usd.0)),
            tokens: self.tokens.saturating_add(other.tokens),
            requests: self.requests.saturating_add(other.requests),
            millis: self.millis.saturating_add(other.millis),
        }
    }

    /// The larger amount of each unit.
    #[must_use]
    pub fn max(self, other: Self) -> Self {
        Self {
            usd: MicroUsd(self.usd.0.max(other.usd.0)),
            tokens: self.tokens.max(other.tokens),
            requests: self.requests.max(other.requests),
            millis: self.millis.max(other.millis),
        }
    }

    #[must_use]
    pub fn minus(self, other: Self) -> Self {
        Self {
            usd: MicroUsd(self.usd.0.saturating_sub(other.usd.0)),
            tokens: self.tokens.saturating_sub(other.tokens),
            requests: self.requests.saturating_sub(other.requests),
            millis: self.millis.saturating_sub(other.millis),
        }
    }

    /// As statistics and hooks get it.
    pub fn to_json(&self) -> Value {
        Unit::ALL.into_iter().map(|unit| (unit.as_str().to_owned(), unit.json(self.get(unit)))).collect()
    }

    /// Whole numbers only, for files that are read back.
    pub fn to_record(&self) -> Value {
        json!({"microUsd": self.usd.0, "tokens": self.tokens, "requests": self.requests, "millis": self.millis})
    }

    /// Reads [`Spent::to_record`]; what is missing or odd counts as 0.
    pub fn from_record(value: &Value) -> Self {
        let count = |key: &str| value.get(key).and_then(Value::as_u64).unwrap_or_default();
        Self {
            usd: MicroUsd(count("microUsd")),
            tokens: count("tokens"),
            requests: count("requests"),
            millis: count("millis"),
        }
    }
}

/// A limit that a request would break. Its text is what people read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Exceeded {
    pub scope: Scope,
    pub unit: Unit,
    pub limit: u64,
    pub spent: Spent,
    /// What the refused request takes at least; `None` where nothing was about to be sent.
    pub needed: Option<u64>,
    /// System settings set the limit, so that nobody can raise it here.
    pub fixed: bool,
    /// The session to resume, if it can be.
    pub session: Option<String>,
}

impl Exceeded {
    /// `scope`, `unit`, `limit` and `spent`, for programs.
    pub fn to_json(&self) -> JsonObject {
        JsonObject::from_iter([
            ("scope".to_owned(), self.scope.as_str().into()),
            ("unit".to_owned(), self.unit.as_str().into()),
            ("limit".to_owned(), self.unit.json(self.limit)),
            ("spent".to_owned(), self.unit.json(self.spent.get(self.unit))),
        ])
    }

    /// By how much the limit might be raised: about 40 %, and enough for the refused request, in round numbers.
    pub fn step(&self) -> u64 {
        let spent = self.spent.get(self.unit);
        let missing = self.needed.map_or(0, |needed| needed.saturating_add(spent).saturating_sub(self.limit));
        let grain = match self.unit {
            Unit::Usd => 10_000,
            Unit::Minutes => MILLIS_PER_MINUTE,
            Unit::Tokens => 1_000,
            Unit::Requests => 1,
        };
        self.usual_step().max(missing.div_ceil(grain).saturating_mul(grain))
    }

    fn usual_step(&self) -> u64 {
        let one = match self.unit {
            Unit::Usd => 1_000_000,
            Unit::Minutes => MILLIS_PER_MINUTE,
            Unit::Tokens => 1_000,
            Unit::Requests => 1,
        };
        if self.limit > 0 && self.limit < one {
            return self.limit;
        }
        (self.limit.saturating_mul(2) / 5).div_ceil(one).max(1).saturating_mul(one)
    }

    /// How to go on.
    fn advice(&self) -> String {
        if self.fixed {
            return "The limit is set in system settings.".to_owned();
        }
        let key = format!("budget.{}.{}", self.scope.as_str(), self.unit.as_str());
        match self.scope {
            Scope::Turn => format!("Continue: send another prompt, or raise `{key}`."),
            Scope::Day => format!("Continue: tomorrow (UTC), or raise `{key}` in your settings."),
            Scope::Project | Scope::Subagent => format!("Continue: raise `{key}` in your settings."),
            Scope::Session => {
                let step = self.step();
                let unit = if self.unit == Unit::Usd { "" } else { self.unit.as_str() };
                let raise = format!("/budget +{} {unit}", plain(self.unit, step));
                let mut advice = format!("Continue: {}", raise.trim_end());
                if let Some(session) = &self.session {
                    let limit = plain(self.unit, self.limit.saturating_add(step));
                    let flag = match self.unit {
                        Unit::Usd => format!("--max-budget-usd {limit}"),
                        Unit::Tokens => format!("--max-tokens-total {limit}"),
                        Unit::Requests => format!("--max-requests {limit}"),
                        Unit::Minutes => format!("--budget minutes={limit}"),
                    };
                    advice.push_str(&format!(" or pollux --resume {session} {flag}"));
                }
                advice + "."
            }
        }
    }
}

impl fmt::Display for Exceeded {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let sum = sum(self.scope, self.unit, self.limit, &self.spent);
        let needed = self.needed.filter(|_| self.spent.get(self.unit) < self.limit).map(|needed| {
            let needed = shown(self.unit, self.limit.min(needed), needed);
            format!("; the next request needs at least {needed} {}", self.unit.label())
        });
        write!(f, "Budget reached: {sum}{}. Nothing was lost. {}", needed.unwrap_or_default(), self.advice())
    }
}

/// `session 5.00 of 5.00 USD (412k tokens, 37 requests)`
fn sum(scope: Scope, unit: Unit, limit: u64, spent: &Spent) -> String {
    let scope = if scope == Scope::Subagent { "sub-agent" } else { scope.as_str() };
    let of = of(unit, limit, spent.get(unit));
    format!("{scope} {of} ({} tokens, {})", short(spent.tokens), counted(spent.requests, "request"))
}

/// `5.00 of 5.00 USD`
fn of(unit: Unit, limit: u64, spent: u64) -> String {
    format!("{} of {} {}", shown(unit, limit, spent), shown(unit, limit, limit), unit.label())
}

/// An amount without its unit; money is shown to the cent unless the limit is small.
fn shown(unit: Unit, limit: u64, amount: u64) -> String {
    match unit {
        Unit::Usd if limit < SMALL_LIMIT => dollars(amount, 4),
        Unit::Usd => dollars(amount, 2),
        Unit::Tokens => short(amount),
        Unit::Requests => amount.to_string(),
        Unit::Minutes => {
            let tenths = amount.saturating_mul(10) / MILLIS_PER_MINUTE;
            format!("{}.{}", tenths / 10, tenths % 10)
        }
    }
}

/// Never less than was spent.
fn dollars(micro: u64, digits: u32) -> String {
    let (below, one) = (10u64.pow(6 - digits), 10u64.pow(digits));
    let amount = micro.div_ceil(below);
    format!("{}.{:0width$}", amount / one, amount % one, width = digits as usize)
}

/// `412k`
fn short(count: u64) -> String {
    if count < 10_000 { count.to_string() } else { format!("{}k", count / 1000) }
}

/// An amount as it can be typed.
fn plain(unit: Unit, amount: u64) -> String {
    match unit {
        Unit::Usd | Unit::Minutes => unit.json(amount).as_f64().unwrap_or_default().to_string(),
        Unit::Tokens | Unit::Requests => amount.to_string(),
    }
}

/// One scope with its limits.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ScopeStatus {
    pub scope: Scope,
    pub limits: Limits,
    pub spent: Spent,
    /// System settings set a limit of it.
    pub fixed: bool,
}

impl ScopeStatus {
    /// `session: 0.42 of 5.00 USD, 3 of 50 requests`
    pub fn line(&self) -> String {
        let limited = Unit::ALL.into_iter().filter_map(|unit| {
            let limit = self.limits.get(unit)?;
            Some(of(unit, limit, self.spent.get(unit)))
        });
        let fixed = if self.fixed { " (set by system settings)" } else { "" };
        format!("{}: {}{fixed}", self.scope.as_str(), limited.collect::<Vec<_>>().join(", "))
    }
}

/// All limits, and what was spent.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct BudgetStatus {
    /// Scopes with limits.
    pub scopes: Vec<ScopeStatus>,
    /// What the session spent.
    pub session: Spent,
    /// The part of it that brought nothing: attempts that failed or were discarded.
    pub wasted: Spent,
}

impl BudgetStatus {
    /// As statistics and hooks get it: `limits`, `spent`, `wasted`.
    pub fn to_json(&self) -> Value {
        let limits: JsonObject = self
            .scopes
            .iter()
            .map(|status| {
                let set = Unit::ALL.into_iter().filter_map(|unit| {
                    let limit = status.limits.get(unit)?;
                    let spent = unit.json(status.spent.get(unit));
                    Some((unit.as_str().to_owned(), json!({"limit": unit.json(limit), "spent": spent})))
                });
                (status.scope.as_str().to_owned(), Value::Object(set.collect()))
            })
            .collect();
        json!({"limits": limits, "spent": self.session.to_json(), "wasted": self.wasted.to_json()})
    }

    /// `0.4213 USD, 412k tokens, 37 requests`
    pub fn in_words(spent: &Spent) -> String {
        let money = dollars(spent.usd.0, 4);
        format!("{money} USD, {} tokens, {}", short(spent.tokens), counted(spent.requests, "request"))
    }

    /// `0.42 of 5.00 USD`: the money limit that most is spent of.
    pub fn money(&self) -> Option<String> {
        let limited = self.scopes.iter().filter_map(|status| {
            let (limit, spent) = (status.limits.usd?.0, status.spent.usd.0);
            Some((u128::from(spent) * 1000 / u128::from(limit.max(1)), limit, spent))
        });
        limited.max_by_key(|(share, ..)| *share).map(|(_, limit, spent)| of(Unit::Usd, limit, spent))
    }

    /// The line that tells once that most of a limit is spent.
    pub fn warning(scope: Scope, unit: Unit, limit: u64, spent: &Spent) -> String {
        format!("Budget: {} spent.", sum(scope, unit, limit, spent))
    }
}

/// What a person changes about the limits of a session.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum BudgetChange {
    /// Nothing; only tell.
    Show,
    /// Raise the session's limit.
    Raise { unit: Unit, by: u64 },
    /// Remove the limits of turn and session.
    Off,
}

/// Counts what a session spends. Implemented in `model`.
pub trait SessionBudget: Send + Sync {
    /// A turn begins: its own count starts at 0 and time is counted.
    fn begin_turn(&self);

    /// The turn is over; time is no longer counted.
    fn end_turn(&self);

    /// Whether anything is limited.
    fn is_limited(&self) -> bool;

    fn status(&self) -> BudgetStatus;

    /// The limit that is used up, so that the turn has to end.
    fn exceeded(&self) -> Option<Exceeded>;

    /// Changes a limit; the error says why not.
    fn change(&self, change: BudgetChange) -> Result<(), String>;

    /// A reply was paid for and cannot be used.
    fn discard(&self, model: &str, usage: &Usage);

    /// Lines for people that were not told yet.
    fn take_notices(&self) -> Vec<String>;

    /// A client for one sub-agent: it draws from this budget, at most its share.
    fn for_subagent(&self, client: &Arc<dyn ModelClient>) -> Arc<dyn ModelClient>;
}

#[cfg(test)]
mod tests {
    use super::*;

    fn exceeded(scope: Scope, unit: Unit, limit: u64) -> Exceeded {
        let spent = Spent { usd: MicroUsd(4_996_000), tokens: 412_345, requests: 37, millis: 90_000 };
        Exceeded { scope, unit, limit, spent, needed: None, fixed: false, session: Some("6f1c".to_owned()) }
    }

    #[test]
    fn a_reached_limit_says_how_to_go_on() {
        assert_eq!(
            exceeded(Scope::Session, Unit::Usd, 5_000_000).to_string(),
            "Budget reached: session 5.00 of 5.00 USD (412k tokens, 37 requests). Nothing was lost. \
             Continue: /budget +2 or pollux --resume 6f1c --max-budget-usd 7."
        );
        let cases = [
            (
                Scope::Session,
                Unit::Tokens,
                400_000,
                "/budget +160000 tokens or pollux --resume 6f1c --max-tokens-total 560000.",
            ),
            (
                Scope::Session,
                Unit::Requests,
                37,
                "/budget +14 requests or pollux --resume 6f1c --max-requests 51.",
            ),
            (
                Scope::Session,
                Unit::Minutes,
                60_000,
                "/budget +1 minutes or pollux --resume 6f1c --budget minutes=2.",
            ),
            (
                Scope::Session,
                Unit::Usd,
                10_000,
                "/budget +0.01 or pollux --resume 6f1c --max-budget-usd 0.02.",
            ),
            (Scope::Session, Unit::Usd, 0, "/budget +1 or pollux --resume 6f1c --max-budget-usd 1."),
            (Scope::Turn, Unit::Usd, 1, "send another prompt, or raise `budget.turn.usd`."),
            (Scope::Day, Unit::Tokens, 1, "tomorrow (UTC), or raise `budget.day.tokens` in your settings."),
        ];
        for (scope, unit, limit, advice) in cases {
            let text = exceeded(scope, unit, limit).to_string();
            assert!(text.ends_with(&format!("Nothing was lost. Continue: {advice}")), "{text}");
        }
        let short = Exceeded { needed: Some(31_200), ..exceeded(Scope::Session, Unit::Usd, 5_010_000) };
        assert_eq!(
            short.to_string(),
            "Budget reached: session 5.00 of 5.01 USD (412k tokens, 37 requests); the next request needs at least \
             0.0312 USD. Nothing was lost. Continue: /budget +3 or pollux --resume 6f1c --max-budget-usd 8.01."
        );
        let first = Exceeded {
            needed: Some(5_400),
            spent: Spent::default(),
            ..exceeded(Scope::Session, Unit::Tokens, 100)
        };
        assert!(first.to_string().ends_with("--max-tokens-total 6100."), "{first}");
        let fixed = Exceeded { fixed: true, ..exceeded(Scope::Session, Unit::Usd, 5_000_000) };
        assert!(fixed.to_string().ends_with("The limit is set in system settings."), "{fixed}");
    }

    #[test]
    fn amounts_are_read_as_people_type_them() {
        let read = |unit: Unit, text: &str| unit.typed(text);
        assert_eq!(read(Unit::Usd, "0.075"), Some(75_000));
        assert_eq!(read(Unit::Tokens, "200k"), Some(200_000));
        assert_eq!(read(Unit::Tokens, "1.5M"), Some(1_500_000));
        assert_eq!(read(Unit::Requests, "0"), Some(0));
        assert_eq!(read(Unit::Minutes, "0.5"), Some(30_000));
        for odd in ["", "-1", "nan", "inf", "1e3", "five", "2k", "1.5.0", "999999999999999999999"] {
            assert_eq!(read(Unit::Usd, odd), None, "{odd}");
        }
        assert_eq!(read(Unit::Requests, "1.5"), None);
        for odd in [-0.1, f64::NAN, f64::INFINITY] {
            assert_eq!(Unit::Usd.amount(odd), None);
        }
    }

    #[test]
    fn a_record_is_read_back_and_an_odd_one_is_nothing() {
        let spent = Spent { usd: MicroUsd(7), tokens: 8, requests: 9, millis: 10 };
        assert_eq!(Spent::from_record(&spent.to_record()), spent);
        assert_eq!(Spent::from_record(&json!({"tokens": -1, "usd": "x"})), Spent::default());
    }
}
