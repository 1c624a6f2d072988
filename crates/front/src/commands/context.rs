//! `/context`: what fills the context window.

use pollux_domain::content::{Body, Content, Part, Role};
use pollux_domain::event::ConversationView;
use pollux_domain::terminal_text::one_line;

use crate::Front;

/// Bytes of a token, roughly, in English and code.
const BYTES_PER_TOKEN: usize = 4;
/// How many of the largest results are named.
const LARGEST: usize = 3;

/// Sizes in bytes by what they are.
#[derive(Default)]
struct Share {
    environment: usize,
    prompts: usize,
    answers: usize,
    calls: usize,
    results: usize,
    media: usize,
    /// The tool of each result with its size.
    each_result: Vec<(String, usize)>,
}

impl Front<'_, '_> {
    /// `/context`
    pub(super) async fn context(&mut self, conversation: &mut pollux_host::Conversation) -> String {
        match self.view(conversation).await {
            Some(view) => page(&view),
            None => "The session has ended.".to_owned(),
        }
    }
}

fn page(view: &ConversationView) -> String {
    let share = Share::of(&view.contents);
    let tools = view
        .tools
        .iter()
        .map(|tool| tool.name.len() + tool.description.len() + tool.parameters.to_string().len());
    let percent = (view.tokens * 100).checked_div(view.window).unwrap_or_default().min(100);
    let mut lines = vec![format!(
        "Context of {}: {} of {} tokens ({percent}%)",
        one_line(&view.resolved_model),
        view.tokens,
        view.window
    )];
    let rows = [
        ("Tool declarations", tools.sum()),
        ("Environment and context files", share.environment),
        ("Your prompts", share.prompts),
        ("Answers and reasoning", share.answers),
        ("Tool calls", share.calls),
        ("Tool results", share.results),
        ("Images and other files", share.media),
    ];
    let rows = rows.map(|(name, bytes)| (name, bytes.div_ceil(BYTES_PER_TOKEN) as u64));
    // Nobody counts it apart, so it is what the others leave.
    let rest = view.tokens.saturating_sub(rows.iter().map(|(_, tokens)| tokens).sum());
    for (name, tokens) in [("System prompt and overhead", rest)].into_iter().chain(rows) {
        if tokens > 0 {
            lines.push(format!("  {name:<30} about {tokens} tokens"));
        }
    }
    let mut largest = share.each_result;
    largest.sort_by_key(|(_, bytes)| std::cmp::Reverse(*bytes));
    let largest = largest
        .iter()
        .take(LARGEST)
        .map(|(tool, bytes)| format!("{} ({})", one_line(tool), bytes.div_ceil(BYTES_PER_TOKEN)));
    let largest: Vec<String> = largest.collect();
    if !largest.is_empty() {
        lines.push(format!("Largest results: {}", largest.join(", ")));
    }
    lines.push("/compress replaces the conversation with a summary.".to_owned());
    lines.join("\n")
}

impl Share {
    fn of(contents: &[std::sync::Arc<Content>]) -> Self {
        let mut share = Self::default();
        for (turn, content) in contents.iter().enumerate() {
            for part in &content.parts {
                share.add(part, turn == 0, &content.role);
            }
        }
        share
    }

    fn add(&mut self, part: &Part, is_first: bool, role: &Role) {
        match &part.body {
            Body::Text(text) if is_first => self.environment += text.len(),
            Body::Text(text) if *role == Role::User => self.prompts += text.len(),
            Body::Text(text) | Body::Reasoning { text, .. } => self.answers += text.len(),
            Body::Call(call) => {
                let args = serde_json::to_string(&call.args).map_or(0, |args| args.len());
                self.calls += call.name.len() + args;
            }
            Body::Response(response) => {
                let bytes = serde_json::to_string(&*response.response).map_or(0, |fields| fields.len());
                self.results += bytes;
                self.each_result.push((response.name.clone(), bytes));
                response.parts.iter().for_each(|part| self.add(part, false, role));
            }
            Body::InlineData(blob) => self.media += blob.data_base64.len(),
            Body::FileData { .. } | Body::Other(_) => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;

    #[test]
    fn sizes_are_summed_by_what_they_are() {
        let contents = vec![
            Arc::new(Content::user_text("e".repeat(400))),
            Arc::new(Content::user_text("p".repeat(40))),
            Arc::new(Content::new(Role::Model, vec![Part::text("a".repeat(80))])),
        ];
        let view = ConversationView {
            contents,
            prompts: Vec::new(),
            summary: None,
            tools: Vec::new(),
            model: "auto".to_owned(),
            resolved_model: "gemini-x".to_owned(),
            tokens: 2_000,
            window: 10_000,
        };
        let page = page(&view);
        assert!(page.starts_with("Context of gemini-x: 2000 of 10000 tokens (20%)\n"), "{page}");
        for row in [
            "System prompt and overhead     about 1870",
            "Environment and context files  about 100",
            "Your prompts                   about 10",
            "Answers and reasoning          about 20",
        ] {
            assert!(page.contains(row), "{row}: {page}");
        }
        assert!(!page.contains("Tool results") && !page.contains("Largest"), "{page}");
    }
}
