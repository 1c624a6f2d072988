//! MCP servers inside of the client: their messages travel in `mcp/message` requests.

use pollux_host::request::ClientLink;
use serde_json::{Map, Value, json};

use crate::client::Client;

/// The ways to the servers of type `acp` that a client names.
pub(crate) fn links(client: &Client, params: &Value) -> Vec<(String, ClientLink)> {
    let servers = params.get("mcpServers").and_then(Value::as_array).into_iter().flatten();
    let of_client = servers.filter(|server| server.get("type").and_then(Value::as_str) == Some("acp"));
    of_client
        .filter_map(|server| {
            let text = |key: &str| server.get(key).and_then(Value::as_str).map(str::to_owned);
            Some((text("name")?, link(client, text("serverId")?)))
        })
        .collect()
}

fn link(client: &Client, server: String) -> ClientLink {
    let client = client.clone();
    ClientLink::new(move |message| {
        let (Some(id), Some(method)) = (message.get("id").cloned(), message.get("method").cloned()) else {
            // The protocol carries no notifications in this direction.
            return Box::pin(std::future::ready(Ok(Value::Null)));
        };
        let request = id.as_str().map_or_else(|| id.to_string(), str::to_owned);
        let mut params = json!({"serverId": server, "requestId": request, "method": method});
        if let (Some(fields), Some(given)) = (params.as_object_mut(), message.get("params")) {
            fields.insert("params".to_owned(), given.clone());
        }
        let asked = client.request("mcp/message", params);
        Box::pin(async move {
            let answer = asked.await.map_err(|error| {
                error.get("message").and_then(Value::as_str).unwrap_or("the client failed").to_owned()
            })?;
            let mut response = Map::from_iter([("jsonrpc".to_owned(), json!("2.0")), ("id".to_owned(), id)]);
            match (answer.get("result"), answer.get("error")) {
                (Some(result), _) => response.insert("result".to_owned(), result.clone()),
                (None, Some(error)) => response.insert("error".to_owned(), error.clone()),
                (None, None) => return Err("the client's answer has neither result nor error".to_owned()),
            };
            Ok(Value::Object(response))
        })
    })
}
