//! How tools are declared to a server, as JSON text that is kept from one request to the next.
//!
//! A session declares the same tools with every request; writing their schemas again each time would cost more than
//! everything else in the request.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, Weak};

use pollux_domain::sync::Locked as _;
use pollux_domain::tool::ToolSpec;
use serde::{Serialize, Serializer};
use serde_json::Value;
use serde_json::value::{RawValue, to_raw_value};

use super::body::tokens;

/// A tool as a server is told of it.
#[derive(Debug, Clone)]
pub(crate) enum Declaration {
    Kept(Arc<Written>),
    /// Written for this request, such as a tool of the server's own.
    Other(Value),
}

#[derive(Debug)]
pub(crate) struct Written {
    text: Box<RawValue>,
    tokens: u64,
}

/// The forms of one tool on one wire.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum Form {
    Plain,
    /// The server holds the model to the schema.
    Strict,
    /// The server caches the request up to here.
    Marked,
}

/// The declarations that one client has written.
#[derive(Debug, Default)]
pub(crate) struct Declarations(Mutex<HashMap<(usize, Form), Kept>>);

#[derive(Debug)]
struct Kept {
    /// As long as this is here, no other tool has the same address.
    tool: Weak<ToolSpec>,
    written: Arc<Written>,
}

impl Declarations {
    /// The declaration of a tool, written by `write` if it is a new one.
    pub(crate) fn get(
        &self,
        tool: &Arc<ToolSpec>,
        form: Form,
        write: impl FnOnce(&ToolSpec) -> Value,
    ) -> Declaration {
        let key = (Arc::as_ptr(tool).addr(), form);
        if let Some(kept) = self.0.locked().get(&key) {
            return Declaration::Kept(Arc::clone(&kept.written));
        }
        let value = write(tool);
        let Ok(text) = to_raw_value(&value) else { return Declaration::Other(value) };
        let written = Arc::new(Written { text, tokens: tokens(&value) });
        let mut all = self.0.locked();
        all.retain(|_, kept| kept.tool.strong_count() > 0);
        all.insert(key, Kept { tool: Arc::downgrade(tool), written: Arc::clone(&written) });
        Declaration::Kept(written)
    }
}

impl Declaration {
    /// About how many tokens it has.
    pub(super) fn tokens(&self) -> u64 {
        match self {
            Self::Kept(written) => written.tokens,
            Self::Other(value) => tokens(value),
        }
    }
}

impl Serialize for Declaration {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Self::Kept(written) => written.text.serialize(serializer),
            Self::Other(value) => value.serialize(serializer),
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::super::tool_names::tests::tool;
    use super::*;

    #[test]
    fn a_tool_is_written_once_in_each_form() {
        let declarations = Declarations::default();
        let tool = tool("ls");
        let written = |form, value: &str| {
            let value = json!({"name": value});
            serde_json::to_string(&declarations.get(&tool, form, |_| value)).unwrap()
        };
        assert_eq!(written(Form::Plain, "first"), r#"{"name":"first"}"#);
        assert_eq!(written(Form::Plain, "second"), r#"{"name":"first"}"#);
        assert_eq!(written(Form::Strict, "third"), r#"{"name":"third"}"#);
    }

    #[test]
    fn tools_that_are_gone_are_forgotten() {
        let declarations = Declarations::default();
        let lasting = tool("lasting");
        for round in 0..20 {
            let name = |tool: &ToolSpec| json!(tool.name);
            declarations.get(&lasting, Form::Plain, name);
            let passing = tool(&format!("tool-{round}"));
            let declared = declarations.get(&passing, Form::Plain, name);
            assert_eq!(serde_json::to_value(&declared).unwrap(), json!(passing.name));
        }
        assert_eq!(declarations.0.locked().len(), 2);
    }
}
