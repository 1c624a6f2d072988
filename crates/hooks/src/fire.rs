//! Entry point for events: runs the matching hooks and returns the combined outcome.

use std::sync::Arc;

use futures_util::StreamExt as _;
use futures_util::stream;
use pollux_domain::JsonObject;
use pollux_domain::terminal_text::plain;
use serde_json::Value;
use tokio_util::sync::CancellationToken;

use crate::answer::{Decision, HookAnswer};
use crate::chain::carry;
use crate::definition::Hook;
use crate::event::Event;
use crate::merge::merge;
use crate::payload::{Payload, object};
use crate::registry::Registry;
use crate::run::{HookRun, run};
use crate::scene::{HookScene, HookServices};

/// Hooks that run at the same time at most.
const AT_ONCE: usize = 64;

/// The hooks of a run; cheap to clone.
#[derive(Clone)]
pub struct Hooks {
    registry: Arc<Registry>,
    services: Arc<HookServices>,
}

/// The result of an event.
#[derive(Debug, Clone, Default)]
pub struct Fired<O> {
    pub outcome: O,
    /// For the person; joined by newlines.
    pub system_message: Option<String>,
    /// The message stays out of logs.
    pub suppress_output: bool,
    /// Lines about hooks that failed.
    pub warnings: Vec<String>,
    pub runs: Vec<HookRun>,
}

/// All answers to an event, and their sum.
#[derive(Debug, Clone, Default)]
pub struct CombinedAnswer {
    pub answer: HookAnswer,
    pub runs: Vec<HookRun>,
    /// They ran one after the other.
    pub sequential: bool,
}

impl Hooks {
    pub fn new(registry: Arc<Registry>, services: HookServices) -> Self {
        Self { registry, services: Arc::new(services) }
    }

    pub fn registry(&self) -> &Registry {
        &self.registry
    }

    /// Whether an event has hooks; checked before an expensive payload is built.
    pub fn listens_to(&self, event: Event) -> bool {
        self.registry.listens_to(event)
    }

    /// Runs the hooks of an event and waits for all of them. Nothing is started when there are none.
    pub async fn fire<P: Payload>(
        &self,
        scene: &HookScene,
        payload: P,
        cancel: &CancellationToken,
    ) -> Fired<P::Outcome> {
        if !self.listens_to(P::EVENT) {
            return Fired::default();
        }
        let call = payload.call().map(str::to_owned);
        let combined = self.run_for(P::EVENT, payload.fields(), scene, cancel, call.as_deref()).await;
        let warnings = combined.warnings();
        let CombinedAnswer { answer, runs, .. } = combined;
        Fired {
            system_message: answer.system_message.clone(),
            suppress_output: answer.suppress_output,
            outcome: P::outcome(answer),
            warnings,
            runs,
        }
    }

    /// As [`Self::fire`], for an input in its JSON form: the event's own keys; common ones may be among them.
    pub async fn run(
        &self,
        event: Event,
        fields: JsonObject,
        scene: &HookScene,
        cancel: &CancellationToken,
    ) -> CombinedAnswer {
        self.run_for(event, fields, scene, cancel, None).await
    }

