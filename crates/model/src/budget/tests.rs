use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};

use pollux_config::files::{Mode, replace};
use pollux_domain::time::{Clock, Timestamp};
use proptest::prelude::*;

use super::*;

/// A clock that can be set, in milliseconds after ten o'clock.
#[derive(Default)]
struct HandClock(AtomicI64);

impl Clock for HandClock {
    fn now(&self) -> Timestamp {
        let ten = Timestamp::parse("2026-11-16T10:00:00.000Z").unwrap();
        Timestamp::from_millis(ten.millis() + self.0.load(Ordering::SeqCst))
    }
}

fn file(folder: &tempfile::TempDir) -> CounterFile {
    CounterFile::new(folder.path().join("budget.json"), "project", Arc::new(HandClock::default()))
}

/// One dollar for a million tokens read, ten for a million written.
fn prices() -> Prices {
    Prices {
        input: MicroUsd(1_000_000),
        output: MicroUsd(10_000_000),
        cached: MicroUsd(100_000),
        cache_write: MicroUsd(1_000_000),
        above: None,
    }
}

fn ask(input: u64, max_output: u64) -> Ask {
    Ask { input, max_output, prices: Some(prices()) }
}

fn usd(micro: u64) -> Limits {
    Limits { usd: Some(MicroUsd(micro)), ..Limits::default() }
}

fn spent(micro: u64, tokens: u64) -> Spent {
    Spent { usd: MicroUsd(micro), tokens, requests: 1, millis: 0 }
}

fn exceeded(result: Result<Reservation, BudgetError>) -> Exceeded {
    match result {
        Err(BudgetError::Exceeded { exceeded, .. }) => *exceeded,
        other => panic!("a refusal was due: {other:?}"),
    }
}

#[test]
fn a_settlement_replaces_the_worst_case_with_the_actual_cost() {
    let budget = Budget::new([(Scope::Session, usd(100_000))]);
    let reservation = budget.reserve(&ask(1_000, 2_000)).unwrap();
    assert_eq!(reservation.max_output, 2_000);
    assert_eq!(budget.spent(Scope::Session), spent(21_000, 3_000));
    assert_eq!(budget.status().session, Spent::default(), "a reservation is not told as spent");
    budget.settle(reservation, spent(3_000, 1_200)).unwrap();
    assert_eq!(budget.status().session, spent(3_000, 1_200));
    assert_eq!(budget.spent(Scope::Turn), spent(3_000, 1_200));
    budget.begin_turn();
    assert_eq!(budget.spent(Scope::Turn), Spent::default());
}

#[test]
fn a_reply_is_shortened_before_a_request_is_refused() {
    let budget = Budget::new([(Scope::Session, usd(50_000))]);
    let reservation = budget.reserve(&ask(10_000, 100_000)).unwrap();
    assert_eq!(reservation.max_output, 4_000, "40,000 of 50,000 are left for the reply");
    budget.settle(reservation, spent(35_000, 12_000)).unwrap();
    let refused = exceeded(budget.reserve(&ask(10_000, 100_000)));
    assert!(
        refused.to_string().starts_with(
            "Budget reached: session 0.0350 of 0.0500 USD (12k tokens, 1 request); the next request needs at least 0.0203 USD. Nothing was lost. Continue: /budget +0.05"
        ),
        "{refused}"
    );
    let reservation = budget.reserve(&ask(1_000, 100)).unwrap();
    assert_eq!(reservation.max_output, 100, "a short reply need not be made longer");
}

#[test]
fn tokens_and_requests_are_limits_too() {
    let limits = Limits { tokens: Some(5_000), requests: Some(2), ..Limits::default() };
    let budget = Budget::new([(Scope::Turn, limits)]);
    let unpriced = Ask { prices: None, ..ask(1_000, 100_000) };
    let first = budget.reserve(&unpriced).unwrap();
    assert_eq!(first.max_output, 4_000);
    budget.settle(first, spent(0, 1_500)).unwrap();
    let second = budget.reserve(&unpriced).unwrap();
    budget.settle(second, spent(0, 1_500)).unwrap();
    let refused = exceeded(budget.reserve(&unpriced));
    assert_eq!((refused.scope, refused.unit, refused.spent.requests), (Scope::Turn, Unit::Requests, 2));
    assert_eq!(budget.reached().map(|reached| reached.unit), Some(Unit::Requests));
    budget.begin_turn();
    assert!(budget.reserve(&unpriced).is_ok());
}

