use std::sync::Arc;
use std::time::Duration;

use pollux_domain::event::{CallRequest, FrontId};
use pollux_domain::id::SessionId;
use pollux_domain::model::{Finish, FinishReason, ModelErrorKind, Usage};
use pollux_domain::tool::{AgentEnd, LineDelta, ToolErrorKind, ToolKind};

use super::*;

/// A session that advances by a second with every event.
struct Told {
    spans: Spans,
    seconds: i64,
    ended: Vec<Span>,
}

impl Told {
    fn new(texts: Texts) -> Self {
        let spans = Spans::new(texts, "gemini".to_owned(), "s1".to_owned());
        Self { spans, seconds: 0, ended: Vec::new() }
    }

    fn tell(&mut self, event: Event) {
        self.seconds += 1;
        let ended = self.spans.event(&event, Timestamp::from_millis(self.seconds * 1_000));
        self.ended.extend(ended);
    }

    fn tell_all(mut self, events: impl IntoIterator<Item = Event>) -> Vec<Span> {
        events.into_iter().for_each(|event| self.tell(event));
        self.ended
    }
}

fn prompt() -> Event {
    Event::PromptAccepted {
        typed: "look".into(),
        prompt_id: "s1".into(),
        message: None,
        by: FrontId::local(),
    }
}

fn sent(role: RequestRole, prompt_id: &str, subagent: Option<&CallId>) -> Event {
    Event::RequestSent(Arc::new(RequestSent {
        model: "m".into(),
        role,
        prompt_id: prompt_id.into(),
        contents: Vec::new(),
        subagent: subagent.cloned(),
    }))
}

fn ended(role: RequestRole, prompt_id: &str, error: Option<ModelError>) -> Event {
    Event::RequestEnded(Box::new(RequestEnded {
        model: "m".into(),
        model_version: Some("m-001".into()),
        role,
        prompt_id: prompt_id.into(),
        duration: Duration::from_secs(1),
        usage: Usage { input: 10, output: 4, cached: 2, ..Usage::default() },
        finish: error.is_none().then_some(Finish { reason: FinishReason::Stop, message: None }),
        text: "the answer".into(),
        error,
        invalid: None,
        context_tokens: 0,
        window: 0,
    }))
}

fn call_id(raw: &str) -> CallId {
    CallId::new("tool", raw)
}

fn requested(raw: &str) -> Event {
    Event::CallRequested(Arc::new(CallRequest::new(call_id(raw), "tool", JsonObject::new())))
}

fn report(raw: &str, outcome: CallOutcome, display: Display) -> Arc<CallReport> {
    Arc::new(CallReport {
        call: call_id(raw),
        name: "tool".into(),
        kind: ToolKind::Other,
        args: object(json!({"path": "a.rs"})),
        outcome,
        display,
        lines: LineDelta::default(),
        duration: Duration::from_millis(500),
        decision: None,
        answer: "found".into(),
        prompt_id: "s1".into(),
        paths: Vec::new(),
        parts: Vec::new(),
        sandbox: None,
        permit: None,
    })
}

fn finished(raw: &str) -> Event {
    Event::CallFinished(report(raw, CallOutcome::Succeeded, Display::Nothing))
}

fn activity(of: &str, what: ActivityKind) -> Event {
    Event::Activity(Arc::new(Activity { call: call_id(of), agent: "scout".into(), what }))
}

fn begins(raw: &str) -> ActivityKind {
    ActivityKind::CallStarted {
        call: call_id(raw),
        name: "tool".into(),
        display_name: "Tool".into(),
        description: String::new(),
        args: JsonObject::new(),
    }
}

fn ends(raw: &str) -> ActivityKind {
    ActivityKind::CallEnded(report(raw, CallOutcome::Succeeded, Display::Nothing))
}

/// Every span with the names of those above it, in order of their ends.
fn paths(spans: &[Span]) -> Vec<String> {
    let path = |span: &Span| {
        let mut names = vec![span.name.clone()];
        let mut parent = span.parent;
        while let Some(context) = parent {
            let above = spans.iter().find(|span| span.context == context).expect("the parent is sent");
            names.push(above.name.clone());
            parent = above.parent;
        }
        names.reverse();
        names.join(" > ")
    };
    spans.iter().map(path).collect()
}

fn named<'a>(spans: &'a [Span], name: &str) -> &'a Span {
    spans.iter().find(|span| span.name == name).unwrap()
}

