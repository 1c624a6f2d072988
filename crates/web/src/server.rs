//! The listener behind the page.

use std::cell::{Cell, RefCell};
use std::io;
use std::rc::Rc;
use std::time::Duration;

use pollux_domain::exit::ExitKind;
use pollux_domain::failure::Failure;
use pollux_front::front_end::Pending;
use pollux_host::hub::Scopes;
use pollux_resident::{PageLink, Pages, Sessions};
use pollux_serve::{Limits, bind_loopback, serve};
use tokio_util::sync::CancellationToken;

use crate::access::{Access, CODE_TIME};
use crate::site::PageSite;

/// A prompt is the longest body.
const LIMITS: Limits = Limits {
    body: 1024 * 1024,
    bodies: 8 * 1024 * 1024,
    connections: 64,
    per_peer: 64,
    draining: Duration::from_millis(100),
};

/// The page for browsers, as the core starts it.
#[derive(Default)]
pub struct WebPages {
    site: RefCell<Option<Rc<PageSite>>>,
    /// Pages that follow events.
    open: Rc<Cell<usize>>,
}

impl Pages for WebPages {
    fn link<'a>(
        &'a self,
        sessions: &'a Rc<Sessions>,
        scopes: Scopes,
        stop: &'a CancellationToken,
    ) -> Pending<'a, Result<PageLink, Failure>> {
        Box::pin(async move {
            let known = self.site.borrow().clone();
            let site = match known {
                Some(site) => site,
                None => self.start(sessions, stop).await.map_err(|error| {
                    Failure::new(ExitKind::Failure, "could not listen on a loopback address").because(&error)
                })?,
            };
            let code = site.access.new_code(scopes);
            let url = format!("http://127.0.0.1:{}/#c={code}", site.port);
            Ok(PageLink { url, seconds: CODE_TIME.as_secs() })
        })
    }

    fn connected(&self) -> usize {
        self.open.get()
    }
}

impl WebPages {
    /// Starts to listen.
    async fn start(&self, sessions: &Rc<Sessions>, stop: &CancellationToken) -> io::Result<Rc<PageSite>> {
        let (port, listeners) = bind_loopback(0).await?;
        // Another link may have been asked for meanwhile.
        if let Some(site) = self.site.borrow().clone() {
            return Ok(site);
        }
        let site = Rc::new(PageSite {
            port,
            access: Access::default(),
            sessions: Rc::clone(sessions),
            open: Rc::clone(&self.open),
            stop: stop.clone(),
        });
        for listener in listeners {
            tokio::task::spawn_local(serve(listener, Rc::clone(&site), LIMITS, stop.clone()));
        }
        self.site.replace(Some(Rc::clone(&site)));
        Ok(site)
    }
}
