//! MCP servers inside of the host: their messages travel in `mcp_message` requests.

use std::sync::Arc;

use pollux_host::request::ClientLink;
use serde_json::{Value, json};

use super::control::Control;

/// The way to a server of the host.
pub(crate) fn link(control: &Arc<Control>, name: &str) -> ClientLink {
    let (control, name) = (Arc::clone(control), name.to_owned());
    ClientLink::new(move |message| {
        let asked = control.ask(json!({"subtype": "mcp_message", "server_name": name, "message": message}));
        Box::pin(async move {
            match asked?.answer().await?.shift_remove("mcp_response") {
                Some(response @ Value::Object(_)) => Ok(response),
                _ => Err("the host's answer has no `mcp_response`".to_owned()),
            }
        })
    })
}
