//! One transport type for every kind of connection.
//!
//! The library's client is compiled again for each type of transport; with one type there is one copy of it.

use std::borrow::Cow;
use std::error::Error;
use std::fmt;

use pollux_domain::BoxFuture;
use rmcp::service::{RoleClient, RxJsonRpcMessage, TxJsonRpcMessage};
use rmcp::transport::Transport;

/// A transport of any kind.
pub(crate) struct AnyTransport(Box<dyn Erased>);

/// An error of a transport of any kind. Its cause is the error itself.
#[derive(Debug)]
pub(crate) struct AnyTransportError(Box<dyn Error + Send + Sync>);

impl AnyTransport {
    pub(crate) fn new<T: Transport<RoleClient> + 'static>(transport: T) -> Self {
        Self(Box::new(transport))
    }
}

impl AnyTransportError {
    pub(crate) fn get<T: Error + 'static>(&self) -> Option<&T> {
        self.0.downcast_ref()
    }
}

impl fmt::Display for AnyTransportError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl Error for AnyTransportError {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        Some(&*self.0)
    }
}

/// [`Transport`] with futures on the heap.
trait Erased: Send {
    fn send_one(
        &mut self,
        message: TxJsonRpcMessage<RoleClient>,
    ) -> BoxFuture<'static, Result<(), AnyTransportError>>;

    fn receive_one(&mut self) -> BoxFuture<'_, Option<RxJsonRpcMessage<RoleClient>>>;

    fn close_it(&mut self) -> BoxFuture<'_, Result<(), AnyTransportError>>;
}

impl<T: Transport<RoleClient>> Erased for T {
    fn send_one(
        &mut self,
        message: TxJsonRpcMessage<RoleClient>,
    ) -> BoxFuture<'static, Result<(), AnyTransportError>> {
        let sending = self.send(message);
        Box::pin(async { sending.await.map_err(|error| AnyTransportError(Box::new(error))) })
    }

    fn receive_one(&mut self) -> BoxFuture<'_, Option<RxJsonRpcMessage<RoleClient>>> {
        Box::pin(self.receive())
    }

    fn close_it(&mut self) -> BoxFuture<'_, Result<(), AnyTransportError>> {
        Box::pin(async { self.close().await.map_err(|error| AnyTransportError(Box::new(error))) })
    }
}

impl Transport<RoleClient> for AnyTransport {
    type Error = AnyTransportError;

    fn name() -> Cow<'static, str> {
        "MCP".into()
    }

    fn send(
        &mut self,
        item: TxJsonRpcMessage<RoleClient>,
    ) -> impl Future<Output = Result<(), Self::Error>> + Send + 'static {
        self.0.send_one(item)
    }

    fn receive(&mut self) -> impl Future<Output = Option<RxJsonRpcMessage<RoleClient>>> + Send {
        self.0.receive_one()
    }

    fn close(&mut self) -> impl Future<Output = Result<(), Self::Error>> + Send {
        self.0.close_it()
    }
}
