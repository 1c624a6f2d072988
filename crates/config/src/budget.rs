//! `budget.*`: what may be spent, read from settings and flags.
//!
//! A limit that cannot be read is an error and never ignored: nobody would notice that it is missing.

use std::collections::BTreeMap;

use pollux_domain::budget::{Limits, Scope, Unit};
use pollux_domain::model::{MicroUsd, Prices};
use serde_json::{Map, Value};

/// The settings of a budget.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct BudgetSettings {
    pub limits: BTreeMap<Scope, Limits>,
    pub unknown_price: PriceOfUnknown,
}

/// `budget.unknownPrice`
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub enum PriceOfUnknown {
    #[default]
    Warn,
    Refuse,
    Price(Prices),
}

/// A value that is no limit.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("invalid value for `{key}`: expected {expected}, got {got}")]
pub struct BudgetSettingError {
    key: String,
    expected: &'static str,
    got: String,
}

impl BudgetSettingError {
    fn new(key: impl Into<String>, expected: &'static str, got: &Value) -> Self {
        Self { key: key.into(), expected, got: got.to_string() }
    }
}

/// A limit on the command line that cannot be read.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("expected {expected}, got `{got}`")]
pub struct LimitSyntaxError {
    pub expected: &'static str,
    pub got: String,
}

const SCOPES: [Scope; 5] = [Scope::Turn, Scope::Session, Scope::Day, Scope::Project, Scope::Subagent];
const PRICE: &str = "`warn`, `refuse`, or a price in USD per million tokens";

impl BudgetSettings {
    /// Reads `budget`.
    pub fn read(budget: &Value) -> Result<Self, BudgetSettingError> {
        let entries = match budget {
            Value::Null => return Ok(Self::default()),
            Value::Object(entries) => entries,
            other => return Err(BudgetSettingError::new("budget", "an object", other)),
        };
        let mut settings = Self::default();
        for (name, value) in entries {
            if name == "unknownPrice" {
                settings.unknown_price = unknown_price(value)?;
                continue;
            }
            let Some(scope) = SCOPES.into_iter().find(|scope| scope.as_str() == name) else {
                let known = "`turn`, `session`, `day`, `project`, `subagent` or `unknownPrice`";
                return Err(BudgetSettingError::new(format!("budget.{name}"), known, value));
            };
            let limits = limits(scope, value)?;
            if !limits.is_empty() {
                settings.limits.insert(scope, limits);
            }
        }
        Ok(settings)
    }
}

fn limits(scope: Scope, value: &Value) -> Result<Limits, BudgetSettingError> {
    let key = format!("budget.{}", scope.as_str());
    let mut limits = Limits::default();
    let entries = match value {
        Value::Null => return Ok(limits),
        Value::Object(entries) => entries,
        other => return Err(BudgetSettingError::new(key, "an object", other)),
    };
    for (name, value) in entries {
        let key = format!("{key}.{name}");
        let known =
            if scope == Scope::Subagent { "`usd`" } else { "`usd`, `tokens`, `requests` or `minutes`" };
        let unit = Unit::named(name).filter(|unit| scope != Scope::Subagent || *unit == Unit::Usd);
        let Some(unit) = unit else { return Err(BudgetSettingError::new(key, known, value)) };
        let amount = match value {
            Value::Null => None,
            value => {
                Some(amount(unit, value).ok_or_else(|| BudgetSettingError::new(key, wanted(unit), value))?)
            }
        };
        limits.set(unit, amount);
    }
    Ok(limits)
}

fn amount(unit: Unit, value: &Value) -> Option<u64> {
    unit.amount(value.as_f64()?)
}

/// What a limit may be.
fn wanted(unit: Unit) -> &'static str {
    match unit {
        Unit::Usd | Unit::Minutes => "a non-negative number",
        Unit::Tokens | Unit::Requests => "a non-negative whole number",
    }
}

fn unknown_price(value: &Value) -> Result<PriceOfUnknown, BudgetSettingError> {
    let bad = || BudgetSettingError::new("budget.unknownPrice", PRICE, value);
    let price = |value: &Value| amount(Unit::Usd, value).map(MicroUsd);
    match value {
        Value::Null => Ok(PriceOfUnknown::Warn),
        Value::String(word) if word == "warn" => Ok(PriceOfUnknown::Warn),
        Value::String(word) if word == "refuse" => Ok(PriceOfUnknown::Refuse),
        Value::Number(_) => {
            let all = price(value).ok_or_else(bad)?;
            let prices = Prices { input: all, output: all, cached: all, cache_write: all, above: None };
            Ok(PriceOfUnknown::Price(prices))
        }
        Value::Object(entries) => {
            let (input, output) = (entries.get("input"), entries.get("output"));
            let input = input.and_then(price).ok_or_else(bad)?;
            let output = output.and_then(price).ok_or_else(bad)?;
            let cached = match entries.get("cacheRead") {
                Some(value) => price(value).ok_or_else(bad)?,
                None => input,
            };
            Ok(PriceOfUnknown::Price(Prices { input, output, cached, cache_write: input, above: None }))
        }
        _ => Err(bad()),
    }
}

/// Reads `--budget`: a list such as `usd=5,tokens=200k,day.usd=20`, or only dollars. Returns settings keys with their
/// values.
pub fn read_flag(text: &str) -> Result<Vec<(String, Value)>, LimitSyntaxError> {
    text.split(',').map(|item| read_item(item.trim())).collect()
}

