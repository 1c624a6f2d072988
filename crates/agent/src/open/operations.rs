//! Sends operations to a session.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use pollux_domain::event::{Asked, FrontId, Op, RequestId};
use tokio::sync::mpsc;

/// Sends operations to a session. The session ends when the last one of these is dropped.
#[derive(Debug, Clone)]
pub struct Operations {
    sender: mpsc::Sender<Asked>,
    by: FrontId,
    asked: Arc<AtomicU64>,
}

/// The session is over and takes no more operations.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("session has ended")]
pub struct SessionOver;

impl Operations {
    pub fn new(sender: mpsc::Sender<Asked>) -> Self {
        Self { sender, by: FrontId::local(), asked: Arc::default() }
    }

    /// Sends an operation of the process's own front end; the id of its acknowledgement.
    pub async fn send(&self, op: Op) -> Result<RequestId, SessionOver> {
        let id = RequestId::new(format!("{}-{}", self.by, self.asked.fetch_add(1, Ordering::Relaxed)));
        self.pass(Asked { id: id.clone(), by: self.by.clone(), op }).await?;
        Ok(id)
    }

    /// Passes on an operation of any front end.
    pub async fn pass(&self, asked: Asked) -> Result<(), SessionOver> {
        self.sender.send(asked).await.map_err(|_| SessionOver)
    }
}
