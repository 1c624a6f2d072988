//! Messages as types: one definition gives the Rust type, its JSON and its schema.

use pollux_domain::JsonObject;
use serde_json::{Map, Value, json};

/// A value of the protocol that can describe itself.
pub(crate) trait Shape {
    /// Its JSON schema.
    fn schema() -> Value;

    /// Whether a message may leave it out.
    const IS_OPTIONAL: bool = false;

    /// Whether this value is left out.
    fn is_absent(&self) -> bool {
        false
    }
}

impl Shape for String {
    fn schema() -> Value {
        json!({"type": "string"})
    }
}

impl Shape for bool {
    fn schema() -> Value {
        json!({"type": "boolean"})
    }
}

impl Shape for u64 {
    fn schema() -> Value {
        json!({"type": "integer", "minimum": 0})
    }
}

impl Shape for Value {
    fn schema() -> Value {
        json!({})
    }
}

impl Shape for JsonObject {
    fn schema() -> Value {
        json!({"type": "object"})
    }
}

impl<T: Shape> Shape for Vec<T> {
    fn schema() -> Value {
        json!({"type": "array", "items": T::schema()})
    }
}

impl<T: Shape> Shape for Option<T> {
    fn schema() -> Value {
        T::schema()
    }

    const IS_OPTIONAL: bool = true;

    fn is_absent(&self) -> bool {
        self.is_none()
    }
}

/// A field of a message, for the schema and the reference.
#[derive(Debug)]
pub(crate) struct Field {
    pub(crate) name: String,
    pub(crate) about: String,
    pub(crate) schema: Value,
    pub(crate) is_optional: bool,
}

/// A kind of message, for the schema and the reference.
#[derive(Debug)]
pub(crate) struct Kind {
    pub(crate) word: &'static str,
    pub(crate) about: String,
    pub(crate) fields: Vec<Field>,
}

/// For serde: leaves out what is absent.
pub(crate) fn is_absent<T: Shape>(value: &T) -> bool {
    value.is_absent()
}

/// `call_id` as `callId`.
pub(crate) fn camel(name: &str) -> String {
    let mut words = name.split('_');
    let mut camel = words.next().unwrap_or_default().to_owned();
    for word in words {
        let mut letters = word.chars();
        camel.extend(letters.next().map(|first| first.to_ascii_uppercase()));
        camel.push_str(letters.as_str());
    }
    camel
}

/// `callId` as `call_id`.
pub(crate) fn snake(name: &str) -> String {
    let mut snake = String::with_capacity(name.len() + 2);
    for letter in name.chars() {
        if letter.is_ascii_uppercase() {
            snake.push('_');
        }
        snake.push(letter.to_ascii_lowercase());
    }
    snake
}

/// Lines of a doc comment as one text.
pub(crate) fn joined(lines: &[&str]) -> String {
    let lines: Vec<&str> = lines.iter().map(|line| line.trim()).collect();
    lines.join(" ")
}

/// The schema of an object with these fields.
pub(crate) fn object_schema(fields: &[Field]) -> Value {
    let mut properties = Map::new();
    for field in fields {
        let mut schema = field.schema.clone();
        if let (false, Some(members)) = (field.about.is_empty(), schema.as_object_mut()) {
            members.insert("description".to_owned(), field.about.clone().into());
        }
        properties.insert(field.name.clone(), schema);
    }
    let required: Vec<&str> =
        fields.iter().filter(|field| !field.is_optional).map(|field| field.name.as_str()).collect();
    json!({"type": "object", "properties": properties, "required": required})
}

/// Defines an object of the protocol.
macro_rules! object {
    (
        $(#[doc = $about:literal])*
        $name:ident { $( $(#[doc = $doc:literal])* $field:ident: $type:ty, )* }
    ) => {
        $(#[doc = $about])*
        #[derive(Debug, Clone, PartialEq, serde::Serialize, serde::Deserialize)]
        #[serde(rename_all = "camelCase")]
        pub(crate) struct $name {
            $(
                $(#[doc = $doc])*
                #[serde(skip_serializing_if = "crate::shape::is_absent")]
                pub(crate) $field: $type,
            )*
        }

        impl $name {
            /// Its fields, in order.
            pub(crate) fn fields() -> Vec<crate::shape::Field> {
                vec![$(
                    crate::shape::Field {
                        name: crate::shape::camel(stringify!($field)),
                        about: crate::shape::joined(&[$($doc),*]),
                        schema: <$type as crate::shape::Shape>::schema(),
                        is_optional: <$type as crate::shape::Shape>::IS_OPTIONAL,
                    },
                )*]
            }
        }

        impl crate::shape::Shape for $name {
            fn schema() -> serde_json::Value {
                crate::shape::object_schema(&Self::fields())
            }
        }
    };
}

/// Defines the messages of one direction: each with its word, its fields and what it is for.
macro_rules! messages {
    (
        $(#[doc = $about:literal])*
        $name:ident {
            $(
                $(#[doc = $doc:literal])*
                $word:literal => $variant:ident $fields:tt
            )*
        }
    ) => {
        $( crate::shape::object! { $(#[doc = $doc])* $variant $fields } )*

        $(#[doc = $about])*
        #[derive(Debug, Clone, PartialEq)]
        #[allow(dead_code, reason = "messages that others write are described too")]
        #[allow(clippy::large_enum_variant, reason = "a message lives for a moment")]
        pub(crate) enum $name {
            $( $variant($variant), )*
        }

        #[allow(dead_code, reason = "one direction is only read, the other only written")]
        impl $name {
            /// The word in `type`.
            pub(crate) fn word(&self) -> &'static str {
                match self {
                    $( Self::$variant(_) => $word, )*
                }
            }

            /// Reads a message; `None` if the word is unknown. Upper and lower case are the same.
            pub(crate) fn read(
                word: &str,
                fields: pollux_domain::JsonObject,
            ) -> Option<Result<Self, serde_json::Error>> {
                $(
                    if word.eq_ignore_ascii_case($word) {
                        let read = serde_json::from_value::<$variant>(serde_json::Value::Object(fields));
                        return Some(read.map(Self::$variant));
                    }
                )*
                None
            }

            /// The message without its `type`.
            pub(crate) fn to_fields(&self) -> Result<serde_json::Value, serde_json::Error> {
                match self {
                    $( Self::$variant(message) => serde_json::to_value(message), )*
                }
            }

            /// All kinds of messages, in order.
            pub(crate) fn kinds() -> Vec<crate::shape::Kind> {
                vec![$(
                    crate::shape::Kind {
                        word: $word,
                        about: crate::shape::joined(&[$($doc),*]),
                        fields: $variant::fields(),
                    },
                )*]
            }
        }
    };
}

pub(crate) use {messages, object};

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_change_their_case_and_back() {
        for (one, other) in [("call_id", "callId"), ("is_error", "isError"), ("to", "to")] {
            assert_eq!(camel(one), other);
            assert_eq!(snake(other), one);
        }
    }
}
