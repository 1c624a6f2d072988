//! The addresses of the page, and what they lead to.

use std::cell::Cell;
use std::rc::Rc;

use pollux_domain::content::Part;
use pollux_domain::event::{Op, RequestId};
use pollux_domain::id::CallId;
use pollux_front::rpc::RpcError;
use pollux_host::hub::Scopes;
use pollux_host::peer;
use pollux_resident::wire::{AttachParams, code};
use pollux_resident::{Attachment, Sessions};
use pollux_serve::{
    Head, Method, Request, Response, RouteMatch, Routes, Site, StatusCode, check_loopback_host, header,
};
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::json;
use tokio_util::sync::CancellationToken;

use crate::access::{Access, CodeRefusal, Login, LoginSecrets};
use crate::question::{Decision, version};
use crate::rules::{check_change, check_origin, refuse, secrets, set_cookie, with_headers};
use crate::stream;

const PAGE: &str = include_str!("page/index.html");
const SCRIPT: &str = include_str!("page/page.js");
const STYLE: &str = include_str!("page/page.css");

/// The name of a page among the front ends of a session.
pub(crate) const FRONT: &str = "web";

/// What an address leads to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Target {
    Page,
    Script,
    Style,
    Login,
    Events,
    Change(Change),
}

/// A change to a session.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Change {
    Prompt,
    Withdraw,
    Stop,
    Decide,
}

impl Change {
    /// Whether a login may do it at all.
    fn is_allowed(self, scopes: Scopes) -> bool {
        match self {
            Self::Decide => scopes.approve,
            Self::Prompt | Self::Withdraw | Self::Stop => scopes.drive,
        }
    }
}

pub(crate) const ROUTES: Routes<Target> = Routes(&[
    (Method::GET, "/", Target::Page),
    (Method::GET, "/page.js", Target::Script),
    (Method::GET, "/page.css", Target::Style),
    (Method::POST, "/api/login", Target::Login),
    (Method::GET, "/api/events", Target::Events),
    (Method::POST, "/api/sessions/{id}/prompt", Target::Change(Change::Prompt)),
    (Method::POST, "/api/sessions/{id}/withdraw", Target::Change(Change::Withdraw)),
    (Method::POST, "/api/sessions/{id}/stop", Target::Change(Change::Stop)),
    (Method::POST, "/api/sessions/{id}/decide", Target::Change(Change::Decide)),
]);

/// The page as browsers reach it.
pub(crate) struct PageSite {
    pub(crate) port: u16,
    pub(crate) access: Access,
    pub(crate) sessions: Rc<Sessions>,
    /// Pages that follow events.
    pub(crate) open: Rc<Cell<usize>>,
    pub(crate) stop: CancellationToken,
}

/// A request that was admitted.
pub(crate) struct Visitor {
    target: Target,
    /// The session in the address.
    session: String,
    login: Option<Rc<Login>>,
}

impl Site for PageSite {
    type Caller = Visitor;

    async fn admit(&self, head: &Head) -> Result<Visitor, Box<Response>> {
        check_loopback_host(head, self.port)?;
        let (target, session) = match ROUTES.find(&head.method, &head.path) {
            RouteMatch::Route(target, params) => (target, params.get("id").to_owned()),
            RouteMatch::OtherMethod(methods) => {
                let allowed: Vec<&str> = methods.iter().map(Method::as_str).collect();
                let refused = refuse(StatusCode::METHOD_NOT_ALLOWED, "method not allowed");
                return Err(Box::new(refused.header(header::ALLOW, &allowed.join(", "))));
            }
            RouteMatch::Nothing => return Err(refuse(StatusCode::NOT_FOUND, "not found")),
        };
        if target != Target::Page {
            check_origin(head)?;
        }
        if head.method == Method::POST {
            check_change(head)?;
        }
        let login = match target {
            Target::Page | Target::Script | Target::Style | Target::Login => None,
            Target::Events | Target::Change(_) => Some(self.login(head)?),
        };
        if let (Target::Change(change), Some(login)) = (target, &login)
            && !change.is_allowed(login.scopes)
        {
            return Err(refuse(StatusCode::FORBIDDEN, "this page is read-only"));
        }
        if !session.is_empty() {
            check_session(&session)?;
        }
        Ok(Visitor { target, session, login })
    }

    fn takes_body(&self, visitor: &Visitor) -> bool {
        matches!(visitor.target, Target::Login | Target::Change(_))
    }

    async fn answer(self: Rc<Self>, request: Request, visitor: Visitor) -> Response {
        let document = |kind, text: &'static str| Response::document(StatusCode::OK, kind, text);
        let answered = match (visitor.target, visitor.login) {
            (Target::Page, _) => Ok(document("text/html; charset=utf-8", PAGE)),
            (Target::Script, _) => Ok(document("text/javascript; charset=utf-8", SCRIPT)),
            (Target::Style, _) => Ok(document("text/css; charset=utf-8", STYLE)),
            (Target::Login, _) => self.log_in(&request),
            (Target::Events, Some(login)) => self.events(&request.head, login),
            (Target::Change(change), Some(login)) => {
                self.change(change, &visitor.session, &request, &login).await
            }
            (Target::Events | Target::Change(_), None) => Err(unknown_login()),
        };
        answered.unwrap_or_else(|refused| *refused)
    }

    fn complete(&self, response: Response) -> Response {
        with_headers(response)
    }
}

