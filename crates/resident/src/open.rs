//! A run's options as they cross the wire, and back.

use std::path::Path;

use pollux_config::env::Env;
use pollux_domain::approval::ApprovalMode;
use pollux_domain::content::Content;
use pollux_domain::exit::ExitKind;
use pollux_domain::failure::Failure;
use pollux_domain::id::SessionId;
use pollux_front::reserved;
use pollux_front::rpc::RpcError;
use pollux_host::SessionReport;
use pollux_host::account::uid;
use pollux_host::request::{
    Replies, ReplyOrder, Request, Resumed, ResumedModel, ScriptedModel, SessionChoice,
};
use serde_json::{Value, json};

use crate::wire::{Choice, OpenParams, Options, Report, code};

/// The longest name of a session.
const MAX_NAME: usize = 128;

/// What asks the core for this session. `env` is the session's, in its folder.
pub fn open_params(request: &Request, env: &Env, named: &[String], begin: &[Content]) -> OpenParams {
    let choice = match &request.session {
        SessionChoice::New => Choice::New,
        SessionChoice::NewWithId(id) => Choice::NewWithId { id: id.to_string() },
        SessionChoice::Resume(Resumed { which, all_projects, fork, or_new }) => {
            Choice::Resume { which: which.clone(), all_projects: *all_projects, fork: *fork, or_new: *or_new }
        }
        SessionChoice::Import(path) => Choice::Import { path: env.cwd().join(path) },
    };
    let replies = request.script.replies.as_ref();
    let options = Options {
        approval: request.approval.map(|mode| mode.to_string()),
        overrides: request.overrides.clone(),
        allowed_tools: request.allowed_tools.clone(),
        excluded_tools: request.excluded_tools.clone(),
        confirmed_tools: request.confirmed_tools.clone(),
        extensions: request.extensions.clone(),
        include_directories: request.include_directories.clone(),
        sandbox: request.sandbox.clone(),
        sandbox_allow: request.sandbox_allow.clone(),
        sandbox_report: request.sandbox_report.as_ref().map(|path| env.cwd().join(path)),
        skip_trust: request.skip_trust,
        ignore_project: request.ignores_project_settings,
        api_key_env: request.api_key_env.clone(),
        debug: request.debug,
        ignore_env: request.ignore_env,
        resumed_model: match request.resumed_model {
            ResumedModel::UnlessNamed => None,
            ResumedModel::OfSession => Some("session".to_owned()),
            ResumedModel::OfSettings => Some("settings".to_owned()),
        },
        replies: replies.map(|replies| (env.cwd().join(&replies.file), replies.order == ReplyOrder::Strict)),
    };
    let mut named = named.to_vec();
    named.extend(request.api_key_env.clone());
    OpenParams {
        cwd: env.cwd().to_path_buf(),
        env: crate::session_environment(env, &named),
        choice,
        options,
        begin: begin.iter().map(Content::to_json).collect(),
    }
}

/// The options and the environment of a session to open.
pub(crate) fn request(params: &OpenParams) -> Result<(Request, Env), RpcError> {
    folder(&params.cwd)?;
    let session = match &params.choice {
        Choice::New => SessionChoice::New,
        Choice::NewWithId { id } => SessionChoice::NewWithId(name(id)?),
        Choice::Resume { which, all_projects, fork, or_new } => {
            // An index, `latest`, or the beginning of an id.
            let which = name(which)?.as_str().to_owned();
            SessionChoice::Resume(Resumed {
                which,
                all_projects: *all_projects,
                fork: *fork,
                or_new: *or_new,
            })
        }
        Choice::Import { path } => SessionChoice::Import(path.clone()),
    };
    let Options {
        approval,
        overrides,
        allowed_tools,
        excluded_tools,
        confirmed_tools,
        extensions,
        include_directories,
        sandbox,
        sandbox_allow,
        sandbox_report,
        skip_trust,
        ignore_project,
        api_key_env,
        debug,
        ignore_env,
        resumed_model,
        replies,
    } = params.options.clone();
    let approval = approval.map(|word| word.parse::<ApprovalMode>()).transpose();
    let request = Request {
        session,
        approval: approval
            .map_err(|error| RpcError::invalid_params("options.approval", error.to_string()))?,
        overrides,
        allowed_tools,
        excluded_tools,
        confirmed_tools,
        extensions,
        include_directories,
        sandbox,
        sandbox_allow,
        sandbox_report,
        skip_trust,
        ignores_project_settings: ignore_project,
        api_key_env,
        debug,
        ignore_env,
        resumed_model: match resumed_model.as_deref() {
            Some("session") => ResumedModel::OfSession,
            Some("settings") => ResumedModel::OfSettings,
            _ => ResumedModel::UnlessNamed,
        },
        script: ScriptedModel {
            replies: replies.map(|(file, is_strict)| Replies {
                file,
                order: if is_strict { ReplyOrder::Strict } else { ReplyOrder::FirstFitting },
            }),
            record: None,
        },
        reserved: reserved(),
        ..Request::default()
    };
    Ok((request, Env::new(params.env.clone(), params.cwd.clone()).with_uid(uid())))
}

