use std::sync::atomic::{AtomicUsize, Ordering};

use pollux_config::files::{Mode, replace};
use pollux_domain::time::{Clock, Timestamp};
use proptest::prelude::*;

use super::*;

struct FixedClock;

impl Clock for FixedClock {
    fn now(&self) -> Timestamp {
        Timestamp::parse("2026-11-16T10:00:00.000Z").unwrap()
    }
}

fn file(folder: &tempfile::TempDir) -> CounterFile {
    CounterFile::new(folder.path().join("budget.json"), "project", Arc::new(FixedClock))
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
    Spent { usd: MicroUsd(micro), tokens, requests: 1 }
}

fn exceeded(result: Result<Reservation, BudgetError>) -> Exceeded {
    match result {
        Err(BudgetError::Exceeded(exceeded)) => exceeded,
        other => panic!("a refusal was due: {other:?}"),
    }
}

#[test]
fn a_reservation_is_the_worst_case_and_its_settlement_the_truth() {
    let budget = Budget::new([(Scope::Session, usd(100_000))]);
    let reservation = budget.reserve(&ask(1_000, 2_000)).unwrap();
    assert_eq!(reservation.max_output, 2_000);
    assert_eq!(budget.spent(Scope::Session), spent(21_000, 3_000));
    budget.settle(reservation, spent(3_000, 1_200)).unwrap();
    assert_eq!(budget.spent(Scope::Session), spent(3_000, 1_200));
    assert_eq!(budget.spent(Scope::Turn), spent(3_000, 1_200));
    budget.begin_turn();
    assert_eq!(budget.spent(Scope::Turn), Spent::default());
}

#[test]
fn a_reply_is_made_shorter_before_a_request_is_refused() {
    let budget = Budget::new([(Scope::Session, usd(50_000))]);
    let reservation = budget.reserve(&ask(10_000, 100_000)).unwrap();
    assert_eq!(reservation.max_output, 4_000, "40,000 of 50,000 are left for the reply");
    budget.settle(reservation, spent(35_000, 12_000)).unwrap();
    let refused = exceeded(budget.reserve(&ask(10_000, 100_000)));
    assert_eq!(
        refused.to_string(),
        "Budget reached: session 0.04 of 0.05 USD (12 k tokens, 1 requests). Nothing was lost."
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
    assert_eq!((refused.scope, refused.spent.requests), (Scope::Turn, 2));
    budget.begin_turn();
    assert!(budget.reserve(&unpriced).is_ok());
}

#[test]
fn people_are_told_once_when_most_is_spent() {
    let told = Arc::new(AtomicUsize::new(0));
    let counter = Arc::clone(&told);
    let budget = Budget::new([(Scope::Session, usd(100_000)), (Scope::Day, usd(1_000_000))]).with_notices(
        Arc::new(move |notice| {
            assert_eq!(notice.scope, Scope::Session);
            counter.fetch_add(1, Ordering::SeqCst);
        }),
    );
    for (amount, expected) in [(79_999, 0), (1, 1), (1, 1)] {
        let reservation = budget.reserve(&ask(10, 100)).unwrap();
        budget.settle(reservation, spent(amount, 1)).unwrap();
        assert_eq!(told.load(Ordering::SeqCst), expected);
    }
}

#[test]
fn a_resumed_session_keeps_what_it_spent() {
    let budget = Budget::new([(Scope::Session, usd(10_000))]).resumed(spent(9_999, 1));
    assert_eq!(exceeded(budget.reserve(&ask(1_000, 2_000))).spent.usd, MicroUsd(9_999));
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
    let other_project = CounterFile::new(folder.path().join("budget.json"), "other", Arc::new(FixedClock));
    let third = Budget::new([(Scope::Project, usd(30_000))]).with_file(other_project);
    let reservation = third.reserve(&ask(1_000, 2_000)).unwrap();
    third.settle(reservation, spent(5, 5)).unwrap();
    assert_eq!(third.spent(Scope::Project), spent(5, 5));
    assert_eq!(third.spent(Scope::Day).usd, MicroUsd(21_005));
}

#[test]
fn a_damaged_file_lets_nothing_leave() {
    let folder = tempfile::tempdir().unwrap();
    replace(&folder.path().join("budget.json"), b"{", Mode::Private).unwrap();
    let budget = Budget::new([(Scope::Day, usd(1))]).with_file(file(&folder));
    let error = budget.reserve(&ask(1, 1)).unwrap_err();
    assert!(matches!(error, BudgetError::File(_)));
    assert!(error.to_string().contains("delete it to reset"), "{error}");
    assert_eq!(ModelError::from(error).kind, ModelErrorKind::BudgetExceeded);
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
    let day = exceeded(fresh.reserve(&ask(1_000, 1_000))).spent.usd.0;
    assert_eq!(day, sessions, "the file has all of it");
    assert!(day <= 150_000 && day > 150_000 - 11_000, "{day}");
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
            let actual = Spent { usd: worst_cost(input, output, &prices()), tokens: input + output, requests: 1 };
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
