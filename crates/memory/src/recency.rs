//! Decides which recent messages stay verbatim when a conversation is summarised.

const DEFAULT_KEPT: usize = 10;

/// What a message is, as far as it matters where a conversation is cut.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum MessageKind {
    User,
    Model,
    /// The model asked for a tool.
    ToolCall,
    /// It belongs to the call before it.
    ToolResult,
}

/// Where the preserved part begins: the last `keep` messages (10 when that is missing or negative), or from
/// `by_tokens` on if that keeps more. A result never loses its call.
pub fn recency_split(messages: &[MessageKind], keep: Option<i64>, by_tokens: Option<usize>) -> usize {
    let keep = keep.and_then(|keep| usize::try_from(keep).ok()).unwrap_or(DEFAULT_KEPT);
    let by_count = messages.len().saturating_sub(keep);
    let mut start = by_tokens.unwrap_or(messages.len()).min(by_count).min(messages.len());
    while start > 0 && messages.get(start) == Some(&MessageKind::ToolResult) {
        start -= 1;
    }
    start
}

#[cfg(test)]
mod tests {
    use super::*;
    use MessageKind::{Model, ToolCall, ToolResult, User};

    #[test]
    fn the_last_messages_are_kept_with_the_calls_of_their_results() {
        let messages = [User, Model, User, ToolCall, ToolResult, ToolResult, Model];
        for (keep, by_tokens, expected) in [
            (Some(1), None, 6),
            (Some(2), None, 3),
            (Some(3), None, 3),
            (Some(0), None, 7),
            (Some(99), None, 0),
            (None, None, 0),
            (Some(-1), None, 0),
            (Some(1), Some(2), 2),
            (Some(5), Some(6), 2),
        ] {
            assert_eq!(recency_split(&messages, keep, by_tokens), expected, "{keep:?} {by_tokens:?}");
        }
        assert_eq!(recency_split(&[], None, None), 0);
    }
}
