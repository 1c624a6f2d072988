//! The calls of one reply: decided on, run, answered.

use std::sync::Arc;

use pollux_domain::content::{Content, Part};
use pollux_domain::event::{CallOutcome, CallReport, Event, NoticeCode, Severity, TurnEnd};
use pollux_domain::tool::{Display, ToolErrorKind, ToolOutcome};
use pollux_hooks::Verdict;
use pollux_session::CallResult;
use tokio_util::sync::CancellationToken;

use super::Next;
use crate::call::{Finished, Ready};
use crate::calls::answer::{self, Answer, Offload};
use crate::calls::{self, Starts};
use crate::loop_guard::LoopGuard;
use crate::session::Session;

/// Tools that lead to new places, where more context files may lie.
const EXPLORERS: [&str; 5] = ["read_file", "list_directory", "write_file", "replace", "read_many_files"];

const AFTER_FATAL: &str = "Not run: an earlier call failed in a way that ends the run.";

const AFTER_STOP: &str = "Not run: a hook stopped the agent.";

impl Session {
    /// Runs calls in their order and keeps every answer.
    pub(super) async fn run_calls(
        &mut self,
        ready: Vec<Ready>,
        prompt_id: &str,
        mut guard: Option<&mut LoopGuard>,
        cancel: &CancellationToken,
    ) -> Next {
        let mut parts = Vec::new();
        let mut deferred = Vec::new();
        let mut fatal = None;
        let mut stopped: Option<String> = None;
        let mut left = ready.len();
        let mut refused = 0;
        let all = ready.len();
        self.stopped_by_person = false;
        for mut group in calls::groups(ready) {
            if fatal.is_some() || stopped.is_some() {
                let why = if fatal.is_some() { AFTER_FATAL } else { AFTER_STOP };
                group.iter_mut().for_each(|call| call.refuse(ToolErrorKind::ExecutionFailed, why));
            }
            self.permit(&mut group, cancel).await;
            // What is done is on disk before it is told, and told before the next call begins.
            let mut results = Vec::with_capacity(group.len());
            let mut reports = Vec::with_capacity(group.len());
            self.keep_before(&group, cancel).await;
            let starts = if self.errand.is_none() { Starts::Told } else { Starts::Silent };
            let finished = calls::run_group(group, starts, &self.events, cancel).await;
            self.keep_after(&finished).await;
            for mut done in self.after_tools(finished, cancel).await {
                left -= 1;
                let answer = self.answer(&done).await;
                if let Some(guard) = &mut guard {
                    guard.result(left, &answer::fingerprint(&answer.parts));
                }
                let report = answer::report(&mut done, &answer.parts, prompt_id);
                results.push(call_result(&report, &answer.parts));
                match done.outcome {
                    ToolOutcome::Failed(failure) if failure.kind.is_fatal() => {
                        fatal = Some((failure.kind, failure.message));
                    }
                    ToolOutcome::Failed(failure) if failure.kind == ToolErrorKind::StopExecution => {
                        stopped.get_or_insert(failure.message);
                    }
                    ToolOutcome::Refused(_) => {
                        refused += 1;
                        // A person stopped what an agent wanted to do for this turn.
                        self.stopped_by_person |= done.ran_as_agent();
                    }
                    ToolOutcome::Failed(_) | ToolOutcome::Done(_) | ToolOutcome::Cancelled { .. } => {}
                }
                reports.push(report);
                parts.extend(answer.parts);
                deferred.extend(answer.deferred);
            }
            let now = self.now();
            let recorded = self.recorder.results(&results, now);
            self.recorded(recorded).await;
            for report in reports {
                if let Some(witness) = &self.witness {
                    witness.call(&report);
                }
                self.emit(Event::CallFinished(Arc::new(report))).await;
            }
        }
        self.history.push(None, Content::user(parts));
        if !deferred.is_empty() {
            self.history.push(None, Content::model(vec![Part::text("I will look at the media now.")]));
            self.history.push(None, Content::user(deferred));
        }
        match fatal {
            Some((kind, message)) => Next::End(TurnEnd::FatalTool { kind, message }),
            // Nothing came of the whole batch: the model would only try again.
            None if self.stopped_by_person && refused == all => Next::End(TurnEnd::Cancelled),
            None if cancel.is_cancelled() => Next::End(TurnEnd::Cancelled),
            None => match stopped {
                Some(reason) => {
                    self.hooked.halts(&Verdict::Stop { reason }, None).await;
                    Next::End(TurnEnd::Finished(None))
                }
                None => Next::Continue,
            },
        }
    }

    async fn answer(&mut self, done: &Finished) -> Answer {
        let context = self.context_near(done);
        for warning in self.context.take_warnings() {
            self.notice(Severity::Warning, NoticeCode::ContextFile, warning).await;
        }
        let offload = Offload {
            settings: &self.tool_settings,
            temp_dir: &self.temp_dir,
            session: &self.id,
            window_left: self.window_left(),
        };
        let answer = Answer::build(done, context.as_deref(), &offload);
        if let Some(problem) = &answer.problem {
            self.notice(Severity::Warning, NoticeCode::ToolOutput, problem.clone()).await;
        }
        answer
    }

    fn context_near(&mut self, done: &Finished) -> Option<String> {
        let explores = done.spec.as_ref().is_some_and(|spec| EXPLORERS.contains(&spec.name.as_str()));
        if !explores || !matches!(done.outcome, ToolOutcome::Done(_)) {
            return None;
        }
        let found: Vec<String> =
            done.effect.paths().iter().filter_map(|path| self.context.near(path)).collect();
        (!found.is_empty()).then(|| found.join("\n\n"))
    }
}

/// What the session file keeps of a call that ended.
fn call_result(report: &CallReport, answer: &[Part]) -> CallResult {
    CallResult {
        id: report.call.clone(),
        status: report.outcome.status(),
        result: answer.to_vec(),
        display: match report.outcome {
            CallOutcome::Cancelled => Display::Nothing,
            CallOutcome::Succeeded | CallOutcome::Failed(_) => report.display.clone(),
        },
    }
}
