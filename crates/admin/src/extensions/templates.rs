//! What `pollux extensions new` begins with.

use serde_json::{Value, json};

pub(super) const NAMES: &[&str] =
    &["custom-commands", "exclude-tools", "hooks", "mcp-server", "policies", "skills", "themes-example"];

/// The files of a template, the manifest first; `None` for an unknown template.
pub(super) fn files(template: Option<&str>, name: &str) -> Option<Vec<(&'static str, String)>> {
    let manifest = |more: Value| {
        let mut all = json!({"name": name, "version": "1.0.0"});
        if let (Some(all), Value::Object(more)) = (all.as_object_mut(), more) {
            all.extend(more);
        }
        ("gemini-extension.json", format!("{all:#}\n"))
    };
    let text = |path: &'static str, text: &str| (path, text.replace("NAME", name));
    Some(match template {
        None => vec![manifest(json!({}))],
        Some("custom-commands") => vec![manifest(json!({})), text("commands/notes/summary.toml", SUMMARY)],
        Some("exclude-tools") => vec![manifest(json!({"excludeTools": ["run_shell_command(rm -rf)"]}))],
        Some("hooks") => {
            vec![manifest(json!({})), text("hooks/hooks.json", HOOKS), text("scripts/greet.sh", GREET)]
        }
        Some("mcp-server") => vec![
            manifest(json!({
                "contextFileName": "SERVER.md",
                "mcpServers": {
                    "dice": {"command": "python3", "args": ["${extensionPath}${/}server.py"], "cwd": "${extensionPath}"}
                },
            })),
            text("SERVER.md", SERVER_NOTES),
            text("server.py", SERVER),
        ],
        Some("policies") => vec![manifest(json!({})), text("policies/careful.toml", POLICY)],
        Some("skills") => vec![manifest(json!({})), text("skills/changelog/SKILL.md", SKILL)],
        Some("themes-example") => vec![manifest(json!({"themes": [theme()]}))],
        Some(_) => return None,
    })
}

const SUMMARY: &str = r#"description = "Sum up a file in five lines"
prompt = """
Read {{args}} and sum it up in at most five lines, for someone who has never seen it.
"""
"#;

const HOOKS: &str = r#"{
  "hooks": {
    "SessionStart": [
      {
        "hooks": [
          {
            "name": "greet",
            "type": "command",
            "command": "sh \"${extensionPath}/scripts/greet.sh\"",
            "timeout": 5000
          }
        ]
      }
    ]
  }
}
"#;

const GREET: &str = r#"#!/bin/sh
# The event comes on standard input; the answer is JSON on standard output.
echo '{"systemMessage": "NAME is here"}'
"#;

const SERVER_NOTES: &str =
    "When someone wants a random number, call the tool `roll` instead of making one up.\n";

const SERVER: &str = r#"#!/usr/bin/env python3
"""A server with one tool. It speaks MCP over its standard streams: one JSON message on each line."""

import json
import random
import sys

TOOL = {
    "name": "roll",
    "description": "Rolls a die.",
    "inputSchema": {
        "type": "object",
        "properties": {"sides": {"type": "integer", "minimum": 2, "description": "6 unless given"}},
    },
}


def answer(message):
    method = message.get("method")
    if method == "initialize":
        version = message["params"]["protocolVersion"]
        return {
            "protocolVersion": version,
            "capabilities": {"tools": {}},
            "serverInfo": {"name": "NAME", "version": "1.0.0"},
        }
    if method == "tools/list":
        return {"tools": [TOOL]}
    if method == "tools/call":
        sides = int(message["params"].get("arguments", {}).get("sides", 6))
        return {"content": [{"type": "text", "text": str(random.randint(1, max(2, sides)))}]}
    if method == "ping":
        return {}
    return None


for line in sys.stdin:
    message = json.loads(line)
    if "id" not in message:
        continue
    result = answer(message)
    reply = {"jsonrpc": "2.0", "id": message["id"]}
    if result is None:
        reply["error"] = {"code": -32601, "message": "there is no such method"}
    else:
        reply["result"] = result
    print(json.dumps(reply), flush=True)
"#;

const POLICY: &str = r#"# An extension's rules can deny and ask; they never allow anything.

[[rule]]
toolName = "run_shell_command"
commandPrefix = "git push"
decision = "ask_user"
priority = 200
"#;

const SKILL: &str = r#"---
name: changelog
description: Use when the user wants a changelog entry for what was changed since the last release.
---

1. Find the last tag with `git describe --tags --abbrev=0` and list the commits since then.
2. Leave out what no user notices.
3. Group the rest under Added, Changed, Fixed and Removed, one line each, in the words of a user.
4. Show the entry; write it to `CHANGELOG.md` only when asked.
"#;

fn theme() -> Value {
    json!({
        "name": "Harbour",
        "type": "custom",
        "background": {"primary": "#0f1b26", "diff": {"added": "#143a2a", "removed": "#40202a"}},
        "text": {"primary": "#d6e2ea", "secondary": "#8aa3b2", "link": "#6cb8e6", "accent": "#e6b86c"},
        "border": {"default": "#2b4254", "focused": "#6cb8e6"},
        "status": {"success": "#7ccf9b", "warning": "#e6b86c", "error": "#e67c8a"},
        "ui": {"comment": "#6f8796", "symbol": "#8aa3b2", "gradient": ["#6cb8e6", "#7ccf9b"]},
    })
}
