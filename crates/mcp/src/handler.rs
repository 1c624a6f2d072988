//! Handles requests and notifications from a server.

#![expect(deprecated, reason = "roots and logging are old, and servers use them")]

use std::sync::Arc;

use rmcp::model::{
    ClientCapabilities, ClientConfig, CustomNotification, ElicitRequestParams, ElicitResult,
    ElicitationAction, ElicitationCapability, FormElicitationCapability, Implementation, ListRootsResult,
    LoggingMessageNotificationParam, ProgressNotificationParam, ProtocolVersion, Root, RootsCapabilities,
    UrlElicitationCapability,
};
use rmcp::service::{NotificationContext, RequestContext, RoleClient};
use rmcp::{ClientHandler, ErrorData};
use serde_json::Value;

use crate::elicitation;
use crate::server::Server;

/// Our side of one connection.
pub(crate) struct Handler(pub(crate) Arc<Server>);

impl ClientHandler for Handler {
    fn get_info(&self) -> ClientConfig {
        let common = &self.0.common;
        let mut capabilities = ClientCapabilities::default();
        let mut roots = RootsCapabilities::default();
        roots.list_changed = Some(true);
        capabilities.roots = Some(roots);
        // Only in interactive sessions.
        capabilities.elicitation = common.interactive.then(|| {
            let mut elicitation = ElicitationCapability::default();
            elicitation.form = Some(FormElicitationCapability::default());
            elicitation.url = Some(UrlElicitationCapability::default());
            elicitation
        });
        // Servers know upstream's name.
        let client =
            Implementation::new("gemini-cli-mcp-client", common.version.as_str()).with_title("Pollux");
        ClientConfig::new(capabilities, client).with_protocol_version(ProtocolVersion::V_2025_11_25)
    }

    async fn list_roots(&self, _context: RequestContext<RoleClient>) -> Result<ListRootsResult, ErrorData> {
        let roots = self.0.common.roots.iter().filter_map(|folder| {
            let uri = reqwest::Url::from_directory_path(folder).ok()?;
            let name = folder.file_name().map(|name| name.to_string_lossy().into_owned());
            let root = Root::new(uri.as_str().trim_end_matches('/'));
            Some(match name {
                Some(name) => root.with_name(name),
                None => root,
            })
        });
        Ok(ListRootsResult::new(roots.collect()))
    }

    async fn create_elicitation(
        &self,
        request: ElicitRequestParams,
        context: RequestContext<RoleClient>,
    ) -> Result<ElicitResult, ErrorData> {
        let Some(person) = self.0.users.asked() else {
            return Ok(ElicitResult::new(ElicitationAction::Decline));
        };
        Ok(match request {
            ElicitRequestParams::FormElicitationParams { message, requested_schema, .. } => {
                let schema = serde_json::to_value(requested_schema).unwrap_or(Value::Null);
                elicitation::ask(&*person, self.0.name(), &message, &schema, &context.ct).await
            }
            ElicitRequestParams::UrlElicitationParams { message, url, .. } => {
                elicitation::show(&*person, self.0.name(), &message, &url, &context.ct).await
            }
            _ => ElicitResult::new(ElicitationAction::Decline),
        })
    }

    async fn on_progress(
        &self,
        params: ProgressNotificationParam,
        _context: NotificationContext<RoleClient>,
    ) {
        let done = match params.total {
            Some(total) if total > 0.0 => format!("{}/{total}", params.progress),
            Some(_) | None => params.progress.to_string(),
        };
        let message: String = params.message.unwrap_or_default().chars().take(500).collect();
        self.0.progressed(params.progress_token, format!("{done} {message}").trim().to_owned());
    }

    async fn on_logging_message(
        &self,
        params: LoggingMessageNotificationParam,
        _context: NotificationContext<RoleClient>,
    ) {
        let text = match &params.data {
            Value::String(text) => text.chars().take(2000).collect::<String>(),
            other => other.to_string().chars().take(2000).collect(),
        };
        self.0.log.push(&format!("[{:?}] {text}", params.level).to_lowercase());
    }

    async fn on_custom_notification(
        &self,
        notification: CustomNotification,
        _context: NotificationContext<RoleClient>,
    ) {
        if let Some(listener) = &self.0.common.listener {
            listener.notified(&notification.method, notification.params.unwrap_or_default());
        }
    }

    async fn on_resource_list_changed(&self, _context: NotificationContext<RoleClient>) {
        self.0.relist.notify_one();
    }

    async fn on_tool_list_changed(&self, _context: NotificationContext<RoleClient>) {
        self.0.relist.notify_one();
    }

    async fn on_prompt_list_changed(&self, _context: NotificationContext<RoleClient>) {
        self.0.relist.notify_one();
    }
}
