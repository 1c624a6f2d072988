//! Rows of events and operations.

use serde_json::Value;

use super::{Fields, Json, MalformedEvent, fields, variants, words};
use crate::JsonObject;
use crate::budget::{BudgetChange, BudgetStatus, Exceeded, Limits, Scope, ScopeStatus, Spent, Unit};
use crate::editor::EditorStatus;
use crate::event::{
    Activity, ActivityError, ActivityKind, Asked, BackgroundCommand, CallDecision, CallFailure, CallOutcome,
    CallReport, CallRequest, Compressed, CompressionStatus, ConversationView, Discarded, Event,
    ExplainedCall, HookReport, Location, ModelFallback, NoticeCode, Op, OpResult, Permit, PromptView,
    Refusal, RefusalCode, RequestEnded, RequestSent, Severity, ShellReport, SummaryView, Thought, TurnEnd,
    WaitingPrompt,
};

variants! {
    Permit { Rule { name, tier, source, line }, Mode(mode), User(front) }
    Op {
        Prompt { parts, typed },
        Steer { parts, typed },
        Withdraw { prompt },
        Cancel,
        Decide { call, answer },
        SetMode(mode),
        SetModel(name),
        Budget(change),
        Describe,
        Rewind { to },
        Compress,
        SetTitle(title),
        Explain { name, args },
        RunTool { name, args },
        Propose { parts },
        Shell { command },
        ShellRan { command, output },
        SetTerminal(size),
        Type { call, input },
        MoveToBackground { call },
        End { cleared },
    }
    OpResult {
        Accepted,
        Refused(refusal),
        Conversation(view),
        Model { name, resolved },
        Rewound { to },
        Budget(status),
        Explained(call),
    }
    BudgetChange { Show, Raise { unit, by }, Off }
    Event {
        SessionReady { session, model, resolved, roots },
        Acknowledged { id, by, result },
        QueueChanged(prompts),
        FrontsChanged(fronts),
        PromptAccepted { typed, prompt_id, message, by },
        Steered { id, typed, message, by },
        StepBegan { message },
        RequestSent(sent),
        Text(text),
        Thought(thought),
        CallProgress { name, bytes },
        Waiting(wait),
        AttemptDiscarded(discarded),
        StepCommitted,
        RequestEnded(ended),
        CallRequested(request),
        ApprovalWanted(request),
        ApprovalSettled { call, outcome, by },
        ModeChanged { mode, by },
        ModelChanged(name),
        ModelFallback(fallback),
        Titled(title),
        CallStarted { call },
        CallOutput { call, text },
        CallScreen { call, screen },
        CallFinished(report),
        ShellStarted { call, command, by },
        ShellEnded(report),
        BackgroundChanged(commands),
        EditorChanged(editor),
        Compressing { id },
        Compressed(compressed),
        Rewound { to },
        HookRan(report),
        Activity(activity),
        Budget(status),
        Notice { severity, code, message },
        TurnEnded(end),
    }
    TurnEnd {
        Finished(finish),
        Cancelled,
        TurnLimit,
        Loop(message),
        InvalidReply { kind, message },
        Overflow { estimated, remaining },
        Failed(error),
        FatalTool { kind, message },
    }
    CallOutcome { Succeeded, Failed(failure), Cancelled }
    ActivityKind {
        CallStarted { call, name, display_name, description, args },
        CallEnded(report),
        Thought(text),
        Error { message, call, cause },
    }
}

fields! {
    Asked { id, by, op }
    Refusal { code, message }
    ExplainedCall { decision, why }
    ConversationView { contents, prompts, summary, tools, model, resolved_model, tokens, window }
    WaitingPrompt { id, by, typed }
    PromptView { message, text }
    SummaryView { text, prompts, next }
    RequestSent { model, role, prompt_id, contents, subagent }
    RequestEnded {
        model, model_version, role, prompt_id, duration, usage, finish, text, error, invalid, context_tokens, window
    }
    Thought { subject, description }
    Discarded { reason, text_was_shown, attempt, max_attempts, retry_in }
    ModelFallback { from, to, reason, for_session, cool_down, lost }
    CallRequest { call, name, args, title, display_name, kind, server, paths }
    Location { path, line }
    CallReport {
        call, name, kind, args, outcome, display, lines, duration, decision, answer, prompt_id, paths, parts,
        sandbox, permit
    }
    CallFailure { kind, message, denial, run }
    ShellReport { call, command, output, ending }
    BackgroundCommand { pid, command }
    EditorStatus { name, open_files }
    Compressed { id, tokens_before, tokens_after, status, summary }
    HookReport {
        event, hook, duration, exit_code, error, input, output, stdout, stderr, message, suppressed
    }
    Activity { call, agent, what }
    BudgetStatus { scopes, session, wasted }
    ScopeStatus { scope, limits, spent, fixed }
    Limits { usd, tokens, requests, millis }
    Spent { usd, tokens, requests, millis }
    Exceeded { scope, unit, limit, spent, needed, fixed, session }
}

words! {
    RefusalCode {
        NotWaiting, NotOffered, NotAllowed, QueueFull, Dropped, Untrusted, NotFound, Invalid, Unsupported, Failed, Ended
    }
    CallDecision { Accept, Reject, Modify, AutoAccept }
    CompressionStatus { Compressed, Inflated, Failed, EmptySummary, Nothing, Truncated }
    Severity { Info, Warning, Error }
    NoticeCode {
        LoopDetected, RecordingStopped, RecordingResumed, SessionFile, Durability, ContextFile, Policy, Workspace,
        ToolOutput, Model, Rewind, Hook, Halted, Server, Agent, Extension, Memory, Title, Update, Budget, Crashed
    }
    Scope { Turn, Session, Day, Project, Subagent }
    Unit { Usd, Tokens, Requests, Minutes }
    ActivityError { Rejected, Cancelled, Generic }
}