fn unknown_login() -> Box<Response> {
    refuse(StatusCode::UNAUTHORIZED, "not signed in")
}

/// Session ids are letters, digits, dashes and underscores; nothing else is looked up.
pub(crate) fn check_session(id: &str) -> Result<(), Box<Response>> {
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'-' || byte == b'_';
    match !id.is_empty() && id.len() <= 128 && id.bytes().all(is_plain) {
        true => Ok(()),
        false => Err(refuse(StatusCode::NOT_FOUND, "invalid session id")),
    }
}

fn read<T: DeserializeOwned>(request: &Request) -> Result<T, Box<Response>> {
    serde_json::from_slice(&request.body).map_err(|_| refuse(StatusCode::BAD_REQUEST, "invalid request body"))
}

/// An error of the registry or a session.
pub(crate) fn failed(error: &RpcError) -> Box<Response> {
    let reason = error.data.as_ref().and_then(|data| data.get("code")?.as_str());
    let status = match (error.code, reason) {
        (-32002 | -32602, _) => StatusCode::NOT_FOUND,
        (code::REFUSED, Some("NOT_ALLOWED")) => StatusCode::FORBIDDEN,
        (code::REFUSED, _) => StatusCode::CONFLICT,
        _ => StatusCode::INTERNAL_SERVER_ERROR,
    };
    refuse(status, &error.message)
}

impl PageSite {
    fn login(&self, head: &Head) -> Result<Rc<Login>, Box<Response>> {
        let (cookies, key) = secrets(head, self.port).ok_or_else(unknown_login)?;
        cookies.iter().find_map(|cookie| self.access.find(cookie, key)).ok_or_else(unknown_login)
    }

    /// Exchanges a code for a login.
    fn log_in(&self, request: &Request) -> Result<Response, Box<Response>> {
        #[derive(Deserialize)]
        struct Params {
            code: String,
        }
        let Params { code } = read(request)?;
        // A link may be seen in the list of processes while a browser starts. Wrong codes of others do not count.
        if let Some(who) = peer::browser_objection(request.head.peer, request.head.local) {
            return Err(refuse(StatusCode::FORBIDDEN, &format!("{who} may not use this page")));
        }
        let scopes = self.access.take_code(&code).map_err(|refusal| match refusal {
            CodeRefusal::Invalid => {
                refuse(StatusCode::FORBIDDEN, "This link has already been used or has expired.")
            }
            CodeRefusal::LockedOut => {
                refuse(StatusCode::TOO_MANY_REQUESTS, "Too many wrong codes were tried.")
            }
        })?;
        let LoginSecrets { cookie, key, scopes } = self.access.log_in(scopes);
        let answer = json!({"key": key, "drive": scopes.drive, "approve": scopes.approve});
        Ok(set_cookie(Response::json(StatusCode::OK, &answer), self.port, &cookie))
    }

    /// Follows the list of sessions, and one of them.
    fn events(self: &Rc<Self>, head: &Head, login: Rc<Login>) -> Result<Response, Box<Response>> {
        let after = head.query.get("after").and_then(|number| number.parse().ok());
        let session = head.query.get("session");
        session.map(check_session).transpose()?;
        stream::follow(self, login, session, after).map_err(|error| failed(&error))
    }

    /// Passes a change on to a session; the answer has the id of the operation.
    async fn change(
        &self,
        change: Change,
        session: &str,
        request: &Request,
        login: &Login,
    ) -> Result<Response, Box<Response>> {
        let attachment = self.attachment(session, login).map_err(|error| failed(&error))?;
        let op = match change {
            Change::Prompt => {
                #[derive(Deserialize)]
                struct Params {
                    text: String,
                }
                let Params { text } = read(request)?;
                if text.trim().is_empty() {
                    return Err(refuse(StatusCode::BAD_REQUEST, "the prompt is empty"));
                }
                Op::Prompt { parts: vec![Part::text(text.as_str())], typed: text }
            }
            Change::Withdraw => {
                #[derive(Deserialize)]
                struct Params {
                    prompt: String,
                }
                let Params { prompt } = read(request)?;
                Op::Withdraw { prompt: RequestId::new(prompt) }
            }
            Change::Stop => Op::Cancel,
            Change::Decide => {
                let decision: Decision = read(request)?;
                let call = CallId::from_file(decision.call.as_str());
                let question = attachment.question(&call);
                if question.is_some_and(|question| version(&question) != decision.version) {
                    return Err(refuse(StatusCode::CONFLICT, "the question has changed"));
                }
                let answer = decision.answer();
                let answer = answer.ok_or_else(|| refuse(StatusCode::BAD_REQUEST, "unknown answer"))?;
                Op::Decide { call, answer }
            }
        };
        let asked = attachment.ask(None, op).await.map_err(|error| failed(&error))?;
        Ok(Response::json(StatusCode::OK, &json!({"id": asked.as_str()})))
    }

    /// The front end with which a login shows the session, or a new one for this request.
    fn attachment(&self, session: &str, login: &Login) -> Result<Rc<Attachment>, RpcError> {
        if let Some(attachment) = login.attachment(session) {
            return Ok(attachment);
        }
        let params =
            AttachParams { session: session.to_owned(), history: Some(0), ..AttachParams::default() };
        let (attachment, ..) = self.sessions.attach(&params, FRONT, login.scopes)?;
        Ok(Rc::new(attachment))
    }
}
