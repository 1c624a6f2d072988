//! Hooks that are functions of the program that drives the session.
//!
//! Such a program registers functions in the form of Claude Code's SDKs: their event names, tool names in matchers and
//! timeouts in seconds. Each function is a hook like any other, but no switch in a settings file turns it off: it is the
//! guard of the program that the user started.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use pollux_config::trust::scripts::NamedScripts;
use pollux_domain::{BoxFuture, JsonObject};
use serde_json::Value;
use tokio_util::sync::CancellationToken;

use crate::claude::translated;
use crate::definition::{DEFAULT_TIMEOUT, Hook, HookSource};
use crate::ending::HookEnding;
use crate::event::Event;
use crate::matcher::Matcher;

/// The most functions.
const MAX_CALLBACKS: usize = 1000;

/// The events by the names under which functions are registered.
const EVENTS: &[(&str, Event, Results)] = &[
    ("PreToolUse", Event::BeforeTool, Results::All),
    ("PostToolUse", Event::AfterTool, Results::Successes),
    ("PostToolUseFailure", Event::AfterTool, Results::Failures),
    ("UserPromptSubmit", Event::BeforeAgent, Results::All),
    ("Stop", Event::AfterAgent, Results::All),
    ("PreCompact", Event::PreCompress, Results::All),
    ("Notification", Event::Notification, Results::All),
    ("SessionStart", Event::SessionStart, Results::All),
    ("SessionEnd", Event::SessionEnd, Results::All),
];

/// Calls functions of the program that drives the session.
pub trait CallbackPort: Send + Sync {
    /// Calls a function; `call` is the tool call that the event is about.
    fn call<'a>(
        &'a self,
        id: &'a str,
        call: Option<&'a str>,
        input: JsonObject,
    ) -> BoxFuture<'a, Result<JsonObject, CallbackError>>;
}

/// Why there is no answer of a function.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum CallbackError {
    /// It was not asked, or its program is gone. A function that guards calls must then not be passed over.
    NotAsked(String),
    Failed(String),
}

/// The functions of a run.
#[derive(Debug, Clone)]
pub struct Callbacks {
    hooks: Arc<[Hook]>,
}

/// Equal if they are the same functions.
impl PartialEq for Callbacks {
    fn eq(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.hooks, &other.hooks)
    }
}

impl Callbacks {
    /// Reads `{"<event>": [{"matcher", "hookCallbackIds", "timeout", "onFailure"}]}`, and notes about what is not used. A
    /// definition that cannot be read is an error: a guard that silently does not run is worse than none.
    pub fn read(
        port: &Arc<dyn CallbackPort>,
        events: &JsonObject,
        current_name: fn(&str) -> &str,
    ) -> Result<(Self, Vec<String>), String> {
        let (mut hooks, mut notes) = (Vec::new(), Vec::new());
        for (name, matchers) in events {
            let Some(known) = EVENTS.iter().find(|(known, ..)| known == name) else {
                notes.push(format!("hooks for `{name}` are ignored: the event is not supported"));
                continue;
            };
            let matchers = match matchers {
                Value::Array(matchers) => matchers,
                Value::Null => continue,
                _ => return Err(format!("`hooks.{name}` must be a list")),
            };
            for matcher in matchers {
                hooks.extend(read_matcher(port, known, &translated(matcher), current_name)?);
            }
        }
        if hooks.len() > MAX_CALLBACKS {
            return Err(format!("more than {MAX_CALLBACKS} hooks"));
        }
        Ok((Self { hooks: hooks.into() }, notes))
    }

    pub(crate) fn hooks(&self) -> impl Iterator<Item = Hook> + '_ {
        self.hooks.iter().cloned()
    }
}

