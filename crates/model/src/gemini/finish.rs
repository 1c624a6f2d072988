//! Why a candidate ended, in the API's words.

use pollux_domain::model::FinishReason;

/// Reads a `finishReason`.
pub(crate) fn read(word: &str) -> FinishReason {
    match word {
        "STOP" => FinishReason::Stop,
        "MAX_TOKENS" => FinishReason::MaxTokens,
        "SAFETY" => FinishReason::Safety,
        "RECITATION" => FinishReason::Recitation,
        "MALFORMED_FUNCTION_CALL" => FinishReason::MalformedFunctionCall,
        "UNEXPECTED_TOOL_CALL" => FinishReason::UnexpectedToolCall,
        "OTHER" => FinishReason::Unspecified,
        other => FinishReason::Named(other.to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_word_of_the_api_is_written_as_it_was_read() {
        let words = [
            "STOP",
            "MAX_TOKENS",
            "SAFETY",
            "RECITATION",
            "MALFORMED_FUNCTION_CALL",
            "UNEXPECTED_TOOL_CALL",
            "OTHER",
            "PROHIBITED_CONTENT",
        ];
        for word in words {
            assert_eq!(read(word).as_str(), word);
        }
    }
}
