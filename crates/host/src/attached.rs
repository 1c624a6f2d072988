//! A front end whose session runs in another process: what it needs of a [`Prepared`], from what the session reports.

use std::path::{Path, PathBuf};

use pollux_domain::approval::ApprovalMode;
use pollux_domain::exit::ExitKind;
use pollux_domain::failure::Failure;
use pollux_domain::id::SessionId;
use pollux_session::load;

use crate::credentials::Credentials;
use crate::loaded::Loaded;
use crate::permission::Permission;
use crate::prepared::Prepared;
use crate::request::Request;
use crate::sandbox::Sandbox;
use crate::sessions::{Chosen, HistoryItem, last_of};

/// What a session in another process reports about itself.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SessionReport {
    pub id: SessionId,
    /// The folder it works in.
    pub folder: PathBuf,
    pub file: Option<PathBuf>,
    pub provider: String,
    pub model: String,
    pub auth: Option<String>,
    pub mode: ApprovalMode,
    /// The sandbox of its commands, in one line.
    pub sandbox: String,
}

impl SessionReport {
    /// The report of a session of this process.
    pub fn of(turn: &Prepared<'_>, file: Option<PathBuf>) -> Self {
        Self {
            id: turn.session.id.clone(),
            folder: turn.loaded.project.root().to_path_buf(),
            file,
            provider: turn.credentials.provider.clone(),
            model: turn.credentials.model.clone(),
            auth: turn.credentials.auth_type.clone(),
            mode: turn.permission.approval,
            sandbox: turn.sandbox.in_force(&turn.loaded.env).name(),
        }
    }
}

impl<'a> Prepared<'a> {
    /// For a front end of a session that another process has checked and opened. Holds no credentials.
    pub fn attached(request: &'a Request, loaded: &'a Loaded, report: &SessionReport) -> Self {
        let credentials = Credentials {
            provider: report.provider.clone(),
            model: report.model.clone(),
            auth: None,
            google: None,
            auth_type: report.auth.clone(),
            api_key: false,
            vertex: false,
            secrets: Vec::new(),
            of_project: false,
            notes: Vec::new(),
        };
        Self {
            request,
            loaded,
            session: Chosen::new(report.id.clone()),
            credentials,
            model_of_session: false,
            permission: Permission { approval: report.mode, trust_note: None, is_overridden: false },
            sandbox: Sandbox::elsewhere(report.sandbox.clone()),
        }
    }
}

/// The last messages and calls of a session file before the message `before`, at most `most`, and the number of earlier
/// ones.
pub fn stored_history(
    file: &Path,
    before: Option<&str>,
    most: usize,
) -> Result<(Vec<HistoryItem>, usize), Failure> {
    if !file.exists() {
        return Ok((Vec::new(), 0));
    }
    let stored = load(file).map_err(|error| Failure::from_error(ExitKind::Input, &error))?;
    let count = stored.messages.iter().take_while(|message| Some(message.id()) != before).count();
    Ok(last_of(stored.messages.get(..count).unwrap_or_default(), most))
}
