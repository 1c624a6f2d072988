use std::collections::BTreeSet;
use std::fmt::Debug;

use proptest::prelude::*;
use serde_json::{Value, json};

use super::sample::{Dice, Sample, Variants};
use super::{Json, MalformedEvent};
use crate::event::{Asked, ConversationView, Event, Op, OpResult, TurnEnd};
use crate::terminal_screen::TypedBytes;

/// What comes back after the way through text. `Debug` shows every field of every type here.
fn there_and_back<T: Json + Debug>(value: &T) -> Result<(), TestCaseError> {
    let text = value.write().to_string();
    let read: Value = serde_json::from_str(&text).map_err(|error| TestCaseError::fail(error.to_string()))?;
    let back = T::read(read).map_err(|error| TestCaseError::fail(format!("{error} in {text}")))?;
    prop_assert_eq!(format!("{back:?}"), format!("{value:?}"));
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2_000))]

    #[test]
    fn events_and_operations_are_read_back_without_loss(seed in any::<u64>()) {
        let mut dice = Dice::new(seed);
        there_and_back(&Event::sample(&mut dice))?;
        there_and_back(&Asked::sample(&mut dice))?;
        there_and_back(&ConversationView::sample(&mut dice))?;
    }

    #[test]
    fn no_value_makes_a_reader_panic(seed in any::<u64>()) {
        let mut dice = Dice::new(seed);
        let mut event = Event::sample(&mut dice).write();
        // One field is another value, or gone.
        if let Some(fields) = event.as_object_mut() {
            let at = dice.below(fields.len());
            if let Some(value) = fields.values_mut().nth(at) {
                *value = Value::sample(&mut dice);
            }
        }
        let _ = Event::read(event);
        let _ = Op::read(Value::sample(&mut dice));
    }
}

/// The samples reach every variant, and every variant comes back.
#[test]
fn every_variant_is_made_and_read_back() {
    fn all<T: Sample + Json + Variants + Debug>() {
        let mut seen = BTreeSet::new();
        let mut dice = Dice::new(7);
        for _ in 0..T::NAMES.len() * 40 {
            let value = T::sample(&mut dice);
            there_and_back(&value).unwrap();
            seen.insert(value.write()["type"].as_str().unwrap_or_default().to_owned());
        }
        let wanted: BTreeSet<String> = T::NAMES.iter().map(|name| (*name).to_owned()).collect();
        assert_eq!(seen, wanted);
    }
    all::<Event>();
    all::<Op>();
    all::<OpResult>();
    all::<TurnEnd>();
}

#[test]
fn an_event_has_its_name_as_type() {
    let event = Event::Text("hi".to_owned());
    assert_eq!(event.to_json(), json!({"type": "Text", "value": "hi"}));
    assert_eq!(Event::StepCommitted.to_json(), json!({"type": "StepCommitted"}));
}

#[test]
fn malformed_events_are_named() {
    let problem = |value: Value| Event::from_json(value).unwrap_err().to_string();
    assert_eq!(problem(json!(3)), "cannot read `Event`: not an object");
    assert_eq!(problem(json!({"type": "Nonsense"})), "cannot read `Event`: unknown type `Nonsense`");
    assert_eq!(problem(json!({"type": "Text", "value": 3})), "cannot read `Event.value`: not a string");
    let mode = json!({"type": "ModeChanged", "mode": "Anarchy", "by": null});
    assert_eq!(problem(mode), "cannot read `ApprovalMode`: unknown value `Anarchy`");
    assert_ne!(MalformedEvent::new("a", "b"), MalformedEvent::new("a", "c"));
}

/// `Debug` hides what is typed, so the tests above would not notice a loss.
#[test]
fn typed_bytes_are_read_back_without_loss() {
    let input = TypedBytes((0..=255).collect());
    assert_eq!(TypedBytes::read(input.write()).unwrap(), input);
    assert!(TypedBytes::read(json!("?")).is_err());
}