#[test]
fn a_zero_budget_allows_only_free_models() {
    let budget = Budget::new([(Scope::Session, usd(0))]);
    assert_eq!(exceeded(budget.reserve(&ask(1, 1))).limit, 0);
    let free = MicroUsd(0);
    let free = Prices { input: free, output: free, cached: free, cache_write: free, above: None };
    let reservation = budget.reserve(&Ask { prices: Some(free), ..ask(1_000, 2_000) }).unwrap();
    budget.settle(reservation, spent(0, 3_000)).unwrap();
    assert_eq!(budget.reached(), None);
    for limits in [
        Limits { tokens: Some(0), ..Limits::default() },
        Limits { requests: Some(0), ..Limits::default() },
        Limits { millis: Some(0), ..Limits::default() },
    ] {
        exceeded(Budget::new([(Scope::Session, limits)]).reserve(&ask(1, 1)));
    }
}

#[test]
fn time_is_counted_while_a_turn_runs() {
    let limits = Limits { millis: Some(20), ..Limits::default() };
    let budget = Budget::new([(Scope::Session, limits)]);
    std::thread::sleep(std::time::Duration::from_millis(30));
    assert!(budget.reserve(&ask(1, 1)).is_ok(), "no turn runs");
    budget.begin_turn();
    std::thread::sleep(std::time::Duration::from_millis(30));
    assert_eq!(exceeded(budget.reserve(&ask(1, 1))).unit, Unit::Minutes);
    budget.end_turn();
    let spent = budget.status().session.millis;
    std::thread::sleep(std::time::Duration::from_millis(5));
    assert_eq!(budget.status().session.millis, spent);
}

#[test]
fn a_warning_is_given_once_near_the_limit() {
    let budget = Budget::new([(Scope::Session, usd(100_000)), (Scope::Day, usd(1_000_000))]);
    for (amount, expected) in [(79_999, 0), (1, 1), (1, 0)] {
        let reservation = budget.reserve(&ask(10, 100)).unwrap();
        budget.settle(reservation, spent(amount, 1)).unwrap();
        let told = budget.take_notices();
        assert_eq!(told.len(), expected, "{told:?}");
        assert!(told.iter().all(|line| line.starts_with("Budget: session 0.08 of 0.10 USD")), "{told:?}");
    }
}

#[test]
fn a_resumed_session_keeps_what_it_spent() {
    let budget = Budget::new([(Scope::Session, usd(10_000))]).of_session("6f1c");
    budget.resume(spent(9_999, 1));
    let refused = exceeded(budget.reserve(&ask(1_000, 2_000)));
    assert_eq!((refused.spent.usd, refused.session.as_deref()), (MicroUsd(9_999), Some("6f1c")));
}

#[test]
fn a_session_limit_can_be_raised_but_a_system_limit_cannot() {
    let raise = BudgetChange::Raise { unit: Unit::Usd, by: 20_000 };
    let budget = Budget::new([(Scope::Session, usd(10_000)), (Scope::Day, usd(50_000))]);
    exceeded(budget.reserve(&ask(10_000, 2_000)));
    assert_eq!(budget.change(raise), Ok(()));
    assert!(budget.reserve(&ask(10_000, 2_000)).is_ok());
    let tokens = BudgetChange::Raise { unit: Unit::Tokens, by: 1 };
    assert_eq!(budget.change(tokens), Err("the session has no `tokens` limit".to_owned()));
    assert_eq!(budget.change(BudgetChange::Off), Ok(()));
    let scopes: Vec<Scope> = budget.status().scopes.iter().map(|status| status.scope).collect();
    assert_eq!(scopes, [Scope::Day], "a day is not the session's to change");

    let fixed = [(Scope::Session, usd(15_000))];
    let budget = Budget::new([(Scope::Session, usd(10_000))]).with_fixed(fixed);
    assert_eq!(budget.change(raise), Ok(()));
    assert_eq!(budget.status().scopes[0].limits, usd(15_000), "up to the system's limit");
    assert_eq!(budget.change(raise), Err("the limit is set in system settings".to_owned()));
    assert_eq!(budget.change(BudgetChange::Off), Ok(()));
    assert_eq!(budget.status().scopes[0].limits, usd(15_000));
    assert!(exceeded(budget.reserve(&ask(20_000, 2_000))).fixed);
}

