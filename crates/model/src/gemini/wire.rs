//! Request bodies of the API.

use pollux_domain::JsonObject;
use pollux_domain::content::Content;
use pollux_domain::model::{Grounding, ModelRequest, ToolChoice};
use pollux_domain::tool::ToolSpec;
use serde::Serialize;
use serde_json::{Value, json};

use super::history::{Turn, hygiene};

/// Settings that only mean something inside the SDK whose vocabulary the settings use.
const NOT_SENT: &[&str] = &["httpOptions", "abortSignal", "systemInstruction", "automaticFunctionCalling"];

/// `generateContent` and `streamGenerateContent`. The order of the fields is the order on the wire.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct GenerateBody<'a> {
    contents: Vec<Turn<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    system_instruction: Option<SystemInstruction<'a>>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    tools: Vec<ToolEntry<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    tool_config: Option<Value>,
    #[serde(skip_serializing_if = "Option::is_none")]
    safety_settings: Option<Value>,
    #[serde(skip_serializing_if = "Option::is_none")]
    cached_content: Option<Value>,
    #[serde(skip_serializing_if = "Option::is_none")]
    labels: Option<Value>,
    #[serde(skip_serializing_if = "JsonObject::is_empty")]
    generation_config: JsonObject,
}

/// `countTokens`.
#[derive(Debug, Serialize)]
pub(crate) struct CountBody<'a> {
    contents: Vec<Turn<'a>>,
}

#[derive(Debug, Serialize)]
struct SystemInstruction<'a> {
    role: &'static str,
    parts: [TextPart<'a>; 1],
}

#[derive(Debug, Serialize)]
struct TextPart<'a> {
    text: &'a str,
}

#[derive(Debug, Serialize)]
#[serde(untagged)]
enum ToolEntry<'a> {
    Functions {
        #[serde(rename = "functionDeclarations")]
        declarations: Vec<Declaration<'a>>,
    },
    /// A tool of the server's own, such as `{"googleSearch": {}}`.
    Other(Value),
}

#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct Declaration<'a> {
    name: &'a str,
    description: &'a str,
    parameters_json_schema: &'a Value,
}

impl<'a> GenerateBody<'a> {
    /// `settings` are the model's own generation settings with the request's over them.
    pub(crate) fn new(request: &'a ModelRequest, mut settings: JsonObject, nested_media: bool) -> Self {
        let mut tools = Vec::new();
        let offered = request.tools.iter().filter(|tool| is_offered(tool, request));
        let declarations: Vec<_> = offered.map(|tool| Declaration::new(tool)).collect();
        if !declarations.is_empty() {
            tools.push(ToolEntry::Functions { declarations });
        }
        if let Some(Value::Array(more)) = settings.shift_remove("tools") {
            tools.extend(more.into_iter().map(ToolEntry::Other));
        }
        if let Some(entry) = grounding_entry(request.grounding, &tools) {
            tools.push(entry);
        }
        for key in NOT_SENT {
            settings.shift_remove(*key);
        }
        let system = request.system.as_deref().filter(|system| !system.is_empty());
        Self {
            contents: hygiene(contents(request), nested_media),
            system_instruction: system
                .map(|text| SystemInstruction { role: "user", parts: [TextPart { text }] }),
            tools,
            tool_config: settings.shift_remove("toolConfig"),
            safety_settings: settings.shift_remove("safetySettings"),
            cached_content: settings.shift_remove("cachedContent"),
            labels: settings.shift_remove("labels"),
            generation_config: settings,
        }
    }
}

impl<'a> CountBody<'a> {
    pub(crate) fn new(request: &'a ModelRequest, nested_media: bool) -> Self {
        Self { contents: hygiene(contents(request), nested_media) }
    }
}

impl<'a> Declaration<'a> {
    fn new(tool: &'a ToolSpec) -> Self {
        Self { name: &tool.name, description: &tool.description, parameters_json_schema: &tool.parameters }
    }
}

/// A model that may choose cannot be given names; what is not allowed is not declared to it.
fn is_offered(tool: &ToolSpec, request: &ModelRequest) -> bool {
    match request.settings.tool_choice.value() {
        Some(ToolChoice::Allowed { names, required: false }) => names.contains(&tool.name),
        _ => true,
    }
}

