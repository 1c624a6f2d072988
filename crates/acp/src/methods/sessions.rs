//! Sessions: opened, listed, closed and deleted.

use std::path::{Path, PathBuf};
use std::rc::Rc;

use pollux_domain::event::Op;
use pollux_domain::session_title;
use pollux_front::remote::RunningSession;
use pollux_host::RecordedItem;
use pollux_host::request::{Resumed, SessionChoice};
use pollux_host::sessions::{SavedSession, saved_sessions};
use serde_json::{Value, json};

use crate::options;
use crate::params::{directories, folder, instructions, optional, servers, text};
use crate::server::{Opening, Reply, Server};
use crate::servers::links;
use crate::session::Session;
use pollux_front::rpc::RpcError;

/// Sessions of one page of `session/list`.
const PAGE: usize = 50;

pub(super) async fn new(server: &Rc<Server>, params: &Value) -> Result<Reply, RpcError> {
    let folder = folder(params)?;
    // `--resume` is for the first session; what follows is new.
    let given = &server.program.options.session;
    let choice = match given {
        SessionChoice::New => SessionChoice::New,
        _ if server.resumed.replace(true) => SessionChoice::New,
        given => given.clone(),
    };
    let opening = opening(server, params, folder, choice, false)?;
    opened(server, opening, true).await
}

pub(super) async fn load(server: &Rc<Server>, params: &Value) -> Result<Reply, RpcError> {
    reopen(server, params, true, false).await
}

pub(super) async fn resume(server: &Rc<Server>, params: &Value) -> Result<Reply, RpcError> {
    reopen(server, params, false, false).await
}

pub(super) async fn fork(server: &Rc<Server>, params: &Value) -> Result<Reply, RpcError> {
    reopen(server, params, false, true).await
}

async fn reopen(server: &Rc<Server>, params: &Value, replay: bool, fork: bool) -> Result<Reply, RpcError> {
    let id = text(params, "sessionId")?;
    let folder = folder(params)?;
    let is_open = server.session(id).ok();
    if let Some(session) = is_open.filter(|_| !fork) {
        if session.has_prompt() {
            return Err(RpcError::invalid_request("A prompt is already running in this session."));
        }
        forget(server, id, &session).await;
    }
    let Some(saved) = saved(server, Some(&folder), id)? else { return Err(RpcError::no_such_session(id)) };
    let mut attached = None;
    if !fork && let Some(pid) = saved.used_by() {
        attached = running(server, id).await.map(|running| {
            let earlier = Some(&saved).filter(|_| replay);
            earlier_messages(earlier, &running)
        });
        if attached.is_none() {
            let data = json!({"field": "sessionId", "pid": pid, "fork": true});
            return Err(in_use(id, pid).with_data(data));
        }
    }
    let resumed = Resumed { which: id.to_owned(), fork, ..Resumed::default() };
    let choice = SessionChoice::Resume(resumed);
    let opening = Opening { attached, ..opening(server, params, folder, choice, replay)? };
    opened(server, opening, fork).await
}

/// Joins a session of the core by its id alone; its messages are sent first, as by `session/load`.
pub(super) async fn attach(server: &Rc<Server>, params: &Value) -> Result<Reply, RpcError> {
    let id = text(params, "sessionId")?;
    if server.session(id).is_ok() {
        return Err(RpcError::invalid_request(format!("Session {id} is already open in this connection")));
    }
    let saved = saved(server, None, id)?;
    let Some(running) = running(server, id).await else {
        if saved.is_none() {
            return Err(RpcError::no_such_session(id));
        }
        let why = format!("Session {id} is not running in the core; use `session/load`");
        return Err(RpcError::invalid_params("sessionId", why));
    };
    let history = earlier_messages(saved.as_ref(), &running);
    let folder = running.folder;
    let choice = SessionChoice::Resume(Resumed { which: id.to_owned(), ..Resumed::default() });
    let opening = opening(server, params, folder, choice, true)?;
    opened(server, Opening { attached: Some(history), ..opening }, true).await
}

/// Gives a session a title, open or not. It is stored before the answer.
pub(super) async fn set_title(server: &Rc<Server>, params: &Value) -> Result<Reply, RpcError> {
    let id = text(params, "sessionId")?;
    let title = session_title::checked(text(params, "title")?)
        .map_err(|error| RpcError::invalid_params("title", error.to_string()))?;
    if let Ok(session) = server.session(id) {
        super::change(&session, Op::SetTitle(title.to_owned()), "title").await?;
        return Ok(json!({"title": title}).into());
    }
    let Some(saved) = saved(server, None, id)? else { return Err(RpcError::no_such_session(id)) };
    if let Some(pid) = saved.used_by() {
        return Err(in_use(id, pid));
    }
    saved.set_title(title).map_err(|failure| RpcError::from(&failure))?;
    Ok(json!({"title": title}).into())
}

fn in_use(id: &str, pid: u32) -> RpcError {
    let data = json!({"field": "sessionId", "pid": pid});
    RpcError::invalid_params("sessionId", format!("Session {id} is in use by process {pid}")).with_data(data)
}

