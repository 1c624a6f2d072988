//! Asking external checkers about a verdict.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use pollux_domain::content::Content;

use super::Engine;
use crate::checker::{CheckRequest, CheckerPort, turns};
use crate::request::{Decision, Request, Verdict};

impl Engine {
    /// Runs the external checkers of a verdict in order: a denial or an invalid answer denies, a request to
    /// ask makes it ask, and none can relax the verdict.
    pub async fn checked(
        &self,
        mut verdict: Verdict,
        request: &Request<'_>,
        history: &[Arc<Content>],
        port: &dyn CheckerPort,
    ) -> Verdict {
        let checks = std::mem::take(&mut verdict.checks);
        if checks.is_empty() {
            return verdict;
        }
        let wanted = checks.iter().any(|check| check.wants_history);
        let turns = if wanted { turns::of(history) } else { Vec::new() };
        let workspaces = self.workspaces();
        let question = CheckRequest {
            tool: request.tool,
            args: request.args,
            directory: workspaces.first().map_or(Path::new("/"), PathBuf::as_path),
            workspaces,
            history: &turns,
        };
        for check in &checks {
            if verdict.decision == Decision::Deny {
                break;
            }
            let answer = port.check(check, &question).await;
            self.apply_check(&mut verdict, check, answer, request.interactive);
        }
        verdict
    }
}
