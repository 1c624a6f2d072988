//! The port that records file changes of tool calls, so that they can be undone.

use std::sync::Arc;

use crate::content::Content;
use crate::id::CallId;
use crate::tool::Effect;
use crate::{BoxFuture, JsonObject};

/// Records what calls are about to change. Cannot stop a call: problems are returned as messages for
/// the user.
pub trait Changes: Send + Sync {
    /// A prompt is recorded under this id; the calls that follow belong to it.
    fn prompt(&self, message: &str);

    /// An edit waits for approval. `history` is the conversation so far.
    fn asked<'a>(
        &'a self,
        call: &'a ImpendingCall<'a>,
        history: &'a [Arc<Content>],
    ) -> BoxFuture<'a, Vec<String>>;

    /// The call is permitted and runs when this returns. Dropped early, the call will not run.
    fn before<'a>(&'a self, call: &'a ImpendingCall<'a>) -> BoxFuture<'a, Vec<String>>;

    /// The call has ended.
    fn after<'a>(&'a self, call: &'a CallId) -> BoxFuture<'a, Vec<String>>;
}

/// A call that has not run yet.
#[derive(Debug, Clone)]
pub struct ImpendingCall<'a> {
    pub call: &'a CallId,
    pub tool: &'a str,
    pub args: &'a JsonObject,
    pub effect: &'a Effect,
    /// Whether it certainly changes no files; false if in doubt.
    pub reads_only: bool,
    /// The record of the prompt that it belongs to; empty if that was not recorded.
    pub message: &'a str,
    /// The id that the requests of that prompt share.
    pub prompt_id: &'a str,
}