    async fn run_for(
        &self,
        event: Event,
        fields: JsonObject,
        scene: &HookScene,
        cancel: &CancellationToken,
        call: Option<&str>,
    ) -> CombinedAnswer {
        let subject = event.subject_key().and_then(|key| fields.get(key)).and_then(Value::as_str);
        let mut plan = self.registry.plan(event, subject.unwrap_or_default());
        plan.hooks.retain(|hook| hook.callback.as_ref().is_none_or(|callback| callback.concerns(&fields)));
        if plan.hooks.is_empty() {
            return CombinedAnswer::default();
        }
        let mut input = self.common(event, scene);
        input.extend(fields);
        let ask = |hook: &Arc<Hook>, input: JsonObject| {
            let hook = Arc::clone(hook);
            async move { run(&hook, input, scene, &self.services, cancel, call).await }
        };
        let mut asked: Vec<HookRun> = if plan.sequential {
            let mut asked = Vec::with_capacity(plan.hooks.len());
            let mut input = input.clone();
            for hook in &plan.hooks {
                let one = ask(hook, input.clone()).await;
                if one.success() {
                    carry(event, &mut input, &one.answer);
                }
                asked.push(one);
            }
            asked
        } else {
            let all: Vec<_> = plan.hooks.iter().map(|hook| ask(hook, input.clone())).collect();
            stream::iter(all).buffered(AT_ONCE).collect().await
        };
        let mut answer = sum(event, &asked);
        if let Some(changed) = changed_arguments(event, &input, &answer) {
            let unseen: Vec<Arc<Hook>> =
                asked.iter().filter(|one| !knows(one, &changed)).map(|one| Arc::clone(&one.hook)).collect();
            input.insert("tool_input".to_owned(), changed.clone());
            let all: Vec<_> = unseen.iter().map(|hook| ask(hook, input.clone())).collect();
            let second: Vec<HookRun> = stream::iter(all).buffered(AT_ONCE).collect().await;
            asked.extend(second.into_iter().map(again));
            answer = sum(event, &asked);
            // The arguments that all hooks judged are used.
            answer.specific.insert("tool_input".to_owned(), changed);
        }
        CombinedAnswer { answer, runs: asked, sequential: plan.sequential }
    }

    fn common(&self, event: Event, scene: &HookScene) -> JsonObject {
        let transcript = scene.transcript_path.as_ref().map(|path| path.display().to_string());
        let mut common = object([
            ("session_id", scene.session_id.as_str().into()),
            ("transcript_path", transcript.unwrap_or_default().into()),
            ("cwd", scene.cwd.display().to_string().into()),
            ("hook_event_name", event.name().into()),
            ("timestamp", self.services.clock.now().to_iso().into()),
        ]);
        common.extend(scene.budget.clone().map(|budget| ("budget".to_owned(), budget)));
        common
    }
}

impl CombinedAnswer {
    /// Lines about hooks that failed.
    pub fn warnings(&self) -> Vec<String> {
        let failed = self.runs.iter().filter_map(|run| {
            let hook = &run.hook;
            let title: String = plain(hook.title()).chars().take(100).collect();
            run.warning.as_ref().map(|text| format!("Hook `{title}` ({}) {text}", hook.event))
        });
        failed.collect()
    }
}

/// Whether a hook judged these arguments, or proposed them itself.
fn knows(one: &HookRun, arguments: &Value) -> bool {
    one.input.get("tool_input") == Some(arguments) || one.answer.specific.get("tool_input") == Some(arguments)
}

/// Of a second run only the decision counts; another change would need a third.
fn again(mut one: HookRun) -> HookRun {
    one.again = true;
    one.answer.specific.shift_remove("tool_input");
    one
}

fn sum(event: Event, asked: &[HookRun]) -> HookAnswer {
    let answers: Vec<&HookAnswer> = asked.iter().map(|one| &one.answer).collect();
    let chooser = asked.iter().rev().find(|one| {
        one.answer.specific.get("llm_request").is_some_and(|request| request.get("model").is_some())
    });
    HookAnswer {
        chose_foreign_model: chooser.is_some_and(|one| one.hook.source.is_foreign()),
        ..merge(event, &answers)
    }
}

/// The arguments that a hook substituted in a call, if the call will still be made.
fn changed_arguments(event: Event, input: &JsonObject, answer: &HookAnswer) -> Option<Value> {
    if event != Event::BeforeTool || answer.stop || answer.decision == Decision::Deny {
        return None;
    }
    let changed = answer.specific.get("tool_input").filter(|changed| changed.is_object())?;
    (input.get("tool_input") != Some(changed)).then(|| changed.clone())
}