fn folder(path: &Path) -> Result<(), RpcError> {
    let why = match path {
        path if !path.is_absolute() => "`cwd` must be an absolute path",
        path if !path.is_dir() => "`cwd` is not a directory",
        _ => return Ok(()),
    };
    Err(RpcError::invalid_params("cwd", why))
}

/// A session's name from the wire. It becomes part of file names, so it is never a path.
pub(crate) fn name(text: &str) -> Result<SessionId, RpcError> {
    let wrong = |why: String| RpcError::invalid_params("session", why);
    if text.len() > MAX_NAME {
        return Err(wrong(format!("session id too long (limit {MAX_NAME} characters)")));
    }
    SessionId::parse(text)
        .map_err(|_| wrong("invalid session id: use letters, digits, dashes and underscores".to_owned()))
}

impl From<&SessionReport> for Report {
    fn from(report: &SessionReport) -> Self {
        Self {
            session: report.id.to_string(),
            cwd: report.folder.clone(),
            file: report.file.clone(),
            provider: report.provider.clone(),
            model: report.model.clone(),
            auth: report.auth.clone(),
            mode: report.mode.to_string(),
            sandbox: report.sandbox.clone(),
        }
    }
}

impl From<&Report> for SessionReport {
    fn from(report: &Report) -> Self {
        Self {
            id: SessionId::from_file(report.session.as_str()),
            folder: report.cwd.clone(),
            file: report.file.clone(),
            provider: report.provider.clone(),
            model: report.model.clone(),
            auth: report.auth.clone(),
            mode: report.mode.parse().unwrap_or_default(),
            sandbox: report.sandbox.clone(),
        }
    }
}

/// A failure as an error answer.
pub(crate) fn failed(failure: &Failure) -> RpcError {
    let data = json!({
        "exit": failure.exit.code(),
        "summary": failure.summary,
        "causes": failure.causes,
        "hint": failure.hint,
    });
    RpcError::new(code::FAILED, failure.message(), Some(data))
}

/// What a failure in the core means for the command that asked.
pub(crate) fn failure(error: &RpcError) -> Failure {
    let data = error.data.as_ref();
    let text = |name: &str| data.and_then(|data| data.get(name)?.as_str().map(str::to_owned));
    let exit = data.and_then(|data| data.get("exit")?.as_u64());
    let kinds = [
        ExitKind::Auth,
        ExitKind::Input,
        ExitKind::Sandbox,
        ExitKind::Config,
        ExitKind::TurnLimit,
        ExitKind::Tool,
        ExitKind::Untrusted,
    ];
    let exit = kinds.into_iter().find(|kind| Some(u64::from(kind.code())) == exit);
    let exit = exit.unwrap_or(match error.code {
        -32602 => ExitKind::Input,
        _ => ExitKind::Failure,
    });
    let mut failure = Failure::new(exit, text("summary").unwrap_or_else(|| error.message.clone()));
    failure.hint = text("hint");
    let causes = data.and_then(|data| data.get("causes")?.as_array()).into_iter().flatten();
    failure.causes = causes.filter_map(Value::as_str).map(str::to_owned).collect();
    failure
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn options_survive_the_wire() {
        let given = Request {
            session: SessionChoice::Resume(Resumed {
                which: "abc".into(),
                all_projects: true,
                fork: true,
                or_new: true,
            }),
            approval: Some(ApprovalMode::Plan),
            overrides: vec![("model.name".to_owned(), json!("x"))],
            include_directories: vec!["/a".to_owned()],
            sandbox: Some("false".to_owned()),
            resumed_model: ResumedModel::OfSettings,
            skip_trust: true,
            reserved: reserved(),
            ..Request::default()
        };
        let env = Env::new([("HOME".to_owned(), "/nowhere".to_owned())], "/".into());
        let params = open_params(&given, &env, &[], &[]);
        let params: OpenParams = serde_json::from_value(serde_json::to_value(params).unwrap()).unwrap();
        let (read, env) = request(&params).unwrap();
        assert_eq!(read, given);
        assert_eq!((env.get("HOME"), env.cwd()), (Some("/nowhere"), Path::new("/")));
    }

    #[test]
    fn names_are_never_paths() {
        for bad in ["../evil", "a/b", "a\nb", "", " ", &"x".repeat(300), "\u{1b}[2J"] {
            assert_eq!(name(bad).unwrap_err().code, -32602, "{bad:?}");
        }
        assert!(name("0c5f_-Z").is_ok());
        let params = OpenParams { cwd: "relative".into(), ..OpenParams::default() };
        assert_eq!(request(&params).unwrap_err().data, Some(json!({"field": "cwd"})));
    }

    #[test]
    fn a_failure_keeps_its_exit_code_and_hint() {
        let given = Failure::new(ExitKind::Auth, "no key").hint("get one");
        assert_eq!(failure(&failed(&given)), given);
    }
}
