//! The user's editor: its open files for the model, and its diff view for approvals.

pub(crate) mod approvals;

use std::path::Path;
use std::sync::{Arc, Weak};
use std::time::Duration;

use pollux_domain::editor::{EditorFiles, EditorStatus, EditorView as _};
use pollux_domain::event::{Event, NoticeCode, Severity};
use pollux_domain::terminal_text::{one_line, visible};
use pollux_exec::background::Background;
pub use pollux_ide::{Companion, CompanionStatus, EditorChoice, EditorName};
use pollux_ide::{CompanionSetup, Surroundings, Unreachable, detect};
use pollux_tools::{VisibleFiles, Workspace};
use rustix::process::getuid;
use tokio::sync::watch;

use crate::hub::Hosted;
use crate::peer;
use crate::{Loaded, VERSION};

/// For connecting and for each request.
const LIMIT: Duration = Duration::from_secs(5);

/// The companion of the editor in whose terminal the program runs; nothing is connected yet.
pub(crate) fn companion(
    loaded: &Loaded,
    workspace: &Arc<Workspace>,
    background: &Arc<Background>,
) -> Arc<Companion> {
    let visible = VisibleFiles::new(Arc::clone(workspace), &loaded.groups.context.filtering);
    Companion::new(CompanionSetup {
        around: Surroundings {
            // A project must not name a port or a program.
            env: loaded.env.filtered(|name, _| !loaded.is_of_project(name)),
            folder: workspace.root().to_path_buf(),
            uid: loaded.env.uid().unwrap_or_else(|| getuid().as_raw()),
            vouches: |port| peer::listener_objection(port).is_none(),
        },
        admits: Arc::new(move |path: &Path| visible.contain(path)),
        redaction: loaded.groups.tools.redaction.clone(),
        directory: workspace.root().to_path_buf(),
        background: Arc::clone(background),
        version: VERSION.to_owned(),
        limit: LIMIT,
    })
}

/// Connects, and reports a failure. A terminal outside of any editor is none.
pub(crate) async fn connect(companion: Arc<Companion>, hosted: Weak<Hosted>) {
    companion.connect();
    if let CompanionStatus::Failed(why) = companion.settled().await
        && (why != Unreachable::NoCompanion || companion.is_in_editor())
        && let Some(hosted) = hosted.upgrade()
    {
        hosted.tell(notice(&why)).await;
    }
}

fn notice(why: &Unreachable) -> Event {
    let (severity, code) = (Severity::Info, NoticeCode::Server);
    Event::Notice { severity, code, message: format!("No editor connected: {why}.") }
}

/// The editor to suggest a connection to, by the variables of its terminal.
pub fn to_suggest(loaded: &Loaded) -> Option<EditorName> {
    detect(&loaded.env).filter(|editor| editor.has_companion)
}

/// The editor of this terminal.
pub fn detected(loaded: &Loaded) -> Option<EditorName> {
    detect(&loaded.env)
}

/// The state of the connection, as lines.
pub fn status_page(companion: &Companion) -> String {
    match companion.status() {
        CompanionStatus::Off => "Not connected: /ide enable connects to the editor.".to_owned(),
        CompanionStatus::Connecting => "Connecting to the editor.".to_owned(),
        CompanionStatus::Failed(why) => format!("Not connected: {}.", visible(&why.to_string())),
        CompanionStatus::Connected { editor, shows_diffs } => {
            let mut text = format!("Connected to {}.", one_line(&editor));
            if !shows_diffs {
                text.push_str(" It cannot show changes.");
            }
            let Some(files) = companion.files().filter(|files| files.paths().next().is_some()) else {
                return text;
            };
            let active = files.active.as_ref().map(|file| file.path.as_str());
            text.push_str("\n\nOpen files that the model is told about:");
            for path in files.paths() {
                let mark = if Some(path) == active { " (active)" } else { "" };
                text.push_str(&format!("\n  {}{mark}", one_line(path)));
            }
            text
        }
    }
}

/// Reports changes of the connection as events.
pub(crate) struct EditorEvents {
    companion: Arc<Companion>,
    statuses: watch::Receiver<CompanionStatus>,
    files: watch::Receiver<Option<Arc<EditorFiles>>>,
    told: Option<EditorStatus>,
}

impl EditorEvents {
    pub(crate) fn new(companion: &Arc<Companion>) -> Self {
        let (statuses, files) = (companion.statuses(), companion.file_changes());
        Self { companion: Arc::clone(companion), statuses, files, told: None }
    }

    /// The next event. Dropped early, nothing is lost.
    pub(crate) async fn next_event(&mut self) -> Event {
        loop {
            let status = tokio::select! {
                Ok(()) = self.statuses.changed() => Some(self.statuses.borrow_and_update().clone()),
                Ok(()) = self.files.changed() => None,
                else => std::future::pending().await,
            };
            if let Some(CompanionStatus::Failed(why @ Unreachable::Lost { .. })) = status {
                return notice(&why);
            }
            let now = self.companion.editor();
            if now != self.told {
                self.told.clone_from(&now);
                return Event::EditorChanged(now);
            }
        }
    }
}
