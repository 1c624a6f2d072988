use super::*;
use serde_json::json;

fn read(status: u16, body: &str) -> Failure {
    let body = body.as_bytes();
    refused(&Refusal { status, reason: "Reason", body, retry_after: None, should_retry: None }, false)
}

fn kind(status: u16, body: &Value) -> ModelErrorKind {
    read(status, &body.to_string()).error.kind
}

#[test]
fn the_message_is_found_in_every_form() {
    let cases = [
        (json!({"error": {"message": "x", "type": "invalid_request_error"}}).to_string(), "x"),
        (json!({"error": "x"}).to_string(), "x"),
        (json!({"object": "error", "message": "x", "code": 400}).to_string(), "x"),
        (
            json!({"type": "error", "error": {"type": "api_error", "message": "x"}, "request_id": "r"})
                .to_string(),
            "x",
        ),
        (json!({"detail": [{"msg": "x"}, {"msg": "y", "loc": ["body"]}]}).to_string(), "x; y"),
        (json!({"detail": "x"}).to_string(), "x"),
        (json!({"message": "x"}).to_string(), "x"),
        (json!([{"error": {"message": "x"}}]).to_string(), "x"),
        (json!({"error": {"message": "400 {\"error\":{\"message\":\"x\"}}"}}).to_string(), "x"),
        (
            json!({"error": {"message": "Provider returned error", "metadata": {"raw": "x"}}}).to_string(),
            "Provider returned error: x",
        ),
        ("x \n".to_owned(), "x"),
        (
            "<html><title>Bad gateway</title>".to_owned(),
            "the server sent a web page instead of an API error: Bad gateway",
        ),
    ];
    for (body, message) in cases {
        assert_eq!(read(422, &body).error.message, message, "{body}");
    }
    assert_eq!(read(418, "").error.message, "the server responded with 418 Reason");
    assert!(read(500, &"ü".repeat(100_000)).error.message.chars().count() <= 4001);
}

