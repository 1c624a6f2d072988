//! Messages to the host.
//!
//! The events of every run are written by `output`; they are described here so that a host can read everything with one
//! set of types.

use pollux_domain::JsonObject;
use serde_json::Value;

use crate::shape::{messages, object};

messages! {
    /// A message to the host.
    Outgoing {
        /// The session is open.
        "INIT" => Init {
            session_id: String,
            model: String,
            approval_mode: Option<String>,
            sandbox: Option<Value>,
        }
        /// After `INIT`: messages are taken.
        "READY" => Ready {
            /// The version of this protocol.
            protocol: u64,
            session_id: String,
            mode: String,
            model: String,
            /// The commands that `command` runs.
            commands: Vec<CommandInfo>,
        }
        /// A piece of the conversation.
        "MESSAGE" => Message {
            /// `user`, `assistant`, or `system` for the output of a command.
            role: String,
            content: String,
            /// Whether it continues the message before it.
            delta: bool,
        }
        /// The model calls a tool.
        "TOOL_USE" => ToolUse {
            tool_name: String,
            call_id: String,
            params: JsonObject,
        }
        /// A call waits for the host's `approve`.
        "APPROVAL" => Approval {
            call_id: String,
            tool_name: String,
            subject: Subject,
            why: Why,
            /// The outcomes that `approve` may choose; `cancel` is always possible.
            offers: Vec<Offer>,
            /// Data that would be lost permanently.
            destroys: Option<String>,
            /// Answered by `replies`, one for each.
            questions: Option<Vec<Question>>,
        }
        /// A call no longer waits.
        "APPROVAL_SETTLED" => ApprovalSettled {
            call_id: String,
            outcome: String,
            /// The front end that answered, if one did.
            by: Option<String>,
        }
        /// With `--include-partial`: a call runs now.
        "CALL_STARTED" => CallStarted {
            call_id: String,
        }
        /// With `--include-partial`: output of a running call.
        "CALL_OUTPUT" => CallOutput {
            call_id: String,
            text: String,
            /// Bytes omitted before this text because the host was too slow.
            skipped: Option<u64>,
        }
        /// The model calls a tool of the host, which answers with `tool_result`.
        "HOST_CALL" => HostCall {
            call_id: String,
            name: String,
            args: JsonObject,
        }
        /// A call has ended.
        "TOOL_RESULT" => ToolResult {
            call_id: String,
            /// `success` or `error`.
            status: String,
            result: Option<String>,
            error: Option<String>,
            sandbox: Option<Value>,
        }
        /// The result of a `call` as the model would read it. `TOOL_RESULT` comes before it.
        "CALL_RESULT" => CallResult {
            call_id: String,
            /// `success`, `error` or `cancelled`.
            status: String,
            output: String,
        }
        /// Something a sub-agent does.
        "SUBAGENT_ACTIVITY" => SubagentActivity {
            call_id: String,
            agent_name: String,
            activity: String,
            data: Value,
        }
        /// The approval mode.
        "MODE" => Mode {
            mode: String,
            /// The front end that asked for it; missing if the model did.
            by: Option<String>,
        }
        /// The model.
        "MODEL" => Model {
            model: String,
        }
        /// A message waits for the running turn.
        "QUEUED" => Queued {
            id: Option<String>,
            /// From 1.
            position: u64,
        }
        /// The turn was cancelled; its `RESULT` follows.
        "CANCELLED" => Cancelled {
            id: Option<String>,
        }
        /// A prompt and everything after it were removed.
        "REWOUND" => Rewound {
            to: String,
        }
        /// The conversation was compressed, or it was tried.
        "COMPRESSED" => Compressed {
            /// Whether the conversation is shorter now.
            success: bool,
            tokens_before: u64,
            tokens_after: u64,
        }
        /// The answer to `describe`.
        "DESCRIPTION" => Description {
            model: String,
            /// The model that `model` stands for.
            resolved_model: String,
            mode: String,
            /// Size of the next request, as far as it is known.
            tokens: u64,
            /// The model's context window; 0 if unknown.
            window: u64,
            /// The prompts that `rewind` can name.
            prompts: Vec<PromptInfo>,
            /// The names of the tools that the model can call.
            tools: Vec<String>,
            /// If `describe` asked for them.
            declarations: Option<Vec<ToolInfo>>,
        }
        /// A failure, a retry or a message that could not be used. The session continues unless `RESULT` follows.
        "ERROR" => Error {
            message: String,
            code: String,
            /// The `id` of the message that it is about.
            id: Option<String>,
        }
        /// The end of a turn or a command.
        "RESULT" => RunResult {
            success: bool,
            /// Counts of this turn.
            stats: Value,
            error: Option<Value>,
        }
    }
}

object! {
    /// A tool as it is declared to the model.
    ToolInfo {
        name: String,
        title: String,
        description: String,
        /// JSON schema of the arguments.
        parameters: Value,
        /// `read`, `search`, `edit`, `execute` and so on.
        kind: String,
    }
}

object! {
    /// A slash command.
    CommandInfo {
        name: String,
        description: String,
    }
}

object! {
    /// What an approval is about. Which fields there are depends on `kind`.
    Subject {
        /// `edit`, `command`, `fetch`, `server`, `enter_plan`, `plan`, `questions`, `sandbox` or `other`.
        kind: String,
        path: Option<String>,
        /// Unified diff.
        diff: Option<String>,
        command: Option<String>,
        directory: Option<String>,
        urls: Option<Vec<String>>,
        server: Option<String>,
        tool: Option<String>,
        text: Option<String>,
        /// For `sandbox`: the right that a command needs.
        right: Option<Right>,
    }
}

object! {
    /// A right of a sandboxed command.
    Right {
        /// `write`, `read`, `host`, `port` or `socket`.
        kind: String,
        /// A real path, `host:port` or a port.
        target: String,
        /// The program that was refused, if that is known.
        program: Option<String>,
        /// The tool call that runs the command; `callId` of the event is that of the question.
        call_id: Option<String>,
        /// Whether the command runs again with the right; otherwise it waits.
        rerun: bool,
    }
}

object! {
    /// Why approval is required.
    Why {
        reason: String,
        /// The rule that requires it, with its file and line.
        rule: Option<String>,
        /// For commands: each part and its decision.
        parts: Option<Vec<WhyPart>>,
    }
}

object! {
    /// One command of a command line.
    WhyPart {
        text: String,
        /// `allow`, `ask` or `deny`.
        decision: String,
        reason: String,
    }
}

object! {
    /// An answer that is offered.
    Offer {
        outcome: String,
        /// What would be allowed from then on; empty if only this call.
        covers: String,
    }
}

object! {
    /// A question to the person.
    Question {
        header: String,
        text: String,
        /// `text`, `yes_no`, `choice` or `choices`.
        form: String,
        options: Option<Vec<QuestionOption>>,
    }
}

object! {
    /// Something to choose.
    QuestionOption {
        label: String,
        description: String,
    }
}

object! {
    /// A prompt that can be rewound to.
    PromptInfo {
        id: String,
        text: String,
    }
}
