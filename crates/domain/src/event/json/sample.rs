//! Values of every type, made from dice.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use serde_json::{Value, json};

use crate::JsonObject;
use crate::content::AnswerFields;
use crate::event::{FrontId, RequestId};
use crate::id::{CallId, SessionId};
use crate::model::{Dialect, MicroUsd, ProviderId};
use crate::terminal_screen::TypedBytes;

/// A type of which values can be made. The rows of a type make its impl, so that no variant is left out.
pub(super) trait Sample: Sized {
    fn sample(dice: &mut Dice) -> Self;
}

/// The names of an enum's variants, from the same rows.
pub(super) trait Variants {
    const NAMES: &'static [&'static str];
}

/// Numbers that look random and are the same for the same seed.
pub(super) struct Dice {
    state: u64,
    /// How deep lists may still nest.
    depth: u32,
}

impl Dice {
    pub(super) fn new(seed: u64) -> Self {
        Self { state: seed, depth: 4 }
    }

    pub(super) fn next(&mut self) -> u64 {
        self.state = self.state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.state;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    pub(super) fn below(&mut self, end: usize) -> usize {
        (self.next() % end as u64) as usize
    }

    /// A list of a few things, or none where it would nest too deep.
    fn some<T>(&mut self, mut make: impl FnMut(&mut Self) -> T) -> Vec<T> {
        if self.depth == 0 {
            return Vec::new();
        }
        self.depth -= 1;
        let count = self.below(3);
        let made = (0..count).map(|_| make(self)).collect();
        self.depth += 1;
        made
    }
}

impl Sample for String {
    fn sample(dice: &mut Dice) -> Self {
        const TEXTS: [&str; 9] = [
            "",
            "a",
            "two words",
            "日本語 🦀",
            "\"quoted\" \\ and\n\tmore\r\u{0}\u{1b}[31m",
            "null",
            "{}",
            "3",
            "\u{feff}\u{2028}",
        ];
        match dice.below(TEXTS.len() + 1) {
            at if at < TEXTS.len() => TEXTS[at].to_owned(),
            _ => (0..dice.below(40)).filter_map(|_| char::from_u32(dice.next() as u32 % 0x11_0000)).collect(),
        }
    }
}

impl Sample for bool {
    fn sample(dice: &mut Dice) -> Self {
        dice.below(2) == 0
    }
}

macro_rules! numbers {
    ($($type:ty)*) => {$(
        impl Sample for $type {
            fn sample(dice: &mut Dice) -> Self {
                [0, 1, <$type>::MIN, <$type>::MAX, dice.next() as $type][dice.below(5)]
            }
        }
    )*};
}

numbers!(u8 u16 u32 u64 i32);

impl Sample for Value {
    fn sample(dice: &mut Dice) -> Self {
        match dice.below(8) {
            0 => Value::Null,
            1 => json!(bool::sample(dice)),
            2 => json!(u64::sample(dice)),
            3 => json!(i32::sample(dice)),
            4 => json!(dice.below(1000) as f64 / 8.0),
            5 => json!(String::sample(dice)),
            6 => Value::Array(dice.some(Value::sample)),
            _ => Value::Object(JsonObject::sample(dice)),
        }
    }
}

impl Sample for JsonObject {
    fn sample(dice: &mut Dice) -> Self {
        dice.some(|dice| (String::sample(dice), Value::sample(dice))).into_iter().collect()
    }
}

impl Sample for AnswerFields {
    fn sample(dice: &mut Dice) -> Self {
        JsonObject::sample(dice).into()
    }
}

impl<T: Sample> Sample for Option<T> {
    fn sample(dice: &mut Dice) -> Self {
        (dice.below(3) > 0).then(|| T::sample(dice))
    }
}

impl<T: Sample> Sample for Vec<T> {
    fn sample(dice: &mut Dice) -> Self {
        dice.some(T::sample)
    }
}

impl<T: Sample> Sample for Box<T> {
    fn sample(dice: &mut Dice) -> Self {
        Self::new(T::sample(dice))
    }
}

impl<T: Sample> Sample for Arc<T> {
    fn sample(dice: &mut Dice) -> Self {
        Self::new(T::sample(dice))
    }
}

impl<A: Sample, B: Sample> Sample for (A, B) {
    fn sample(dice: &mut Dice) -> Self {
        (A::sample(dice), B::sample(dice))
    }
}

impl Sample for PathBuf {
    fn sample(dice: &mut Dice) -> Self {
        use std::os::unix::ffi::OsStringExt as _;
        match dice.below(3) {
            0 => std::ffi::OsString::from_vec(vec![b'/', 0xff, 0xc3, b'a']).into(),
            _ => String::sample(dice).into(),
        }
    }
}

impl Sample for TypedBytes {
    fn sample(dice: &mut Dice) -> Self {
        Self(dice.some(u8::sample))
    }
}

impl Sample for Duration {
    fn sample(dice: &mut Dice) -> Self {
        Self::new(u64::sample(dice), dice.below(1_000_000_000) as u32)
    }
}

impl Sample for MicroUsd {
    fn sample(dice: &mut Dice) -> Self {
        Self(u64::sample(dice))
    }
}

macro_rules! ids {
    ($($type:ident $from:ident)*) => {$(
        impl Sample for $type {
            fn sample(dice: &mut Dice) -> Self {
                Self::$from(String::sample(dice))
            }
        }
    )*};
}

ids!(SessionId from_file CallId from_file RequestId new FrontId new ProviderId new Dialect new);
