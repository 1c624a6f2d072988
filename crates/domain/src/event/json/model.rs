//! Rows of what models say and hear.

use serde_json::Value;

use super::{Fields, Json, MalformedEvent, fields, variants, words};
use crate::JsonObject;
use crate::content::{Blob, Body, Content, FunctionCall, FunctionResponse, Part, Role};
use crate::model::{Finish, FinishReason, ModelError, ModelErrorKind, RequestRole, Usage, Wait};

variants! {
    Body {
        Text(text),
        Thought(text),
        Call(call),
        Response(response),
        InlineData(blob),
        FileData { mime_type, uri },
        Other(fields),
    }
    FinishReason {
        Stop, MaxTokens, Safety, Recitation, MalformedFunctionCall, UnexpectedToolCall, Unspecified, Named(word)
    }
}

fields! {
    Content { role, parts }
    Part { body, thought_signature, extra }
    FunctionCall { id, name, args }
    FunctionResponse { id, name, response, parts }
    Blob { mime_type, data_base64 }
    Wait { attempt, max_attempts, delay, cause, status }
    Finish { reason, message }
    Usage { prompt, candidates, cached, thoughts, tool, total }
    ModelError { kind, status, message }
}

words! {
    Role { User, Model }
    RequestRole { Main, Subagent, Compressor, Summarizer, Router, LoopDetector, Tool }
    ModelErrorKind {
        Auth, BadRequest, NotFound, RateLimited, QuotaExhausted, Server, Network, Cut, Malformed, Script
    }
}
