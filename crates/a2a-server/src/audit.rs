//! Who asked what: one line of JSON for every request that does something.

use std::cell::RefCell;
use std::fs::File;
use std::io::Write as _;
use std::path::Path;

use pollux_config::files::{self, FileError, Mode};
use pollux_domain::exit::ExitKind;
use pollux_domain::failure::Failure;
use pollux_domain::time::{Clock as _, SystemClock};
use serde_json::json;

use crate::access::Caller;

/// The audit log; nothing is written without a file.
#[derive(Debug, Default)]
pub(crate) struct Audit(Option<RefCell<File>>);

impl Audit {
    /// Opens the log for appending.
    pub(crate) fn open(path: Option<&Path>) -> Result<Self, Failure> {
        let Some(path) = path else { return Ok(Self(None)) };
        let file =
            files::open_append(path, Mode::Private).map_err(FileError::into_source).map_err(|error| {
                let text = format!("could not open the audit log `{}`", path.display());
                Failure::new(ExitKind::Config, text).because(&error)
            })?;
        Ok(Self(Some(RefCell::new(file))))
    }

    /// Records a request and what came of it. Contents of messages are not recorded.
    pub(crate) fn record(&self, caller: &Caller, action: &str, task: Option<&str>, result: &str) {
        let Some(file) = &self.0 else { return };
        let line = json!({
            "time": SystemClock.now().to_iso(),
            "owner": caller.owner,
            "subject": caller.subject,
            "peer": caller.peer.to_string(),
            "action": action,
            "task": task,
            "result": result,
        });
        // A full disk must not stop the service; the metrics of the machine show it.
        let _ = file.borrow_mut().write_all(format!("{line}\n").as_bytes());
    }
}
