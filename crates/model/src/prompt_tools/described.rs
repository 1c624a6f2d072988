//! Replies that describe a call and make none, which shows that the model does not know how to make one here.

use std::sync::Arc;

use pollux_domain::content::{Body, Content, Role};
use pollux_domain::tool::ToolSpec;

use super::calls;

/// So many in a row show that it is no accident.
const IN_A_ROW: usize = 2;

/// Whether the last replies of a conversation only describe calls.
pub(super) fn only_describes(contents: &[Arc<Content>], tools: &[Arc<ToolSpec>]) -> bool {
    let replies = contents.iter().rev().filter(|content| content.role == Role::Model);
    replies.take(IN_A_ROW).filter(|reply| describes_call(reply, tools)).count() == IN_A_ROW
}

fn describes_call(reply: &Content, tools: &[Arc<ToolSpec>]) -> bool {
    let mut text = String::new();
    for part in &reply.parts {
        match &part.body {
            Body::Call(_) => return false,
            Body::Text(said) => text.push_str(said),
            _ => {}
        }
    }
    let is_call = |text: &str| {
        let found = calls::read(text.trim(), tools);
        !found.is_empty() && found.iter().all(|call| call.bad_args.is_none())
    };
    is_call(&text) || fenced(&text).any(is_call)
}

/// What stands in fenced blocks, without the word behind the fence.
fn fenced(text: &str) -> impl Iterator<Item = &str> {
    text.split("```").skip(1).step_by(2).map(|block| {
        let (first, rest) = block.split_once('\n').unwrap_or(("", block));
        if first.trim().chars().all(|letter| letter.is_alphanumeric() || letter == '_') {
            rest
        } else {
            block
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use pollux_domain::content::{FunctionCall, Part};
    use pollux_domain::tool::ToolKind;
    use serde_json::json;

    fn replies(texts: &[&str]) -> bool {
        let tool = ToolSpec {
            name: "read_file".into(),
            display_name: String::new(),
            description: String::new(),
            kind: ToolKind::Read,
            parameters: json!({"required": ["path"], "properties": {"path": {"type": "string"}}}),
            output_is_markdown: false,
            offloads_long_output: false,
        };
        let turns = texts.iter().flat_map(|text| {
            let part = match *text {
                "CALL" => Part::call(FunctionCall::new(None, "read_file", Default::default())),
                text => Part::text(text),
            };
            [Arc::new(Content::user_text("go on")), Arc::new(Content::model(vec![part]))]
        });
        only_describes(&turns.collect::<Vec<_>>(), &[Arc::new(tool)])
    }

    #[test]
    fn two_described_calls_in_a_row_are_noticed_and_prose_is_not() {
        let bare = r#"{"name": "read_file", "arguments": {"path": "a"}}"#;
        let fenced = &format!("I would call this:\n```json\n{bare}\n```\nand then see.");
        assert!(replies(&[fenced, bare]));
        assert!(replies(&["hello", bare, fenced]));
        assert!(!replies(&[fenced]));
        assert!(!replies(&[bare, "done"]) && !replies(&[bare, "CALL"]) && !replies(&[bare, bare, "thanks"]));
        let prose = "```json\n{\"name\": \"pollux\"}\n```";
        assert!(!replies(&[prose, prose]));
    }
}