#[test]
fn a_turn_holds_its_steps_and_a_step_its_calls() {
    use RequestRole::Main;
    let spans = Told::new(Texts::LeftOut).tell_all([
        Event::SessionReady {
            session: SessionId::from_file("s2"),
            model: "m".into(),
            resolved: "m".into(),
            roots: Vec::new(),
        },
        prompt(),
        sent(Main, "s1", None),
        ended(Main, "s1", None),
        requested("1"),
        Event::CallStarted { call: call_id("1") },
        finished("1"),
        sent(Main, "s1", None),
        ended(Main, "s1", None),
        Event::TurnEnded(TurnEnd::Finished(None)),
    ]);
    assert_eq!(
        paths(&spans),
        [
            "invoke_agent pollux > chat m",
            "invoke_agent pollux > chat m > execute_tool tool",
            "invoke_agent pollux > chat m",
            "invoke_agent pollux",
        ]
    );
    let chat = named(&spans, "chat m");
    assert_eq!((chat.kind, chat.start.millis(), chat.end.millis()), (SpanKind::Client, 3_000, 4_000));
    assert_eq!(
        Value::Object(chat.attributes.clone()),
        json!({
            "gen_ai.operation.name": "chat",
            "gen_ai.conversation.id": "s2",
            "gen_ai.provider.name": "gcp.gemini",
            "gen_ai.system": "gcp.gemini",
            "gen_ai.request.model": "m",
            "pollux.request.role": "main",
            "gen_ai.response.model": "m-001",
            "gen_ai.usage.input_tokens": 10,
            "gen_ai.usage.output_tokens": 4,
            "gen_ai.usage.cache_read.input_tokens": 2,
            "gen_ai.response.finish_reasons": ["stop"],
        })
    );
    let call = named(&spans, "execute_tool tool");
    assert_eq!((call.start.millis(), call.end.millis()), (6_000, 6_500), "as long as it ran");
    assert_eq!(
        Value::Object(call.attributes.clone()),
        json!({
            "gen_ai.operation.name": "execute_tool",
            "gen_ai.conversation.id": "s2",
            "gen_ai.tool.name": "tool",
            "gen_ai.tool.call.id": "tool__1",
            "gen_ai.tool.type": "function",
        })
    );
    let turn = named(&spans, "invoke_agent pollux");
    assert_eq!((turn.start.millis(), turn.end.millis(), &turn.error), (2_000, 10_000, &None));
    assert!(spans.iter().all(|span| span.context.same_trace(turn.context)));
}

#[test]
fn sub_agents_that_work_at_the_same_time_keep_their_own_steps() {
    use RequestRole::{Compressor, Main, Subagent};
    let (one, two) = (call_id("1"), call_id("2"));
    let spans = Told::new(Texts::LeftOut).tell_all([
        prompt(),
        sent(Main, "s1", None),
        ended(Main, "s1", None),
        requested("1"),
        requested("2"),
        sent(Subagent, "agent-1", Some(&one)),
        sent(Subagent, "agent-2", Some(&two)),
        ended(Subagent, "agent-2", None),
        activity("2", begins("22")),
        ended(Subagent, "agent-1", None),
        activity("1", begins("11")),
        activity("1", ends("11")),
        activity("2", ends("22")),
        sent(Compressor, "agent-1", Some(&one)),
        ended(Compressor, "agent-1", None),
        finished("1"),
        finished("2"),
        Event::TurnEnded(TurnEnd::Finished(None)),
    ]);
    let above = "invoke_agent pollux > chat m > execute_tool tool";
    let agent = format!("{above} > invoke_agent scout");
    assert_eq!(
        paths(&spans),
        [
            "invoke_agent pollux > chat m".to_owned(),
            format!("{agent} > chat m"),
            format!("{agent} > chat m"),
            format!("{agent} > chat m > execute_tool tool"),
            format!("{agent} > chat m > execute_tool tool"),
            format!("{agent} > chat m"),
            agent.clone(),
            above.to_owned(),
            agent.clone(),
            above.to_owned(),
            "invoke_agent pollux".to_owned(),
        ]
    );
    let id = |span: &Span| span.attributes["gen_ai.tool.call.id"].as_str().unwrap().to_owned();
    let parent_of = |span: &Span| spans.iter().find(|other| Some(other.context) == span.parent).unwrap();
    for (inner, outer) in [("tool__11", "tool__1"), ("tool__22", "tool__2")] {
        let call = spans.iter().find(|span| span.name == "execute_tool tool" && id(span) == inner).unwrap();
        let caller = parent_of(parent_of(parent_of(call)));
        assert_eq!(id(caller), outer);
    }
}

#[test]
fn an_agent_elsewhere_is_a_span_as_well() {
    let end = AgentEnd {
        agent: "far".into(),
        record: None,
        state: "error".into(),
        reason: String::new(),
        result: String::new(),
    };
    let failed = CallOutcome::failed(ToolErrorKind::ExecutionFailed, "it is away");
    let spans = Told::new(Texts::LeftOut).tell_all([
        prompt(),
        requested("1"),
        Event::CallStarted { call: call_id("1") },
        Event::CallFinished(report("1", failed, Display::Agent(Box::new(end)))),
        Event::TurnEnded(TurnEnd::Finished(None)),
    ]);
    assert_eq!(
        paths(&spans),
        [
            "invoke_agent pollux > execute_tool tool > invoke_agent far",
            "invoke_agent pollux > execute_tool tool",
            "invoke_agent pollux",
        ]
    );
    for span in &spans[..2] {
        assert_eq!(span.error.as_deref(), Some("it is away"));
        assert_eq!(span.attributes["error.type"], "execution_failed");
    }
}

