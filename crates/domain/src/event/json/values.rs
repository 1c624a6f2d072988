//! The values that fields are made of.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::Value;

use super::{Json, MalformedEvent};
use crate::JsonObject;
use crate::content::AnswerFields;
use crate::event::{FrontId, RequestId};
use crate::id::{CallId, SessionId};
use crate::model::{Dialect, MicroUsd, ProviderId};
use crate::terminal_screen::TypedBytes;

/// The caller adds the place.
fn wrong(problem: &str) -> MalformedEvent {
    MalformedEvent::new("", problem)
}

impl Json for String {
    fn write(&self) -> Value {
        Value::from(self.as_str())
    }

    fn read(value: Value) -> Result<Self, MalformedEvent> {
        match value {
            Value::String(text) => Ok(text),
            _ => Err(wrong("not a string")),
        }
    }
}

impl Json for bool {
    fn write(&self) -> Value {
        Value::from(*self)
    }

    fn read(value: Value) -> Result<Self, MalformedEvent> {
        value.as_bool().ok_or_else(|| wrong("not a boolean"))
    }
}

macro_rules! numbers {
    ($($type:ty)*) => {$(
        impl Json for $type {
            fn write(&self) -> Value {
                Value::from(*self)
            }

            fn read(value: Value) -> Result<Self, MalformedEvent> {
                let number = value.as_i64().and_then(|number| Self::try_from(number).ok());
                let number = number.or_else(|| Self::try_from(value.as_u64()?).ok());
                number.ok_or_else(|| wrong("not a number, or out of range"))
            }
        }
    )*};
}

numbers!(u8 u16 u32 u64 i32);

impl Json for Value {
    fn write(&self) -> Value {
        self.clone()
    }

    fn read(value: Value) -> Result<Self, MalformedEvent> {
        Ok(value)
    }
}

impl Json for JsonObject {
    fn write(&self) -> Value {
        Value::Object(self.clone())
    }

    fn read(value: Value) -> Result<Self, MalformedEvent> {
        match value {
            Value::Object(object) => Ok(object),
            _ => Err(wrong("not an object")),
        }
    }
}

impl<T: Json> Json for Option<T> {
    fn write(&self) -> Value {
        self.as_ref().map_or(Value::Null, Json::write)
    }

    fn read(value: Value) -> Result<Self, MalformedEvent> {
        if value.is_null() { Ok(None) } else { T::read(value).map(Some) }
    }
}

impl<T: Json> Json for Vec<T> {
    fn write(&self) -> Value {
        self.iter().map(Json::write).collect()
    }

    fn read(value: Value) -> Result<Self, MalformedEvent> {
        match value {
            Value::Array(items) => items.into_iter().map(T::read).collect(),
            _ => Err(wrong("not an array")),
        }
    }
}

impl<T: Json> Json for Box<T> {
    fn write(&self) -> Value {
        T::write(self)
    }

    fn read(value: Value) -> Result<Self, MalformedEvent> {
        T::read(value).map(Self::new)
    }
}

impl<T: Json> Json for Arc<T> {
    fn write(&self) -> Value {
        T::write(self)
    }

    fn read(value: Value) -> Result<Self, MalformedEvent> {
        T::read(value).map(Self::new)
    }
}

impl<A: Json, B: Json> Json for (A, B) {
    fn write(&self) -> Value {
        Value::Array(vec![self.0.write(), self.1.write()])
    }

    fn read(value: Value) -> Result<Self, MalformedEvent> {
        let pair: Vec<Value> = Json::read(value)?;
        let [first, second] = <[Value; 2]>::try_from(pair).map_err(|_| wrong("not a pair"))?;
        Ok((A::read(first)?, B::read(second)?))
    }
}

/// Text where it is text, else `{"base64": …}`: a file's name may be any bytes.
impl Json for PathBuf {
    fn write(&self) -> Value {
        match self.to_str() {
            Some(text) => Value::from(text),
            None => {
                let bytes = STANDARD.encode(self.as_os_str().as_encoded_bytes());
                Value::Object(JsonObject::from_iter([("base64".to_owned(), Value::from(bytes))]))
            }
        }
    }

    fn read(value: Value) -> Result<Self, MalformedEvent> {
        if let Value::String(text) = value {
            return Ok(Self::from(text));
        }
        let bytes = value.get("base64").and_then(Value::as_str);
        let bytes = bytes.and_then(|text| STANDARD.decode(text).ok()).ok_or_else(|| wrong("not a path"))?;
        Ok(path_of(bytes))
    }
}

#[cfg(unix)]
fn path_of(bytes: Vec<u8>) -> PathBuf {
    use std::os::unix::ffi::OsStringExt as _;
    std::ffi::OsString::from_vec(bytes).into()
}

#[cfg(not(unix))]
fn path_of(bytes: Vec<u8>) -> PathBuf {
    String::from_utf8_lossy(&bytes).into_owned().into()
}

/// As `base64`: what is typed may be any bytes.
impl Json for TypedBytes {
    fn write(&self) -> Value {
        Value::from(STANDARD.encode(&self.0))
    }

    fn read(value: Value) -> Result<Self, MalformedEvent> {
        let text = String::read(value)?;
        STANDARD.decode(text).map(Self).map_err(|_| wrong("not base64"))
    }
}

/// Seconds and nanoseconds.
impl Json for Duration {
    fn write(&self) -> Value {
        (self.as_secs(), self.subsec_nanos()).write()
    }

    fn read(value: Value) -> Result<Self, MalformedEvent> {
        let (seconds, nanos) = Json::read(value)?;
        if nanos >= 1_000_000_000_u32 {
            return Err(wrong("not a duration"));
        }
        Ok(Self::new(seconds, nanos))
    }
}

impl Json for AnswerFields {
    fn write(&self) -> Value {
        JsonObject::write(self)
    }

    fn read(value: Value) -> Result<Self, MalformedEvent> {
        JsonObject::read(value).map(Self::from)
    }
}

macro_rules! ids {
    ($($type:ident $from:ident)*) => {$(
        impl Json for $type {
            fn write(&self) -> Value {
                Value::from(self.as_str())
            }

            fn read(value: Value) -> Result<Self, MalformedEvent> {
                String::read(value).map(Self::$from)
            }
        }
    )*};
}

ids!(SessionId from_file CallId from_file RequestId new FrontId new ProviderId new Dialect new);

impl Json for MicroUsd {
    fn write(&self) -> Value {
        self.0.write()
    }

    fn read(value: Value) -> Result<Self, MalformedEvent> {
        u64::read(value).map(Self)
    }
}
