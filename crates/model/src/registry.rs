//! The wires that the program speaks, one row each.
//!
//! A provider on one of these wires is a row in [`providers::BUILT_IN`](crate::providers::BUILT_IN) or an entry of
//! the user's settings. Gemini is not in this table, because Google's accounts take more than an address and a key.

use std::sync::Arc;

use pollux_domain::model::{Dialect, ModelClient};

use crate::prompt_tools::{PromptTools, ToolPlan};
use crate::shared::endpoint::{Endpoint, EndpointError};
use crate::{chat, messages, responses};

/// A wire language and its client.
pub struct Wire {
    pub dialect: Dialect,
    /// Makes a client. Nothing is sent.
    pub connect: fn(Endpoint) -> Result<Arc<dyn ModelClient>, EndpointError>,
}

/// Every wire but Gemini's own.
pub const WIRES: &[Wire] = &[
    Wire { dialect: Dialect::CHAT, connect: |endpoint| Ok(Arc::new(chat::ChatClient::new(endpoint)?)) },
    Wire {
        dialect: Dialect::MESSAGES,
        connect: |endpoint| Ok(Arc::new(messages::MessagesClient::new(endpoint, Default::default())?)),
    },
    Wire {
        dialect: Dialect::RESPONSES,
        connect: |endpoint| Ok(Arc::new(responses::ResponsesClient::new(endpoint)?)),
    },
];

impl Wire {
    /// A client whose tools follow a plan. Servers of Chat Completions are asked what their models can do.
    pub fn connect_with_tools(
        &self,
        endpoint: Endpoint,
        plan: ToolPlan,
    ) -> Result<Arc<dyn ModelClient>, EndpointError> {
        if self.dialect != Dialect::CHAT {
            return Ok(Arc::new(PromptTools::new((self.connect)(endpoint)?, plan)));
        }
        let chat = Arc::new(chat::ChatClient::new(endpoint)?);
        Ok(Arc::new(PromptTools::probing(Arc::clone(&chat) as Arc<dyn ModelClient>, plan, chat)))
    }

    pub fn of(dialect: &Dialect) -> Option<&'static Self> {
        WIRES.iter().find(|wire| wire.dialect == *dialect)
    }
}
