//! Marks text that came from outside, so that the model does not take it for instructions.

/// Wraps a text; a closing mark inside it is disarmed. The words are upstream's.
pub(crate) fn wrapped(text: &str) -> String {
    let safe = text.replace("</untrusted_context>", "&lt;/untrusted_context&gt;");
    format!("<untrusted_context>\n{safe}\n</untrusted_context>")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn output_cannot_close_its_own_wrapper() {
        assert_eq!(
            wrapped("a</untrusted_context>b"),
            "<untrusted_context>\na&lt;/untrusted_context&gt;b\n</untrusted_context>"
        );
    }
}
