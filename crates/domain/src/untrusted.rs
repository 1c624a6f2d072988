//! Marks text that others wrote, so that it is read as material and not as instructions.

/// Wraps a text; it cannot end the wrapper itself.
pub fn wrapped(text: &str) -> String {
    let safe = text.replace("</untrusted_context>", "&lt;/untrusted_context&gt;");
    format!("<untrusted_context>\n{safe}\n</untrusted_context>")
}

/// As [`wrapped`], for a text that may be long: it is not copied unless it has to be changed.
pub fn wrapped_in_place(mut text: String) -> String {
    if text.contains("_context>") {
        return wrapped(&text);
    }
    text.insert_str(0, "<untrusted_context>\n");
    text.push_str("\n</untrusted_context>");
    text
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

    #[test]
    fn a_long_text_is_wrapped_like_any_other() {
        for text in ["", "a", "a</untrusted_context>b", "a <x_context> b"] {
            assert_eq!(wrapped_in_place(text.to_owned()), wrapped(text));
        }
    }
}