#[test]
fn a_process_that_dies_leaves_its_reservation_spent() {
    let folder = tempfile::tempdir().unwrap();
    let limits = [(Scope::Day, usd(30_000)), (Scope::Project, usd(1_000_000))];
    let first = Budget::new(limits).with_file(file(&folder));
    // Neither settled nor dropped, as after `kill -9`.
    std::mem::forget(first.reserve(&ask(1_000, 2_000)).unwrap());
    let second = Budget::new(limits).with_file(file(&folder));
    let refused = exceeded(second.reserve(&ask(1_000, 2_000)));
    assert_eq!((refused.scope, refused.spent), (Scope::Day, spent(21_000, 3_000)));
    let other_project =
        CounterFile::new(folder.path().join("budget.json"), "other", Arc::new(HandClock::default()));
    let third = Budget::new([(Scope::Project, usd(30_000))]).with_file(other_project);
    let reservation = third.reserve(&ask(1_000, 2_000)).unwrap();
    third.settle(reservation, spent(5, 5)).unwrap();
    assert_eq!(third.spent(Scope::Project), spent(5, 5));
    assert_eq!(third.spent(Scope::Day).usd, MicroUsd(21_005));
}

#[test]
fn a_day_ends_at_midnight_and_a_request_belongs_to_the_day_it_began_on() {
    let folder = tempfile::tempdir().unwrap();
    let clock = Arc::new(HandClock::default());
    let path = folder.path().join("budget.json");
    let file = CounterFile::new(&path, "project", Arc::clone(&clock) as Arc<dyn Clock>);
    let budget = Budget::new([(Scope::Day, usd(30_000))]).with_file(file);
    let late = budget.reserve(&ask(1_000, 2_000)).unwrap();
    clock.0.store(15 * 3_600_000, Ordering::SeqCst);
    let early = budget.reserve(&ask(1_000, 2_000)).unwrap();
    budget.settle(late, spent(20_000, 3_000)).unwrap();
    budget.settle(early, spent(25_000, 3_000)).unwrap();
    assert_eq!(budget.take_notices().len(), 1, "most of the new day is spent");
    let counters: serde_json::Value = serde_json::from_str(&std::fs::read_to_string(&path).unwrap()).unwrap();
    assert_eq!(counters["days"]["2026-11-16"]["micro_usd"], 20_000);
    assert_eq!(counters["days"]["2026-11-17"]["micro_usd"], 25_000);
    assert_eq!(counters["projects"]["project"]["micro_usd"], 45_000);
    exceeded(budget.reserve(&ask(1_000, 2_000)));
    clock.0.store(39 * 3_600_000, Ordering::SeqCst);
    let next = budget.reserve(&ask(1_000, 2_000)).unwrap();
    budget.settle(next, spent(29_000, 3_000)).unwrap();
    assert_eq!(budget.take_notices().len(), 1, "each day has its own notice");
}

#[test]
fn days_of_a_wrong_clock_do_not_push_today_out() {
    let folder = tempfile::tempdir().unwrap();
    let days: Vec<String> =
        (1..=31).map(|day| format!("\"2027-01-{day:02}\": {{\"micro_usd\": 1}}")).collect();
    let text = format!("{{\"days\": {{{}}}}}", days.join(", "));
    replace(&folder.path().join("budget.json"), text.as_bytes(), Mode::Private).unwrap();
    let budget = Budget::new([(Scope::Day, usd(30_000))]).with_file(file(&folder));
    let reservation = budget.reserve(&ask(1_000, 2_000)).unwrap();
    budget.settle(reservation, spent(20_000, 3_000)).unwrap();
    assert_eq!(exceeded(budget.reserve(&ask(1_000, 2_000))).spent.usd, MicroUsd(20_000));
}