fn read_matcher(
    port: &Arc<dyn CallbackPort>,
    (name, event, results): &(&'static str, Event, Results),
    definition: &Value,
    current_name: fn(&str) -> &str,
) -> Result<Vec<Hook>, String> {
    let wrong = |what: &str| format!("`hooks.{name}`: {what}");
    let Value::Object(fields) = definition else { return Err(wrong("expected objects")) };
    let matcher = match fields.get("matcher") {
        None | Some(Value::Null) => None,
        Some(Value::String(matcher)) => Some(matcher.clone()),
        Some(_) => return Err(wrong("`matcher` must be a string")),
    };
    let (rule, odd) = Matcher::new(*event, matcher.as_deref().unwrap_or_default(), current_name);
    if let Some(odd) = odd {
        return Err(wrong(&format!("matcher {odd}")));
    }
    // Already in milliseconds.
    let timeout = match fields.get("timeout").filter(|timeout| !timeout.is_null()) {
        None => DEFAULT_TIMEOUT,
        Some(timeout) => timeout
            .as_u64()
            .map(|millis| Duration::from_millis(millis.max(1)))
            .ok_or_else(|| wrong("`timeout` must be a number of seconds"))?,
    };
    let required = fields.get("onFailure").is_some_and(|word| !word.is_null() && word != "continue");
    let Some(Value::Array(ids)) = fields.get("hookCallbackIds") else {
        return Err(wrong("missing `hookCallbackIds`"));
    };
    let hook = |id: &Value| {
        let id = id.as_str().ok_or_else(|| wrong("`hookCallbackIds` must be strings"))?;
        Ok(Hook {
            event: *event,
            source: HookSource::Client,
            name: Some(id.to_owned()),
            command: format!("callback {id}"),
            matcher: matcher.clone(),
            sequential: false,
            timeout,
            description: None,
            required,
            enabled: true,
            file: "initialize".to_owned(),
            key: format!("hooks.{name}"),
            env: Vec::new(),
            variables: Vec::new(),
            rule: rule.clone(),
            scripts: NamedScripts::default(),
            callback: Some(Callback { port: Arc::clone(port), name, results: *results }),
        })
    };
    ids.iter().map(hook).collect()
}

/// Which results of a call concern a hook.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Results {
    All,
    Successes,
    Failures,
}

/// How a hook that is a function is called.
#[derive(Clone)]
pub(crate) struct Callback {
    port: Arc<dyn CallbackPort>,
    /// The event by the name it was registered under.
    name: &'static str,
    results: Results,
}

impl fmt::Debug for Callback {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name)
    }
}

impl Callback {
    /// Whether an event with these fields concerns it.
    pub(crate) fn concerns(&self, fields: &JsonObject) -> bool {
        let failed = fields.get("tool_response").is_some_and(|response| response.get("error").is_some());
        match self.results {
            Results::All => true,
            Results::Successes => !failed,
            Results::Failures => failed,
        }
    }

    /// Calls it, and returns how it ended and what it answered.
    pub(crate) async fn call(
        &self,
        hook: &Hook,
        call: Option<&str>,
        input: &JsonObject,
        cancel: &CancellationToken,
    ) -> (HookEnding, Vec<u8>) {
        let id = hook.name.as_deref().unwrap_or_default();
        let answered = self.port.call(id, call, self.input(call, input));
        let failed = |why: String| (HookEnding::Failed(why), Vec::new());
        tokio::select! {
            biased;
            () = cancel.cancelled() => (HookEnding::Cancelled, Vec::new()),
            answer = answered => match answer {
                // It goes on in the background and decides nothing.
                Ok(answer) if answer.get("async") == Some(&Value::Bool(true)) => {
                    (HookEnding::Exited(0), Vec::new())
                }
                Ok(answer) => match serde_json::to_vec(&answer) {
                    Ok(answer) => (HookEnding::Exited(0), answer),
                    Err(error) => failed(error.to_string()),
                },
                Err(CallbackError::NotAsked(why)) if self.name == "PreToolUse" => {
                    let reason = format!("could not call a hook: {why}");
                    let answer = serde_json::json!({"decision": "block", "reason": reason});
                    (HookEnding::Exited(0), answer.to_string().into_bytes())
                }
                Err(CallbackError::NotAsked(why) | CallbackError::Failed(why)) => failed(why),
            },
            () = tokio::time::sleep(hook.timeout) => {
                (HookEnding::TimedOut { after_ms: hook.timeout.as_millis() }, Vec::new())
            }
        }
    }