fn read_item(item: &str) -> Result<(String, Value), LimitSyntaxError> {
    const FORM: &str = "a list such as `usd=5,tokens=200k,day.usd=20`";
    let syntax = || LimitSyntaxError { expected: FORM, got: item.to_owned() };
    let Some((name, amount)) = item.split_once('=') else {
        return read_limit(Unit::Usd, item)
            .map_err(|_| syntax())
            .map(|value| (key("session", Unit::Usd), value));
    };
    let (scope, unit) = name.trim().split_once('.').unwrap_or(("session", name.trim()));
    let unit = Unit::named(unit).ok_or_else(syntax)?;
    let scope = SCOPES.into_iter().find(|known| known.as_str() == scope).ok_or_else(syntax)?;
    if scope == Scope::Subagent && unit != Unit::Usd {
        return Err(syntax());
    }
    Ok((key(scope.as_str(), unit), read_limit(unit, amount)?))
}

/// Reads one limit from the command line, in the form of settings.
pub fn read_limit(unit: Unit, text: &str) -> Result<Value, LimitSyntaxError> {
    let amount = unit.typed(text);
    let error = || LimitSyntaxError { expected: wanted(unit), got: text.to_owned() };
    amount.map(|amount| unit.json(amount)).ok_or_else(error)
}

/// The settings key of a limit.
pub fn key(scope: &str, unit: Unit) -> String {
    format!("budget.{scope}.{}", unit.as_str())
}

/// Drops the limits of `own` that are not below those of `others`, and what is no limit at all.
pub(crate) fn keep_lower(own: &mut Map<String, Value>, others: &Value) {
    own.retain(|name, limits| SCOPES.iter().any(|scope| scope.as_str() == name) && limits.is_object());
    for (scope, limits) in own {
        let Value::Object(limits) = limits else { continue };
        limits.retain(|name, limit| {
            let other = others.get(scope).and_then(|limits| limits.get(name)).and_then(Value::as_f64);
            let own = Unit::named(name).and_then(|unit| unit.amount(limit.as_f64()?).and(limit.as_f64()));
            own.is_some_and(|own| other.is_none_or(|other| own <= other))
        });
    }
}

/// Lowers the limits of `own` to those of `others`, where theirs are lower.
pub(crate) fn keep_lowest(own: &mut Map<String, Value>, others: &Value) {
    for (scope, limits) in own.iter_mut().filter(|(name, _)| *name != "unknownPrice") {
        let Value::Object(limits) = limits else { continue };
        for (name, limit) in limits {
            let other = others.get(scope).and_then(|limits| limits.get(name));
            if let (Some(number), Some(lower)) = (limit.as_f64(), other.and_then(Value::as_f64))
                && (0.0..number).contains(&lower)
            {
                *limit = other.cloned().unwrap_or_default();
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn limits_of_every_scope_are_read() {
        let read = BudgetSettings::read(&json!({
            "turn": {"requests": 3}, "session": {"usd": 0.5, "minutes": 1.5}, "day": {"tokens": 2e5},
            "project": {}, "subagent": {"usd": 0}, "unknownPrice": {"input": 1, "output": 2},
        }))
        .unwrap();
        let limits = |scope: Scope| read.limits.get(&scope).copied();
        assert_eq!(limits(Scope::Turn).unwrap().requests, Some(3));
        assert_eq!(limits(Scope::Session).unwrap().usd, Some(MicroUsd(500_000)));
        assert_eq!(limits(Scope::Session).unwrap().millis, Some(90_000));
        assert_eq!(limits(Scope::Day).unwrap().tokens, Some(200_000));
        assert_eq!((limits(Scope::Project), limits(Scope::Subagent).unwrap().usd), (None, Some(MicroUsd(0))));
        assert!(
            matches!(read.unknown_price, PriceOfUnknown::Price(prices) if prices.output == MicroUsd(2_000_000))
        );
        assert_eq!(BudgetSettings::read(&Value::Null), Ok(BudgetSettings::default()));
    }

    #[test]
    fn what_is_no_limit_is_an_error_that_names_its_key() {
        for (budget, message) in [
            (
                json!({"session": {"usd": -1}}),
                "invalid value for `budget.session.usd`: expected a non-negative number, got -1",
            ),
            (json!({"session": {"usd": "5"}}), "got \"5\""),
            (
                json!({"session": {"requests": 1.5}}),
                "`budget.session.requests`: expected a non-negative whole number",
            ),
            (json!({"session": {"dollars": 5}}), "`budget.session.dollars`: expected `usd`, `tokens`"),
            (json!({"month": {"usd": 5}}), "`budget.month`"),
            (json!({"session": 5}), "`budget.session`: expected an object"),
            (json!({"subagent": {"tokens": 5}}), "`budget.subagent.tokens`: expected `usd`"),
            (json!({"unknownPrice": "maybe"}), "`warn`, `refuse`, or a price"),
            (json!({"unknownPrice": {"input": 1}}), "`budget.unknownPrice`"),
            (json!(5), "`budget`: expected an object, got 5"),
        ] {
            let error = BudgetSettings::read(&budget).unwrap_err().to_string();
            assert!(error.contains(message), "{error}");
        }
    }

    #[test]
    fn the_flag_takes_dollars_or_a_list() {
        let read = |text: &str| read_flag(text).map(Value::from_iter);
        assert_eq!(read("5"), Ok(json!({"budget.session.usd": 5.0})));
        assert_eq!(
            read("usd=0.5, tokens=200k,day.requests=7"),
            Ok(
                json!({"budget.session.usd": 0.5, "budget.session.tokens": 200_000, "budget.day.requests": 7})
            )
        );
        for odd in
            ["", "five", "usd=", "usd=-1", "usd=nan", "month.usd=1", "euro=1", "subagent.tokens=1", "usd=1,"]
        {
            assert!(read(odd).is_err(), "{odd}");
        }
    }
}