#[test]
fn words_and_statuses_say_what_kind_it_is() {
    let error = |fields: Value| json!({"error": fields});
    let cases = [
        (401, error(json!({"message": "x", "code": "invalid_api_key"})), ModelErrorKind::Auth),
        (402, error(json!({"message": "x"})), ModelErrorKind::Billing),
        (429, error(json!({"message": "x", "code": "insufficient_quota"})), ModelErrorKind::Billing),
        (
            400,
            error(json!({"message": "x", "details": {"error_code": "enforced_spend_limit_reached"}})),
            ModelErrorKind::Billing,
        ),
        (404, error(json!({"message": "x", "code": "model_not_found"})), ModelErrorKind::NotFound),
        (409, error(json!({"message": "x", "type": "conflict_error"})), ModelErrorKind::Server),
        (429, error(json!({"message": "x"})), ModelErrorKind::RateLimited),
        (500, error(json!({"message": "The engine is overloaded"})), ModelErrorKind::Overloaded),
        (529, error(json!({"message": "x"})), ModelErrorKind::Overloaded),
        (
            503,
            error(json!({"message": "Loading model", "type": "unavailable_error", "code": 503})),
            ModelErrorKind::Loading,
        ),
        (503, error(json!({"message": "down"})), ModelErrorKind::Server),
        (400, error(json!({"message": "x", "code": "content_filter"})), ModelErrorKind::PolicyBlocked),
        (400, error(json!({"message": "x"})), ModelErrorKind::BadRequest),
    ];
    for (status, body, expected) in cases {
        assert_eq!(kind(status, &body), expected, "{body}");
    }
    assert!(matches!(read(503, r#"{"error":{"message":"Loading model"}}"#).retry, Retry::WhileLoading));
}

#[test]
fn an_overflow_is_known_in_many_words_and_says_its_numbers() {
    let cases = [
        ("prompt is too long: 210000 tokens > 200000 maximum", Some(210_000), Some(200_000)),
        ("request_too_large", None, None),
        ("Input is too long for requested model.", None, None),
        ("Your input exceeds the context window of this model", None, None),
        (
            "This model's maximum context length is 128000 tokens. However, your messages resulted in 130001 tokens.",
            Some(130_001),
            Some(128_000),
        ),
        (
            "The input token count (1,200,000) exceeds the maximum number of tokens allowed (1,048,576).",
            Some(1_200_000),
            Some(1_048_576),
        ),
        (
            "This model's maximum prompt length is 131072 but the request contains 537812 tokens.",
            Some(537_812),
            Some(131_072),
        ),
        ("Please reduce the length of the messages or completion.", None, None),
        (
            "request (6031 tokens) exceeds the available context size (4096 tokens), try increasing it",
            Some(6031),
            Some(4096),
        ),
        ("the number of tokens is greater than the context length", None, None),
        ("invalid params, context window exceeds limit", None, None),
        ("Your request exceeded model token limit: 262144", None, Some(262_144)),
        ("context_length_exceeded", None, None),
        ("the context length is only 4096 tokens", None, Some(4096)),
        ("Prompt is too large for model with 32768 maximum context length", None, Some(32_768)),
        ("the configured context size is 8192", None, Some(8192)),
        ("model_context_window_exceeded", None, None),
        ("token limit exceeded for gpt-4-32000", None, None),
    ];
    for (message, asked, limit) in cases {
        let expected = ModelErrorKind::ContextOverflow { asked, limit };
        assert_eq!(kind(400, &json!({"error": {"message": message}})), expected, "{message}");
    }
    let fields = json!({"error": {"code": 400, "message": "x", "type": "exceed_context_size_error", "n_prompt_tokens": 6031, "n_ctx": 4096}});
    assert_eq!(kind(400, &fields), ModelErrorKind::ContextOverflow { asked: Some(6031), limit: Some(4096) });
    let unknown = ModelErrorKind::ContextOverflow { asked: None, limit: None };
    assert_eq!(read(413, "<html>").error.kind, unknown);
    assert_eq!(read(400, "").error.kind, unknown);
    for other in ["rate limit: maximum context length per minute", "Too many requests, token limit exceeded"]
    {
        assert_eq!(kind(429, &json!({"error": {"message": other}})), ModelErrorKind::RateLimited, "{other}");
    }
}

#[test]
fn a_parameter_that_is_not_known_is_named() {
    let cases = [
        (
            json!({"error": {"message": "Unsupported parameter: 'max_tokens' is not supported with this model. Use 'max_completion_tokens' instead.",
            "param": "max_tokens", "code": "unsupported_parameter"}}),
            Some("max_tokens"),
        ),
        (
            json!({"error": {"message": "Unsupported parameter: 'max_tokens' is not supported. Use 'max_completion_tokens'."}}),
            Some("max_tokens"),
        ),
        (
            json!({"error": {"message": "Unsupported value: 'temperature' does not support 0 with this model.", "param": "temperature"}}),
            Some("temperature"),
        ),
        (json!({"error": {"message": "property 'store' is unsupported"}}), Some("store")),
        (
            json!({"detail": [{"type": "extra_forbidden", "loc": ["body", "stream_options"], "msg": "Extra inputs are not permitted"}]}),
            Some("stream_options"),
        ),
        (
            json!({"error": {"message": "Unknown parameter: 'tools[0].function.strict'.", "param": "tools[0].function.strict"}}),
            Some("strict"),
        ),
        (json!({"error": {"message": "max_tokens is too large: 99999. At most 16384 are possible."}}), None),
        (json!({"error": {"message": "unknown role"}}), None),
    ];
    for (body, param) in cases {
        let expected = param
            .map_or(ModelErrorKind::BadRequest, |param| ModelErrorKind::Unsupported { param: param.into() });
        assert_eq!(kind(400, &body), expected, "{body}");
    }
}

#[test]
fn the_servers_wishes_about_time_are_kept() {
    let body = r#"{"error":{"message":"Rate limit reached. Please try again in 1.5s. Visit x","code":"rate_limit_exceeded"}}"#;
    let wish = |status, retry_after: Option<u64>, should_retry| {
        let retry_after = retry_after.map(Duration::from_millis);
        let refusal = Refusal { status, reason: "", body: body.as_bytes(), retry_after, should_retry };
        refused(&refusal, false)
    };
    let after = |millis| Retry::After { cause: Cause::Throttled, hint: Some(Duration::from_millis(millis)) };
    assert_eq!(wish(429, None, None).retry, after(1500));
    assert_eq!(wish(429, Some(250), None).retry, after(250));
    let long = wish(429, Some(3_600_000), None);
    assert_eq!((long.error.kind, long.retry), (ModelErrorKind::QuotaExhausted, Retry::Never));
    assert!(long.error.message.contains("60 minutes"), "{}", long.error.message);
    assert_eq!(wish(500, None, Some(false)).retry, Retry::Never);
    assert!(matches!(wish(400, None, Some(true)).retry, Retry::After { .. }));
    let local =
        refused(&Refusal { status: 500, reason: "", body: b"", retry_after: None, should_retry: None }, true);
    assert_eq!(local.retry, Retry::AtMost { cause: Cause::Transient, attempts: 2 });
}

#[test]
fn errors_inside_a_reply_are_told_from_pieces_of_it() {
    let found =
        |value: Value| in_reply(&value, false).map(|failure| (failure.error.kind, failure.error.message));
    let server = |message: &str| Some((ModelErrorKind::Server, message.to_owned()));
    assert_eq!(found(json!({"error": {"message": "x", "code": "server_error"}})), server("x"));
    assert_eq!(found(json!({"object": "error", "message": "boom", "code": 500})), server("boom"));
    assert_eq!(found(json!({"error": "text"})), server("text"));
    assert_eq!(
        found(json!({"type": "error", "error": {"type": "overloaded_error", "message": "busy"}})),
        Some((ModelErrorKind::Overloaded, "busy".to_owned()))
    );
    assert_eq!(found(json!({"choices": [], "error": null})), None);
    assert_eq!(found(json!({"choices": [], "error": ""})), None);
    assert_eq!(found(json!({"message": "x"})), None);
    let limited =
        in_reply(&json!({"error": {"code": "rate_limit_exceeded", "message": "try again in 28ms"}}), false)
            .unwrap();
    assert_eq!(limited.error.details.retry_after, Some(Duration::from_millis(28)));
    assert_eq!(limited.error.details.code.as_deref(), Some("rate_limit_exceeded"));
}

#[test]
fn refused_reasoning_is_known_by_its_texts() {
    let refuses =
        |message: &str| refuses_seals(&ModelError::new(ModelErrorKind::BadRequest, Some(400), message));
    assert!(refuses(
        "Invalid `signature` in `thinking` block. The block is bound to a different conversation"
    ));
    assert!(refuses(
        "Item with id 'rs_abc' not found. Items are not persisted when `store` is set to false."
    ));
    assert!(refuses(
        "Item 'fc_1' of type 'function_call' was provided without its required 'reasoning' item: 'rs_1'."
    ));
    assert!(refuses("The encrypted content could not be verified."));
    assert!(!refuses("Item with id 'fc_1' not found"));
}