#[test]
fn failures_have_a_status_and_a_type() {
    use RequestRole::Main;
    let error = || ModelError::new(ModelErrorKind::Server, Some(503), "overloaded");
    let unnamed = ModelError::new(ModelErrorKind::ContextOverflow { asked: None, limit: Some(3) }, None, "x");
    let spans = Told::new(Texts::LeftOut).tell_all([
        prompt(),
        sent(Main, "s1", None),
        ended(Main, "s1", Some(error())),
        sent(Main, "s1", None),
        ended(Main, "s1", Some(unnamed)),
        Event::TurnEnded(TurnEnd::Failed(error())),
    ]);
    assert_eq!(spans[0].error.as_deref(), Some("overloaded"));
    assert_eq!(spans[0].attributes["error.type"], "503");
    assert_eq!(spans[0].attributes["http.response.status_code"], 503);
    assert_eq!(spans[1].attributes["error.type"], "ContextOverflow");
    assert_eq!(spans[2].error.as_deref(), Some("overloaded"));
    assert_eq!(spans[2].attributes["error.type"], "503");
    assert_eq!(spans[2].attributes["pollux.turn.end"], "failed");
}

#[test]
fn what_is_open_ends_with_its_turn_and_a_title_has_its_own_trace() {
    use RequestRole::{Main, Subagent, Summarizer};
    let agent = call_id("1");
    let mut told = Told::new(Texts::LeftOut);
    for event in [
        prompt(),
        sent(Main, "s1", None),
        ended(Main, "s1", None),
        requested("1"),
        sent(Subagent, "agent-1", Some(&agent)),
        Event::TurnEnded(TurnEnd::Cancelled),
        sent(Summarizer, "title", None),
        ended(Summarizer, "title", None),
    ] {
        told.tell(event);
    }
    let spans = told.ended;
    let agent = "invoke_agent pollux > chat m > execute_tool tool > invoke_agent";
    assert!(paths(&spans).contains(&agent.to_owned()), "{:?}", paths(&spans));
    let stopped = &spans[1];
    assert_eq!((stopped.name.as_str(), stopped.error.as_deref()), ("chat m", Some("cancelled")));
    let turn = named(&spans, "invoke_agent pollux");
    assert_eq!((&turn.error, &turn.attributes["pollux.turn.end"]), (&None, &json!("cancelled")));
    let title = spans.last().unwrap();
    assert_eq!(
        (title.parent, title.attributes["pollux.request.role"].as_str()),
        (None, Some("utility_summarizer"))
    );
    assert!(!title.context.same_trace(turn.context));
    let open = told.spans;
    assert!(open.steps.is_empty() && open.calls.is_empty() && open.agents.is_empty());
}

#[test]
fn texts_are_messages_of_the_conventions() {
    use RequestRole::Main;
    let events = || {
        [
            prompt(),
            sent(Main, "s1", None),
            ended(Main, "s1", None),
            requested("1"),
            finished("1"),
            Event::TurnEnded(TurnEnd::Finished(None)),
        ]
    };
    let spans = Told::new(Texts::Written).tell_all(events());
    let text = |name: &str, key: &str| -> Value {
        serde_json::from_str(named(&spans, name).attributes[key].as_str().unwrap()).unwrap()
    };
    assert_eq!(
        text("chat m", "gen_ai.output.messages"),
        json!([{"role": "assistant", "parts": [{"type": "text", "content": "the answer"}], "finish_reason": "stop"}])
    );
    assert_eq!(text("invoke_agent pollux", "gen_ai.input.messages")[0]["parts"][0]["content"], "look");
    assert_eq!(text("execute_tool tool", "gen_ai.tool.call.arguments"), json!({"path": "a.rs"}));
    let without = Told::new(Texts::LeftOut).tell_all(events());
    for span in &without {
        let all = Value::Object(span.attributes.clone()).to_string();
        assert!(!all.contains("the answer") && !all.contains("look") && !all.contains("a.rs"), "{all}");
    }
}

#[test]
fn requests_that_never_end_are_forgotten() {
    let mut told = Told::new(Texts::LeftOut);
    for number in 0..1_000 {
        told.tell(sent(RequestRole::Summarizer, &number.to_string(), None));
        told.tell(requested(&number.to_string()));
    }
    assert!(told.spans.steps.len() <= MAX_OPEN && told.spans.calls.len() <= MAX_OPEN);
}

#[test]
fn providers_have_the_names_of_the_conventions() {
    assert_eq!(provider_name("gemini-2.5-pro", "vertex"), "gcp.vertex_ai");
    assert_eq!(provider_name("anthropic/claude-x", "gemini"), "anthropic");
    assert_eq!(provider_name("mistral/large", "gemini"), "mistral_ai");
    assert_eq!(provider_name("vendor/model", "lab"), "lab", "a name with a slash is not a provider");
}