    /// The input with the names that its program expects.
    fn input(&self, call: Option<&str>, input: &JsonObject) -> JsonObject {
        let mut input = input.clone();
        input.insert("hook_event_name".to_owned(), self.name.into());
        input.extend(call.map(|call| ("tool_use_id".to_owned(), call.into())));
        let error = input.get("tool_response").and_then(|response| response.get("error"));
        if let Some(message) = error.and_then(|error| error.get("message")).cloned() {
            input.insert("error".to_owned(), message);
        }
        match self.name {
            "Stop" => {
                let last = input.get("prompt_response").cloned().unwrap_or_default();
                input.insert("last_assistant_message".to_owned(), last);
            }
            "PreCompact" => drop(input.insert("custom_instructions".to_owned(), Value::Null)),
            _ => {}
        }
        input
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    struct Answers(Result<JsonObject, CallbackError>);

    impl CallbackPort for Answers {
        fn call<'a>(
            &'a self,
            _id: &'a str,
            _call: Option<&'a str>,
            _input: JsonObject,
        ) -> BoxFuture<'a, Result<JsonObject, CallbackError>> {
            Box::pin(std::future::ready(self.0.clone()))
        }
    }

    fn read(events: Value) -> Result<(Vec<Hook>, Vec<String>), String> {
        let port: Arc<dyn CallbackPort> = Arc::new(Answers(Ok(JsonObject::new())));
        let (callbacks, notes) = Callbacks::read(&port, events.as_object().unwrap(), |name| name)?;
        Ok((callbacks.hooks().collect(), notes))
    }

    #[test]
    fn definitions_are_read_in_the_form_of_the_sdks() {
        let (hooks, notes) = read(json!({
            "PreToolUse": [{"matcher": "Bash|mcp__a__.*", "hookCallbackIds": ["h0", "h1"], "timeout": 2.5, "onFailure": "block"}],
            "Stop": [{"hookCallbackIds": ["h2"]}],
            "PostToolUse": null,
            "SubagentStart": [{"hookCallbackIds": ["h3"]}],
        }))
        .unwrap();
        let names: Vec<&str> = hooks.iter().map(Hook::title).collect();
        assert_eq!((names, notes.len()), (vec!["h0", "h1", "h2"], 1));
        assert_eq!(
            (hooks[0].timeout, hooks[0].required, hooks[2].required),
            (Duration::from_millis(2500), true, false)
        );
        assert!(hooks[0].rule.matches("run_shell_command") && hooks[0].rule.matches("mcp_a_b"));
        assert!(!hooks[0].rule.matches("read_file"));
        for wrong in [
            json!({"PreToolUse": 7}),
            json!({"PreToolUse": [7]}),
            json!({"PreToolUse": [{"matcher": "("}]}),
            json!({"PreToolUse": [{"matcher": "(", "hookCallbackIds": []}]}),
            json!({"PreToolUse": [{"hookCallbackIds": [7]}]}),
            json!({"PreToolUse": [{"hookCallbackIds": [], "timeout": "long"}]}),
        ] {
            assert!(read(wrong.clone()).is_err(), "{wrong}");
        }
    }

    #[tokio::test]
    async fn an_answer_counts_and_a_failure_does_not() {
        let deny = json!({"decision": "block"}).as_object().unwrap().clone();
        let later = json!({"async": true, "decision": "block"}).as_object().unwrap().clone();
        let failed = || Err(CallbackError::Failed("boom".to_owned()));
        let gone = || Err(CallbackError::NotAsked("gone".to_owned()));
        for (event, answer, ending, answered) in [
            ("Stop", Ok(deny), HookEnding::Exited(0), true),
            ("Stop", Ok(later), HookEnding::Exited(0), false),
            ("Stop", failed(), HookEnding::Failed("boom".to_owned()), false),
            ("Stop", gone(), HookEnding::Failed("gone".to_owned()), false),
            ("PreToolUse", failed(), HookEnding::Failed("boom".to_owned()), false),
            // A guard that was not asked has not agreed.
            ("PreToolUse", gone(), HookEnding::Exited(0), true),
        ] {
            let port: Arc<dyn CallbackPort> = Arc::new(Answers(answer));
            let events = json!({event: [{"hookCallbackIds": ["h"]}]});
            let (callbacks, _) = Callbacks::read(&port, events.as_object().unwrap(), |name| name).unwrap();
            let hook = callbacks.hooks().next().unwrap();
            let callback = hook.callback.clone().unwrap();
            let found = callback.call(&hook, None, &JsonObject::new(), &CancellationToken::new()).await;
            assert_eq!((found.0, !found.1.is_empty()), (ending, answered));
        }
    }
}
