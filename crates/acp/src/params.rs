//! Reads the parameters of requests; what is wrong is named.

use std::path::PathBuf;

use serde_json::{Map, Value, json};

use pollux_front::rpc::RpcError;

/// A string that must be there.
pub(crate) fn text<'a>(params: &'a Value, field: &str) -> Result<&'a str, RpcError> {
    let found = params.get(field).and_then(Value::as_str);
    found.ok_or_else(|| RpcError::invalid_params(field, format!("`{field}` must be a string")))
}

/// A string that may be missing or null.
pub(crate) fn optional<'a>(params: &'a Value, field: &str) -> Result<Option<&'a str>, RpcError> {
    match params.get(field) {
        None | Some(Value::Null) => Ok(None),
        Some(_) => text(params, field).map(Some),
    }
}

/// A list that may be missing or null.
pub(crate) fn list<'a>(params: &'a Value, field: &str) -> Result<&'a [Value], RpcError> {
    match params.get(field) {
        None | Some(Value::Null) => Ok(&[]),
        Some(Value::Array(items)) => Ok(items),
        Some(_) => Err(RpcError::invalid_params(field, format!("`{field}` must be an array"))),
    }
}

/// The working directory: absolute, and there.
pub(crate) fn folder(params: &Value) -> Result<PathBuf, RpcError> {
    let given = text(params, "cwd")?;
    let path = PathBuf::from(given);
    let why = match (path.is_absolute(), path.is_dir()) {
        (false, _) => "must be an absolute path",
        (true, false) => "must be an existing directory",
        (true, true) => return Ok(path),
    };
    Err(RpcError::invalid_params("cwd", format!("`cwd` {why}: {given}")))
}

/// `additionalDirectories`: absolute paths.
pub(crate) fn directories(params: &Value) -> Result<Vec<String>, RpcError> {
    let field = "additionalDirectories";
    let directory = |item: &Value| match item.as_str() {
        Some(path) if path.starts_with('/') => Ok(path.to_owned()),
        _ => Err(RpcError::invalid_params(field, format!("`{field}` must contain absolute paths"))),
    };
    list(params, field)?.iter().map(directory).collect()
}

/// `systemPrompt`: instructions to append to the program's own.
pub(crate) fn instructions(params: &Value) -> Result<Option<String>, RpcError> {
    let field = "systemPrompt";
    let bad = |why: &str| RpcError::invalid_params(field, format!("`{field}` {why}"));
    let Some(prompt) = params.get(field).filter(|prompt| !prompt.is_null()) else { return Ok(None) };
    if prompt.get("mode").and_then(Value::as_str) != Some("append") {
        return Err(bad("can only be appended"));
    }
    let text = |block: &Value| match (block.get("type").and_then(Value::as_str), block.get("text")) {
        (Some("text"), Some(Value::String(text))) => Ok(text.clone()),
        _ => Err(bad("must contain text blocks")),
    };
    let texts: Vec<String> = list(prompt, "content")?.iter().map(text).collect::<Result<_, _>>()?;
    Ok(Some(texts.join("\n")).filter(|text| !text.trim().is_empty()))
}

/// `mcpServers`: names and entries as settings write them.
pub(crate) fn servers(params: &Value) -> Result<Vec<(String, Value)>, RpcError> {
    list(params, "mcpServers")?.iter().enumerate().map(|(index, server)| entry(server, index)).collect()
}

fn entry(server: &Value, index: usize) -> Result<(String, Value), RpcError> {
    let field = format!("mcpServers[{index}]");
    let bad = |why: &str| RpcError::invalid_params(&field, format!("`{field}` {why}"));
    let given = |name: &str| server.get(name).and_then(Value::as_str);
    let name = given("name").filter(|name| !name.trim().is_empty()).ok_or_else(|| bad("needs a `name`"))?;
    let pairs = |list: &str| -> Result<Map<String, Value>, RpcError> {
        let pair = |item: &Value| {
            let text = |key: &str| item.get(key).and_then(Value::as_str).map(str::to_owned);
            let pair = text("name").zip(text("value")).map(|(name, value)| (name, Value::from(value)));
            pair.ok_or_else(|| bad(&format!("has an item of `{list}` without `name` and `value`")))
        };
        let items = server.get(list).and_then(Value::as_array).into_iter().flatten();
        items.map(pair).collect()
    };
    let entry = match given("type") {
        Some(kind @ ("http" | "sse")) => {
            let url = given("url").ok_or_else(|| bad("needs a `url`"))?;
            json!({"type": kind, "url": url, "headers": pairs("headers")?})
        }
        None | Some("stdio") => {
            let command = given("command").ok_or_else(|| bad("needs a `command`"))?;
            let args = server.get("args").and_then(Value::as_array).cloned().unwrap_or_default();
            json!({"command": command, "args": args, "env": pairs("env")?})
        }
        Some("acp") => {
            let id = given("serverId").ok_or_else(|| bad("needs a `serverId`"))?;
            json!({"type": "acp", "serverId": id})
        }
        Some(other) => return Err(bad(&format!("has the unsupported type `{other}`"))),
    };
    Ok((name.to_owned(), entry))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn servers_are_read_as_settings_write_them() {
        let read = servers(&json!({"mcpServers": [
            {"name": "a", "command": "/bin/a", "args": ["-x"], "env": [{"name": "K", "value": "v"}]},
            {"type": "http", "name": "b", "url": "http://b", "headers": [{"name": "H", "value": "w"}]},
            {"type": "sse", "name": "c", "url": "http://c", "headers": []},
        ]}))
        .unwrap();
        assert_eq!(read[0].1, json!({"command": "/bin/a", "args": ["-x"], "env": {"K": "v"}}));
        assert_eq!(
            read[1],
            ("b".to_owned(), json!({"type": "http", "url": "http://b", "headers": {"H": "w"}}))
        );
        assert_eq!(read[2].1["type"], "sse");
        assert!(servers(&json!({})).unwrap().is_empty());
        for bad in
            [json!([{"name": ""}]), json!([{"name": "a"}]), json!([{"name": "a", "type": "acp"}]), json!(7)]
        {
            assert_eq!(servers(&json!({"mcpServers": bad})).unwrap_err().code, -32602);
        }
    }

    #[test]
    fn instructions_are_appended_or_refused() {
        let read = |prompt: Value| instructions(&json!({"systemPrompt": prompt}));
        let text = json!([{"type": "text", "text": "a"}, {"type": "text", "text": "b"}]);
        assert_eq!(read(json!({"mode": "append", "content": text})).unwrap().unwrap(), "a\nb");
        assert_eq!(read(Value::Null).unwrap(), None);
        assert!(read(json!({"mode": "override", "content": text})).is_err());
        assert!(read(json!({"mode": "append", "content": [{"type": "image"}]})).is_err());
    }

    #[test]
    fn folders_are_absolute() {
        assert_eq!(directories(&json!({"additionalDirectories": ["/a", "/b"]})).unwrap(), ["/a", "/b"]);
        assert!(directories(&json!({"additionalDirectories": ["a"]})).is_err());
        assert!(folder(&json!({"cwd": "."})).is_err() && folder(&json!({"cwd": "/"})).is_ok());
    }
}
