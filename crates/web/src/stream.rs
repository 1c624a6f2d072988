//! Events for one page: the list of sessions whenever it changes, and one session as it goes on.
//!
//! The page reads as fast as it can. Its events wait in the hub, which drops them if they become too many; the page then
//! gets the session's state as at the beginning.

use std::cell::Cell;
use std::rc::Rc;
use std::time::Duration;

use pollux_front::rpc::RpcError;
use pollux_host::hub::{Delivery, Subscription};
use pollux_resident::Attachment;
use pollux_resident::wire::AttachParams;
use pollux_serve::{EventSender, Response, events};
use serde_json::{Value, json};
use tokio::time::{MissedTickBehavior, interval, sleep_until};

use crate::access::Login;
use crate::site::{FRONT, PageSite};
use crate::view::{View, attached, summary};

/// How often the list of sessions is looked at.
const LOOK: Duration = Duration::from_secs(1);

/// A session that a page shows.
struct Shown {
    id: String,
    attachment: Rc<Attachment>,
    events: Subscription,
    view: View,
}

/// Counts an open page.
struct OpenPage(Rc<Cell<usize>>);

impl OpenPage {
    fn new(open: &Rc<Cell<usize>>) -> Self {
        open.set(open.get() + 1);
        Self(Rc::clone(open))
    }
}

impl Drop for OpenPage {
    fn drop(&mut self) {
        self.0.set(self.0.get() - 1);
    }
}

/// Follows the list and maybe a session, from the event after the number `after` on.
pub(crate) fn follow(
    site: &Rc<PageSite>,
    login: Rc<Login>,
    session: Option<&str>,
    after: Option<u64>,
) -> Result<Response, RpcError> {
    let (shown, first) = match session {
        Some(session) => {
            let (shown, first) = show(site, &login, session, after)?;
            (Some(shown), Some(first))
        }
        None => (None, None),
    };
    let (sender, receiver) = events();
    let (site, page) = (Rc::clone(site), OpenPage::new(&site.open));
    tokio::task::spawn_local(async move {
        let stop = site.stop.clone();
        tokio::select! {
            () = stop.cancelled() => {}
            () = sleep_until(login.until) => {}
            () = sender.gone() => {}
            () = pump(&site, &login, shown, first, &sender) => {}
        }
        drop(page);
    });
    Ok(Response::events(receiver))
}

/// Attaches to a session; returns what the page shows first.
fn show(
    site: &PageSite,
    login: &Login,
    session: &str,
    after: Option<u64>,
) -> Result<(Shown, Value), RpcError> {
    let params = AttachParams { session: session.to_owned(), after, history: None };
    let (attachment, answer, events) = site.sessions.attach(&params, FRONT, login.scopes)?;
    let attachment = Rc::new(attachment);
    login.shows(session, &attachment);
    let mut view = View::new(&answer);
    let mut first = attached(&answer, &mut view);
    first["drive"] = json!(login.scopes.drive);
    first["approve"] = json!(login.scopes.approve);
    Ok((Shown { id: session.to_owned(), attachment, events, view }, first))
}

/// Sends until the page is gone or its session cut it off.
async fn pump(
    site: &PageSite,
    login: &Login,
    mut shown: Option<Shown>,
    first: Option<Value>,
    sender: &EventSender,
) {
    let mut look = interval(LOOK);
    look.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let mut list = Value::Null;
    if let Some(first) = first
        && !sender.send(&first.to_string()).await
    {
        return;
    }
    loop {
        let message = tokio::select! {
            _ = look.tick() => {
                let now: Value = site.sessions.list().iter().map(summary).collect();
                if now == list {
                    continue;
                }
                list = now;
                Some(json!({"kind": "sessions", "sessions": list}))
            }
            delivery = next(&mut shown) => match delivery {
                Some(Delivery::Event(event)) => {
                    let view = shown.as_mut().and_then(|shown| shown.view.event(&event.event));
                    view.map(|mut view| {
                        view["seq"] = json!(event.seq);
                        view
                    })
                }
                Some(Delivery::Lagged { .. } | Delivery::Snapshot(_)) => {
                    let Some(id) = shown.take().map(|shown| shown.id) else { continue };
                    match show(site, login, &id, None) {
                        Ok((again, first)) => {
                            shown = Some(again);
                            Some(first)
                        }
                        Err(_) => Some(json!({"kind": "over", "reason": "closed"})),
                    }
                }
                None => {
                    let Some(over) = shown.take() else { continue };
                    // The page asks again, from the last number it has.
                    if over.events.was_cut_off() {
                        return;
                    }
                    Some(json!({"kind": "over", "reason": over.attachment.ended_because()}))
                }
            },
        };
        if let Some(message) = message
            && !sender.send(&message.to_string()).await
        {
            return;
        }
    }
}

/// The next event of the session; never without one.
async fn next(shown: &mut Option<Shown>) -> Option<Delivery> {
    match shown {
        Some(shown) => shown.events.next().await,
        None => std::future::pending().await,
    }
}
