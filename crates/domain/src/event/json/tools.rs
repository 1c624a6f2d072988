//! Rows of what tools and approvals bring.

use serde_json::Value;

use super::{Fields, Json, MalformedEvent, fields, variants, words};
use crate::JsonObject;
use crate::approval::{
    ApprovalAnswer, ApprovalMode, ApprovalRequest, Choice, Offer, Outcome, Question, QuestionForm, Subject,
    Why, WhyPart,
};
use crate::sandbox::{
    Denial, DenialKind, Grant, GrantScope, GrantedBy, Right, RightKind, RightQuestion, SandboxReport,
    Strength, TripwireHit,
};
use crate::tool::{
    AgentEnd, DiffStat, Display, FileDiff, LineDelta, RunFailure, Todo, TodoStatus, ToolErrorKind, ToolKind,
    ToolSpec,
};

variants! {
    ApprovalAnswer { Once, Session, SessionServer, Project, Saved, Edited(args), Refuse(message), Cancel, Replies(replies) }
    Subject {
        Edit { path, diff },
        Command { command, directory },
        Fetch(urls),
        Server { server, tool },
        EnterPlan { reason },
        Plan { path, text },
        Questions(questions),
        Sandbox(question),
        Other(text),
    }
    QuestionForm { Text { placeholder }, YesNo, Choice { options, several } }
    Display { Nothing, Text(text), Diff(diff), List { summary, items }, Agent(end), Todos(todos) }
    RunFailure { ExitCode(code), Signal(signal), TimedOut, Agent { agent, reason } }
}

fields! {
    ApprovalRequest { call, tool, display_name, args, subject, destroys, why, offers }
    Why { reason, rule, parts }
    WhyPart { text, decision, reason }
    Offer { outcome, covers }
    Question { header, text, form }
    Choice { label, description }
    ToolSpec { name, display_name, description, kind, parameters, output_is_markdown, offloads_long_output }
    AgentEnd { agent, record, state, reason, result }
    FileDiff { unified, file_name, path, before, after, stat }
    DiffStat { added_lines, removed_lines, added_chars, removed_chars }
    LineDelta { added, removed }
    Todo { text, status }
    RightQuestion { right, command, program, call, note, rerun }
    Right { kind, target }
    Grant { right, scope, by }
    Denial { kind, target, port, strength, rule }
    TripwireHit { path, action }
    SandboxReport { level, mode, network, denials, requested, granted, rerun, tripwire, hosts }
}

words! {
    ApprovalMode { Default, AutoEdit, Yolo, Plan }
    Outcome { Once, Session, SessionServer, Project, Saved, Edit, Refuse }
    RightKind { Write, Read, Host, Port, Socket }
    GrantScope { Once, Session, Project, Always }
    GrantedBy { User, Flag, Settings, File }
    DenialKind { Write, Read, Exec, Connect, Socket, Signal, Limit }
    Strength { Certain, Strong, Weak }
    TodoStatus { Pending, InProgress, Completed, Cancelled, Blocked }
    ToolKind { Read, Edit, Delete, Move, Search, Execute, Think, Agent, Fetch, Communicate, Plan, Other }
    ToolErrorKind {
        PolicyViolation, InvalidToolParams, Unknown, UnhandledException, ToolNotRegistered, ExecutionFailed,
        FileNotFound, FileWriteFailure, ReadContentFailure, AttemptToCreateExistingFile, FileTooLarge,
        PermissionDenied, NoSpaceLeft, TargetIsDirectory, PathNotInWorkspace, SearchPathNotFound,
        SearchPathNotADirectory, EditPreparationFailure, EditNoOccurrenceFound, EditExpectedOccurrenceMismatch,
        EditNoChange, GlobExecutionError, GrepExecutionError, LsExecutionError, PathIsNotADirectory,
        ReadManyFilesSearchError, ShellExecuteError, MemoryToolExecutionError, DiscoveredToolExecutionError,
        McpToolError, McpResourceNotFound, WebFetchFallbackFailed, WebFetchProcessingError, WebSearchFailed,
        StopExecution
    }
}
