//! The wires that the program speaks, one row each.
//!
//! A provider on one of these wires is a row in [`BUILT_IN_PROVIDERS`](pollux_domain::model::BUILT_IN_PROVIDERS) or an entry of
//! the user's settings. Gemini is not in this table, because Google's accounts take more than an address and a key.

use std::sync::Arc;

use pollux_domain::BoxFuture;
use pollux_domain::model::{Dialect, ModelClient, ModelError, ModelErrorKind};

use crate::catalogue::live::LiveModels;
use crate::prompt_tools::{PromptTools, ToolPlan};
use crate::shared::endpoint::{Endpoint, EndpointError};
use crate::{chat, messages, responses};

/// A wire language and its client.
pub struct Wire {
    pub dialect: Dialect,
    /// Makes a client. Nothing is sent.
    pub connect: fn(Endpoint) -> Result<Arc<dyn ModelClient>, EndpointError>,
    /// Asks the server for its models; the answer holds only what the server said.
    pub models: fn(Endpoint) -> BoxFuture<'static, Result<LiveModels, ModelError>>,
}

/// Every wire but Gemini's own.
pub const WIRES: &[Wire] = &[
    Wire {
        dialect: Dialect::CHAT,
        connect: |endpoint| Ok(Arc::new(chat::ChatClient::new(endpoint)?)),
        models: |endpoint| {
            Box::pin(async { chat::ChatClient::new(endpoint).map_err(unusable)?.live_models().await })
        },
    },
    Wire {
        dialect: Dialect::MESSAGES,
        connect: |endpoint| Ok(Arc::new(messages_client(endpoint)?)),
        models: |endpoint| {
            Box::pin(async { messages_client(endpoint).map_err(unusable)?.live_models().await })
        },
    },
    Wire {
        dialect: Dialect::RESPONSES,
        connect: |endpoint| Ok(Arc::new(responses::ResponsesClient::new(endpoint)?)),
        models: |endpoint| {
            Box::pin(async {
                responses::ResponsesClient::new(endpoint).map_err(unusable)?.live_models().await
            })
        },
    },
];

fn messages_client(endpoint: Endpoint) -> Result<messages::MessagesClient, EndpointError> {
    messages::MessagesClient::new(endpoint, Default::default())
}

fn unusable(error: EndpointError) -> ModelError {
    ModelError::new(ModelErrorKind::BadRequest, None, error.to_string())
}

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
