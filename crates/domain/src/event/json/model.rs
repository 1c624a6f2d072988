//! Rows of what models say and hear.

use serde_json::Value;

use super::{Fields, Json, MalformedEvent, fields, variants, words};
use crate::JsonObject;
use crate::content::{
    BadArgs, Blob, Body, Content, FunctionCall, FunctionResponse, Part, Role, Seal, SealKind,
};
use crate::model::{
    ErrorDetails, Finish, FinishReason, ModelError, ModelErrorKind, Origin, Refusal, RequestRole, Usage, Wait,
};

variants! {
    Body {
        Text(text),
        Reasoning { text, summary, seal },
        Call(call),
        Response(response),
        InlineData(blob),
        FileData { mime_type, uri },
        Other(fields),
    }
    FinishReason {
        Stop,
        ToolCalls,
        StopSequence,
        MaxTokens,
        ContextWindow,
        Safety,
        ContentFilter,
        Refusal(refusal),
        Recitation,
        MalformedFunctionCall,
        UnexpectedToolCall,
        Paused,
        Unspecified,
        Named(word),
    }
    ModelErrorKind {
        Auth,
        BadRequest,
        ContextOverflow { asked, limit },
        Unsupported { param },
        PolicyBlocked,
        NotFound,
        RateLimited,
        QuotaExhausted,
        Billing,
        BudgetExceeded,
        Server,
        Overloaded,
        Loading,
        Network,
        Cut,
        Malformed,
        Script,
    }
}

fields! {
    Content { role, parts, origin }
    Origin { provider, dialect, host, model, response_id, phase }
    Part { body, seal, extra }
    Seal { kind, data }
    FunctionCall { id, name, args, bad_args }
    BadArgs { raw, error }
    FunctionResponse { id, name, response, parts }
    Blob { mime_type, data_base64 }
    Wait { attempt, max_attempts, delay, cause, status, kind }
    Finish { reason, message }
    Refusal { category, text }
    Usage {
        input,
        output,
        cached,
        cache_write_short,
        cache_write_long,
        reasoning,
        tool_input,
        server_tool_calls,
        total,
        cost_reported,
        estimated,
    }
    ModelError { kind, status, message, details }
    ErrorDetails { provider, code, request_id, retry_after, exceeded, advice }
}

words! {
    Role { User, Model }
    RequestRole { Main, Subagent, Compressor, Summarizer, Router, LoopDetector, Tool }
    SealKind {
        GeminiSignature,
        AnthropicThinking,
        AnthropicRedacted,
        OpenAiReasoning,
        OpenAiCompaction,
        ReasoningContent,
        ReasoningDetails,
    }
}
