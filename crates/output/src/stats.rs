//! Statistics of a session, folded from its events: requests, tokens, calls, changed lines.
//!
//! Used by both dialects, which write them under their own keys, and by `/stats`. Telemetry counts for itself,
//! because its metrics are split by other attributes.

use std::sync::Arc;
use std::time::Duration;

use pollux_domain::budget::BudgetStatus;
use pollux_domain::event::{ActivityKind, CallDecision, CallOutcome, CallReport, Event, RequestEnded};
use pollux_domain::model::{RequestRole, Usage, Wait};

/// Everything that is counted, in the order in which it first appeared.
#[derive(Debug, Default)]
pub struct Stats {
    pub models: Vec<(String, ModelStats)>,
    pub tools: ToolTotals,
    pub by_tool: Vec<(String, ToolTotals)>,
    pub lines_added: u64,
    pub lines_removed: u64,
    /// Tokens of each turn.
    pub turns: Vec<Usage>,
    /// What was spent, as last told.
    pub budget: Option<Arc<BudgetStatus>>,
    /// The request under way; failed tries of it are counted under its model.
    current: Option<(String, RequestRole)>,
}

/// One model's counts, with those of each role.
#[derive(Debug, Default)]
pub struct ModelStats {
    pub api: ApiCounts,
    pub errors_by_type: Vec<(String, u64)>,
    pub roles: Vec<(RequestRole, ApiCounts)>,
}

/// Requests and tokens.
#[derive(Debug, Default, Clone, Copy)]
pub struct ApiCounts {
    pub requests: u64,
    pub errors: u64,
    pub latency: Duration,
    pub usage: Usage,
}

/// Calls, of all tools or of one.
#[derive(Debug, Default, Clone, Copy)]
pub struct ToolTotals {
    pub calls: u64,
    pub success: u64,
    pub fail: u64,
    /// Of `fail`: commands and sub-agents that failed though the tool did not. gemini-cli counts them as successes.
    pub failed_runs: u64,
    pub duration: Duration,
    pub decisions: Decisions,
}

/// How calls were decided.
#[derive(Debug, Default, Clone, Copy)]
pub struct Decisions {
    pub accept: u64,
    pub reject: u64,
    pub modify: u64,
    pub auto_accept: u64,
}

impl Stats {
    pub fn fold(&mut self, event: &Event) {
        match event {
            Event::RequestSent(sent) => self.current = Some((sent.model.clone(), sent.role)),
            Event::Waiting(wait) => self.failed_try(wait),
            Event::RequestEnded(ended) => {
                if let Some(turn) = self.turns.last_mut() {
                    turn.add(ended.usage);
                }
                self.request(ended);
            }
            Event::PromptAccepted { .. } => self.turns.push(Usage::default()),
            Event::CallFinished(report) => self.call(report),
            Event::Budget(status) => self.budget = Some(Arc::clone(status)),
            Event::Activity(activity) => {
                if let ActivityKind::CallEnded(report) = &activity.what {
                    self.call(report);
                }
            }
            _ => {}
        }
    }

    /// What was spent, if anything is limited.
    pub fn limited_budget(&self) -> Option<&BudgetStatus> {
        self.budget.as_deref().filter(|budget| !budget.scopes.is_empty())
    }

    /// All models together.
    pub fn usage(&self) -> Usage {
        let mut sum = Usage::default();
        self.models.iter().for_each(|(_, model)| sum.add(model.api.usage));
        sum
    }

    /// A try that the provider repeats counts as a failed request.
    fn failed_try(&mut self, _wait: &Wait) {
        if let Some((model, role)) = self.current.clone() {
            self.count(&model, role, ApiCounts { requests: 1, errors: 1, ..ApiCounts::default() });
            self.error(&model, "ApiError");
        }
    }

    fn request(&mut self, ended: &RequestEnded) {
        let counts = ApiCounts { requests: 1, latency: ended.duration, ..ApiCounts::default() };
        if ended.error.is_some() {
            self.count(&ended.model, ended.role, ApiCounts { errors: 1, ..counts });
            self.error(&ended.model, "ApiError");
            return;
        }
        let answered_by = ended.model_version.as_deref().unwrap_or(&ended.model);
        self.count(answered_by, ended.role, ApiCounts { usage: ended.usage, ..counts });
        if let Some(kind) = &ended.invalid {
            // Upstream counts an unusable reply separately, as an error without a request.
            self.count(&ended.model, ended.role, ApiCounts { errors: 1, ..ApiCounts::default() });
            self.error(&ended.model, kind);
        }
    }

    fn count(&mut self, model: &str, role: RequestRole, counts: ApiCounts) {
        let entry = entry(&mut self.models, model);
        entry.api.add(counts);
        match entry.roles.iter_mut().find(|(known, _)| *known == role) {
            Some((_, known)) => known.add(counts),
            None => entry.roles.push((role, counts)),
        }
    }

    fn error(&mut self, model: &str, kind: &str) {
        *entry(&mut entry(&mut self.models, model).errors_by_type, kind) += 1;
    }

    fn call(&mut self, report: &CallReport) {
        for totals in [&mut self.tools, entry(&mut self.by_tool, &report.name)] {
            totals.calls += 1;
            match report.outcome {
                CallOutcome::Succeeded => totals.success += 1,
                CallOutcome::Failed(_) | CallOutcome::Cancelled => totals.fail += 1,
            }
            totals.failed_runs += u64::from(report.outcome.run_failure().is_some());
            totals.duration += report.duration;
            totals.decisions.add(report.decision);
        }
        self.lines_added += report.lines.added;
        self.lines_removed += report.lines.removed;
    }
}

impl ApiCounts {
    fn add(&mut self, other: Self) {
        self.requests += other.requests;
        self.errors += other.errors;
        self.latency += other.latency;
        self.usage.add(other.usage);
    }
}

impl Decisions {
    fn add(&mut self, decision: Option<CallDecision>) {
        match decision {
            None => {}
            Some(CallDecision::Accept) => self.accept += 1,
            Some(CallDecision::Reject) => self.reject += 1,
            Some(CallDecision::Modify) => self.modify += 1,
            Some(CallDecision::AutoAccept) => self.auto_accept += 1,
        }
    }
}

/// The entry of this name, made if it is missing. The lists are short; their order matters.
fn entry<'a, T: Default>(list: &'a mut Vec<(String, T)>, name: &str) -> &'a mut T {
    let at = list.iter().position(|(known, _)| known == name).unwrap_or_else(|| {
        list.push((name.to_owned(), T::default()));
        list.len() - 1
    });
    &mut list[at].1
}

pub fn millis(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}
