//! Events and operations as JSON, for front ends in other processes. What is written is read back without loss.
//!
//! Every type has one row of its fields or variants; the compiler names the row that lacks one. This is no form of any
//! published protocol: those have mappings of their own.

mod events;
mod model;
#[cfg(test)]
mod sample;
mod screens;
#[cfg(test)]
mod tests;
mod tools;
mod values;

use serde_json::Value;

use super::{Asked, ConversationView, Event, Op};
use crate::JsonObject;

/// A value that is no event or operation.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("cannot read `{place}`: {problem}")]
pub struct MalformedEvent {
    /// The type, or the type and its field.
    place: String,
    problem: String,
}

impl MalformedEvent {
    fn new(place: impl Into<String>, problem: impl Into<String>) -> Self {
        Self { place: place.into(), problem: problem.into() }
    }
}

/// A type with a form in JSON that keeps all of it.
trait Json: Sized {
    fn write(&self) -> Value;

    fn read(value: Value) -> Result<Self, MalformedEvent>;
}

/// The fields of an object that is being read.
struct Fields {
    of: &'static str,
    object: JsonObject,
}

impl Fields {
    fn of(value: Value, of: &'static str) -> Result<Self, MalformedEvent> {
        match value {
            Value::Object(object) => Ok(Self { of, object }),
            _ => Err(MalformedEvent::new(of, "not an object")),
        }
    }

    /// Takes a field; one that is missing reads as `null`.
    fn take<T: Json>(&mut self, name: &'static str) -> Result<T, MalformedEvent> {
        let value = self.object.get_mut(name).map(Value::take).unwrap_or_default();
        T::read(value).map_err(|error| match error.place.is_empty() {
            true => MalformedEvent::new(format!("{}.{name}", self.of), error.problem),
            false => error,
        })
    }
}

/// A struct: an object of its fields.
macro_rules! fields {
    ($($type:ident { $($field:ident),* $(,)? })*) => {$(
        impl Json for $type {
            fn write(&self) -> Value {
                let Self { $($field),* } = self;
                Value::Object(JsonObject::from_iter([$((stringify!($field).to_owned(), $field.write())),*]))
            }

            fn read(value: Value) -> Result<Self, MalformedEvent> {
                let mut fields = Fields::of(value, stringify!($type))?;
                Ok(Self { $($field: fields.take(stringify!($field))?),* })
            }
        }

        #[cfg(test)]
        impl super::sample::Sample for $type {
            fn sample(dice: &mut super::sample::Dice) -> Self {
                Self { $($field: super::sample::Sample::sample(dice)),* }
            }
        }
    )*};
}

/// An enum whose variants hold nothing: the variant's name.
macro_rules! words {
    ($($type:ident { $($variant:ident),* $(,)? })*) => {$(
        impl Json for $type {
            fn write(&self) -> Value {
                Value::from(match self { $(Self::$variant => stringify!($variant)),* })
            }

            fn read(value: Value) -> Result<Self, MalformedEvent> {
                let word = value.as_str().unwrap_or_default();
                $(if word == stringify!($variant) {
                    return Ok(Self::$variant);
                })*
                Err(MalformedEvent::new(stringify!($type), format!("unknown value `{word}`")))
            }
        }

        #[cfg(test)]
        impl super::sample::Sample for $type {
            fn sample(dice: &mut super::sample::Dice) -> Self {
                let all = [$(Self::$variant),*];
                all[dice.below(all.len())]
            }
        }
    )*};
}

/// Any other enum: an object with the variant's name as `type`, its fields, or what it holds as `value`.
macro_rules! variants {
    ($($type:ident { $($variant:ident $(($held:ident))? $({ $($field:ident),* })?),* $(,)? })*) => {$(
        impl Json for $type {
            fn write(&self) -> Value {
                match self {
                    $(Self::$variant $(($held))? $({ $($field),* })? => {
                        Value::Object(JsonObject::from_iter([
                            ("type".to_owned(), Value::from(stringify!($variant))),
                            $(("value".to_owned(), $held.write()),)?
                            $($((stringify!($field).to_owned(), $field.write()),)*)?
                        ]))
                    })*
                }
            }

            fn read(value: Value) -> Result<Self, MalformedEvent> {
                let mut fields = Fields::of(value, stringify!($type))?;
                let variant: String = fields.take("type")?;
                $(if variant == stringify!($variant) {
                    $(let $held = fields.take("value")?;)?
                    return Ok(Self::$variant $(($held))? $({ $($field: fields.take(stringify!($field))?),* })?);
                })*
                Err(MalformedEvent::new(stringify!($type), format!("unknown type `{variant}`")))
            }
        }

        #[cfg(test)]
        impl super::sample::Sample for $type {
            fn sample(dice: &mut super::sample::Dice) -> Self {
                let names = [$(stringify!($variant)),*];
                let name = names[dice.below(names.len())];
                $(if name == stringify!($variant) {
                    $(let $held = super::sample::Sample::sample(dice);)?
                    return Self::$variant $(($held))? $({ $($field: super::sample::Sample::sample(dice)),* })?;
                })*
                unreachable!()
            }
        }

        #[cfg(test)]
        impl super::sample::Variants for $type {
            const NAMES: &'static [&'static str] = &[$(stringify!($variant)),*];
        }
    )*};
}

use {fields, variants, words};

/// The ways in and out for others.
macro_rules! open {
    ($($type:ident)*) => {$(
        impl $type {
            /// All of it as JSON.
            pub fn to_json(&self) -> Value {
                self.write()
            }

            /// What [`Self::to_json`] wrote.
            pub fn from_json(value: Value) -> Result<Self, MalformedEvent> {
                Self::read(value)
            }
        }
    )*};
}

open!(Event Op Asked ConversationView);
