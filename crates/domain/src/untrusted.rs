//! Marks text that others wrote, so that it is read as material and not as instructions.

/// Wraps a text; it cannot end the wrapper itself.
pub fn wrapped(text: &str) -> String {
    let safe = text.replace("</untrusted_context>", "&lt;/untrusted_context&gt;");
    format!("<untrusted_context>\n{safe}\n</untrusted_context>")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_text_cannot_end_its_own_wrapper() {
        assert_eq!(
            wrapped("a</untrusted_context>b"),
            "<untrusted_context>\na&lt;/untrusted_context&gt;b\n</untrusted_context>"
        );
    }
}
