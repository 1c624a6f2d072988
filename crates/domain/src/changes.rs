//! The port around calls that may change files, so that what they did can be taken back.

use std::sync::Arc;

use crate::content::Content;
use crate::id::CallId;
use crate::tool::Effect;
use crate::{BoxFuture, JsonObject};

/// Keeps what calls are about to change. Nothing here can stop a call: what goes wrong comes back as lines for
/// the person.
pub trait Changes: Send + Sync {
    /// A prompt is recorded under this id; the calls that follow belong to it.
    fn prompt(&self, message: &str);

    /// An edit waits for a person's word. `history` is the conversation until now.
    fn asked<'a>(
        &'a self,
        call: &'a ImpendingCall<'a>,
        history: &'a [Arc<Content>],
    ) -> BoxFuture<'a, Vec<String>>;

    /// The call is permitted and runs when this returns. Dropped early, the call will not run.
    fn before<'a>(&'a self, call: &'a ImpendingCall<'a>) -> BoxFuture<'a, Vec<String>>;

    /// The call is over, in whatever way.
    fn after<'a>(&'a self, call: &'a CallId) -> BoxFuture<'a, Vec<String>>;
}

/// A call that has not run yet.
#[derive(Debug, Clone)]
pub struct ImpendingCall<'a> {
    pub call: &'a CallId,
    pub tool: &'a str,
    pub args: &'a JsonObject,
    pub effect: &'a Effect,
    /// Whether it is certain that it changes no file. In doubt it is false.
    pub reads_only: bool,
    /// The record of the prompt that it belongs to; empty if that was not recorded.
    pub message: &'a str,
    /// The id that the requests of that prompt share.
    pub prompt_id: &'a str,
}