#[test]
fn a_damaged_file_blocks_all_requests() {
    let folder = tempfile::tempdir().unwrap();
    for text in ["{", "[]", "{\"days\": 3}", "{\"days\": {\"2026-11-16\": {\"tokens\": -1}}}"] {
        replace(&folder.path().join("budget.json"), text.as_bytes(), Mode::Private).unwrap();
        let budget = Budget::new([(Scope::Day, usd(1))]).with_file(file(&folder));
        let error = budget.reserve(&ask(1, 1)).unwrap_err();
        assert!(matches!(error, BudgetError::File(_)), "{error}");
        assert!(error.to_string().contains("delete it to reset"), "{error}");
        assert_eq!(ModelError::from(error).kind, ModelErrorKind::BudgetExceeded);
    }
}

#[test]
fn an_unwritable_file_blocks_all_requests() {
    let folder = tempfile::tempdir().unwrap();
    // A file where the folder should be: also root cannot write below it.
    let blocked = folder.path().join("state");
    replace(&blocked, b"", Mode::Private).unwrap();
    let file = CounterFile::new(blocked.join("budget.json"), "project", Arc::new(HandClock::default()));
    let error = Budget::new([(Scope::Day, usd(1_000_000))]).with_file(file).reserve(&ask(1, 1)).unwrap_err();
    assert!(error.to_string().starts_with("could not track the budget: "), "{error}");
}

#[test]
fn parallel_callers_cannot_spend_the_same_money() {
    let folder = tempfile::tempdir().unwrap();
    let limits = [(Scope::Session, usd(100_000)), (Scope::Day, usd(150_000))];
    // Two processes with four callers each.
    let budgets =
        [Budget::new(limits).with_file(file(&folder)), Budget::new(limits).with_file(file(&folder))];
    std::thread::scope(|scope| {
        for budget in budgets.iter().flat_map(|budget| [budget; 4]) {
            scope.spawn(|| {
                while let Ok(reservation) = budget.reserve(&ask(1_000, 1_000)) {
                    budget.settle(reservation, spent(11_000, 2_000)).unwrap();
                }
            });
        }
    });
    let sessions: u64 = budgets.iter().map(|budget| budget.spent(Scope::Session).usd.0).sum();
    let fresh = Budget::new(limits).with_file(file(&folder));
    let day = fresh.reserve(&ask(0, 0)).unwrap();
    fresh.settle(day, Spent::default()).unwrap();
    let day = fresh.spent(Scope::Day).usd.0;
    assert_eq!(day, sessions, "the file has all of it");
    assert!(day <= 150_000 && day > 150_000 - 11_000 * 8, "{day}");
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    /// Whatever requests come, and however little of their reservation they use, no limit is ever passed.
    #[test]
    fn no_limit_is_ever_passed(
        limit in 0u64..500_000,
        requests in prop::collection::vec((0u64..20_000, 0u64..50_000, 0u8..=100), 1..40),
    ) {
        let budget = Budget::new([(Scope::Session, usd(limit))]);
        let mut open = Vec::new();
        for (input, max_output, used) in requests {
            let Ok(reservation) = budget.reserve(&ask(input, max_output)) else { continue };
            prop_assert!(reservation.max_output <= max_output);
            prop_assert!(reservation.max_output >= MIN_OUTPUT.min(max_output));
            prop_assert!(budget.spent(Scope::Session).usd.0 <= limit);
            let output = reservation.max_output * u64::from(used) / 100;
            let actual = Spent { usd: worst_cost(input, output, &prices()), tokens: input + output, requests: 1, millis: 0 };
            open.push((reservation, actual));
            if open.len() > 3 {
                let (reservation, actual) = open.remove(0);
                budget.settle(reservation, actual).unwrap();
                prop_assert!(budget.spent(Scope::Session).usd.0 <= limit);
            }
        }
        let expected: u64 = open.iter().map(|(_, actual)| actual.requests).sum();
        prop_assert!(budget.spent(Scope::Session).requests >= expected);
        for (reservation, actual) in open {
            budget.settle(reservation, actual).unwrap();
        }
        prop_assert!(budget.spent(Scope::Session).usd.0 <= limit);
    }
}