/// The server's own tool, unless the model's settings name it already, as those of upstream's aliases do.
fn grounding_entry(grounding: Grounding, present: &[ToolEntry<'_>]) -> Option<ToolEntry<'static>> {
    let key = match grounding {
        Grounding::None => return None,
        Grounding::Search => "googleSearch",
        Grounding::UrlContext => "urlContext",
    };
    let named = |entry: &ToolEntry<'_>| matches!(entry, ToolEntry::Other(value) if value.get(key).is_some());
    (!present.iter().any(named)).then(|| ToolEntry::Other(json!({key: {}})))
}

fn contents(request: &ModelRequest) -> impl Iterator<Item = &Content> {
    request.contents.iter().map(AsRef::as_ref)
}

#[cfg(test)]
mod tests {
    use super::*;
    use pollux_domain::model::{RequestRole, Setting};
    use pollux_domain::tool::ToolKind;
    use std::sync::Arc;

    fn request() -> ModelRequest {
        let tool = ToolSpec {
            name: "read_file".into(),
            display_name: "ReadFile".into(),
            description: "Reads.".into(),
            kind: ToolKind::Read,
            parameters: json!({"type": "object"}),
            output_is_markdown: false,
            offloads_long_output: false,
        };
        ModelRequest {
            model: "gemini-2.5-pro".into(),
            chosen_by: Default::default(),
            role: RequestRole::Main,
            system: Some("Be kind.".into()),
            contents: vec![Arc::new(Content::user_text("context")), Arc::new(Content::user_text("prompt"))],
            tools: Arc::new([Arc::new(tool)]),
            settings: Default::default(),
            grounding: Grounding::None,
        }
    }

    fn object(value: Value) -> JsonObject {
        value.as_object().unwrap().clone()
    }

    #[test]
    fn the_body_is_the_one_upstream_sends_byte_for_byte() {
        let settings = object(json!({
            "temperature": 1, "topP": 0.95, "topK": 64,
            "thinkingConfig": {"includeThoughts": true, "thinkingBudget": 8192}
        }));
        let expected = concat!(
            r#"{"contents":[{"role":"user","parts":[{"text":"context"},{"text":"prompt"}]}],"#,
            r#""systemInstruction":{"role":"user","parts":[{"text":"Be kind."}]},"#,
            r#""tools":[{"functionDeclarations":[{"name":"read_file","description":"Reads.","#,
            r#""parametersJsonSchema":{"type":"object"}}]}],"#,
            r#""generationConfig":{"temperature":1,"topP":0.95,"topK":64,"#,
            r#""thinkingConfig":{"includeThoughts":true,"thinkingBudget":8192}}}"#,
        );
        assert_eq!(serde_json::to_string(&GenerateBody::new(&request(), settings, false)).unwrap(), expected);
    }

    #[test]
    fn what_is_empty_is_left_out() {
        let request = ModelRequest { system: Some("".into()), tools: Arc::new([]), ..request() };
        let body = serde_json::to_value(GenerateBody::new(&request, JsonObject::new(), false)).unwrap();
        assert_eq!(body.as_object().unwrap().keys().collect::<Vec<_>>(), ["contents"]);
    }

    #[test]
    fn settings_of_the_request_itself_leave_the_generation_config() {
        let settings = object(json!({
            "temperature": 0, "tools": [{"googleSearch": {}}], "safetySettings": [1], "cachedContent": "c",
            "labels": {"a": "b"}, "toolConfig": {"functionCallingConfig": {"mode": "ANY"}}, "httpOptions": {}
        }));
        let body = serde_json::to_value(GenerateBody::new(&request(), settings, false)).unwrap();
        assert_eq!(body["generationConfig"], json!({"temperature": 0}));
        assert_eq!(body["tools"][1], json!({"googleSearch": {}}));
        assert_eq!(body["toolConfig"]["functionCallingConfig"]["mode"], "ANY");
        assert_eq!(body["safetySettings"], json!([1]));
        assert_eq!(body["cachedContent"], "c");
        assert_eq!(body["labels"], json!({"a": "b"}));
    }

    #[test]
    fn tools_that_are_not_allowed_are_not_declared_where_the_model_may_choose() {
        let declared = |names: &[&str], required| {
            let names = names.iter().map(|name| (*name).to_owned()).collect();
            let mut request = request();
            request.settings.tool_choice = Setting::Set(ToolChoice::Allowed { names, required });
            let body = GenerateBody::new(&request, JsonObject::new(), false);
            serde_json::to_value(body).unwrap().get("tools").is_some()
        };
        assert!(declared(&["read_file"], false));
        assert!(!declared(&["other"], false));
        assert!(declared(&["other"], true));
    }

    #[test]
    fn grounding_adds_the_servers_tool_once() {
        let tools = |grounding, settings: Value| {
            let request = ModelRequest { tools: Arc::new([]), grounding, ..request() };
            let body = GenerateBody::new(&request, object(settings), false);
            serde_json::to_value(body).unwrap()["tools"].clone()
        };
        assert_eq!(tools(Grounding::Search, json!({})), json!([{"googleSearch": {}}]));
        assert_eq!(tools(Grounding::UrlContext, json!({})), json!([{"urlContext": {}}]));
        let given = json!({"tools": [{"urlContext": {}}]});
        assert_eq!(tools(Grounding::UrlContext, given), json!([{"urlContext": {}}]));
        assert_eq!(tools(Grounding::None, json!({})), Value::Null);
    }
}