/// The session with this id, if it runs in the core.
async fn running(server: &Server, id: &str) -> Option<RunningSession> {
    server.program.ports.sessions.running(&server.program.env, id).await
}

/// The messages before the running turn, whose own come as events.
fn earlier_messages(saved: Option<&SavedSession>, running: &RunningSession) -> Vec<RecordedItem> {
    let mut items = saved.map(SavedSession::recorded).unwrap_or_default();
    if running.is_working {
        let last = items.iter().rposition(|item| matches!(item, RecordedItem::Prompt { .. }));
        items.truncate(last.unwrap_or_default());
    }
    items
}

fn opening(
    server: &Server,
    params: &Value,
    folder: PathBuf,
    choice: SessionChoice,
    replay: bool,
) -> Result<Opening, RpcError> {
    Ok(Opening {
        folder,
        choice,
        directories: directories(params)?,
        links: links(&server.client, params),
        servers: servers(params)?,
        instructions: instructions(params)?,
        replay,
        attached: None,
    })
}

async fn opened(server: &Rc<Server>, opening: Opening, names_it: bool) -> Result<Reply, RpcError> {
    let unused = opening.attached.is_some() && !(opening.servers.is_empty() && opening.links.is_empty());
    let session = server.open(opening).await?;
    if unused {
        session.warn("The session runs in the core, which does not use the MCP servers of this editor.");
    }
    let facts = session.state.borrow().facts.clone();
    let mut result = json!({
        "modes": options::modes(&facts),
        "models": options::models(&facts),
        "configOptions": options::config_options(&facts),
    });
    if let (true, Some(fields)) = (names_it, result.as_object_mut()) {
        fields.insert("sessionId".to_owned(), json!(session.id()));
    }
    Ok(Reply { result, then: Some(Box::new(move || session.updates.release())) })
}

/// The stored session with exactly this id.
fn saved(server: &Server, folder: Option<&Path>, id: &str) -> Result<Option<SavedSession>, RpcError> {
    let all = saved_sessions(&server.program.env, folder).map_err(|failure| RpcError::from(&failure))?;
    Ok(all.into_iter().find(|saved| saved.id == id))
}

/// Closes an open session.
async fn forget(server: &Server, id: &str, session: &Session) {
    session.close().await;
    server.sessions.borrow_mut().remove(id);
}

pub(super) async fn close(server: &Rc<Server>, params: &Value) -> Result<Reply, RpcError> {
    let id = text(params, "sessionId")?;
    let session = server.session(id)?;
    forget(server, id, &session).await;
    Ok(json!({}).into())
}

pub(super) async fn delete(server: &Rc<Server>, params: &Value) -> Result<Reply, RpcError> {
    let id = text(params, "sessionId")?;
    if let Ok(session) = server.session(id) {
        forget(server, id, &session).await;
    }
    if let Some(saved) = saved(server, None, id)? {
        if let Some(pid) = saved.used_by() {
            return Err(in_use(id, pid));
        }
        saved.delete().map_err(|failure| RpcError::from(&failure))?;
    }
    Ok(json!({}).into())
}

pub(super) fn status(server: &Rc<Server>, params: &Value) -> Result<Reply, RpcError> {
    let id = text(params, "sessionId")?;
    if server.session(id).is_ok() {
        return Ok(json!({"status": "open"}).into());
    }
    match saved(server, None, id)? {
        Some(saved) if saved.used_by().is_some() => Ok(json!({"status": "open"}).into()),
        Some(_) => Ok(json!({"status": "saved"}).into()),
        None => Err(RpcError::no_such_session(id)),
    }
}

pub(super) fn list(server: &Rc<Server>, params: &Value) -> Result<Reply, RpcError> {
    let cwd = optional(params, "cwd")?.map(Path::new);
    if cwd.is_some_and(|cwd| !cwd.is_absolute()) {
        return Err(RpcError::invalid_params("cwd", "`cwd` must be an absolute path"));
    }
    let from = match optional(params, "cursor")? {
        None => 0,
        Some(cursor) => {
            let page = cursor.strip_prefix("from-").and_then(|from| from.parse::<usize>().ok());
            page.ok_or_else(|| RpcError::invalid_params("cursor", "Unknown cursor"))?
        }
    };
    let all = saved_sessions(&server.program.env, cwd).map_err(|failure| RpcError::from(&failure))?;
    // The protocol asks for the folder of each session.
    let known: Vec<&SavedSession> = all.iter().filter(|saved| saved.folder.is_some()).collect();
    let page = known.iter().skip(from).take(PAGE);
    let sessions: Vec<Value> = page
        .map(|saved| {
            json!({
                "sessionId": saved.id,
                "cwd": saved.folder,
                "title": saved.title,
                "updatedAt": saved.updated.to_iso(),
            })
        })
        .collect();
    let mut result = json!({"sessions": sessions});
    if let (true, Some(fields)) = (known.len() > from.saturating_add(PAGE), result.as_object_mut()) {
        fields.insert("nextCursor".to_owned(), json!(format!("from-{}", from + PAGE)));
    }
    Ok(result.into())
}
