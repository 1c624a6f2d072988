//! The server of the page for browsers, as the core sees it.

use std::rc::Rc;

use pollux_domain::failure::Failure;
use pollux_front::front_end::Pending;
use pollux_host::hub::Scopes;
use tokio_util::sync::CancellationToken;

use crate::sessions::Sessions;

/// Serves sessions to browsers. The program that runs the core provides it.
pub trait Pages {
    /// A link that opens the page once, with these rights. The server starts with the first link and ends when `stop`
    /// is cancelled.
    fn link<'a>(
        &'a self,
        sessions: &'a Rc<Sessions>,
        scopes: Scopes,
        stop: &'a CancellationToken,
    ) -> Pending<'a, Result<PageLink, Failure>>;

    /// Browsers that show sessions now.
    fn connected(&self) -> usize;
}

/// A link that opens the page.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PageLink {
    pub url: String,
    /// Seconds for which it works.
    pub seconds: u64,
}
