//! Converts HTML to plain text: headings in capitals, lists with markers, no links, no wrapping.
//!
//! Works on tokens without building a tree, so that depth and memory stay bounded for any page.

mod layout;
mod tokens;

use layout::Layout;
use tokens::{Token, Tokens};

/// The text of a page, at most about `limit` bytes of it.
pub(crate) fn text_of_html(html: &str, limit: usize) -> String {
    let mut reader = Reader { layout: Layout::new(limit), hidden: None };
    for token in Tokens::new(html) {
        if reader.layout.is_full() {
            break;
        }
        match token {
            Token::Text(text) if reader.hidden.is_none() => reader.layout.text(&text),
            Token::Text(_) => {}
            Token::Start { name, self_closing, start } => reader.start(&name, self_closing, start),
            Token::End(name) => reader.end(&name),
        }
    }
    reader.layout.finish()
}

struct Reader {
    layout: Layout,
    /// The element whose content is not shown, and how often it is nested in itself.
    hidden: Option<(String, u32)>,
}

impl Reader {
    fn start(&mut self, name: &str, self_closing: bool, start: Option<i32>) {
        if let Some((hidden, depth)) = &mut self.hidden {
            if hidden == name && !self_closing {
                *depth += 1;
            }
            return;
        }
        let is_hidden = matches!(
            name,
            "script"
                | "style"
                | "title"
                | "template"
                | "svg"
                | "math"
                | "iframe"
                | "object"
                | "noembed"
                | "noframes"
                | "canvas"
                | "audio"
                | "video"
        );
        // Only foreign elements close themselves; on others the slash means nothing.
        if is_hidden && !(self_closing && matches!(name, "svg" | "math")) {
            self.hidden = Some((name.to_owned(), 1));
        } else if !is_hidden {
            self.layout.open(name, start);
        }
    }

    fn end(&mut self, name: &str) {
        match &mut self.hidden {
            Some((hidden, depth)) if hidden == name => {
                *depth -= 1;
                if *depth == 0 {
                    self.hidden = None;
                }
            }
            Some(_) => {}
            None => self.layout.close(name),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(html: &str) -> String {
        text_of_html(html, 1 << 20)
    }

    #[test]
    fn pages_become_readable_text() {
        let cases = [
            ("<p>one</p><p>two</p>", "one\n\ntwo"),
            ("<h1>Title &amp; more</h1>text", "TITLE & MORE\n\ntext"),
            ("a<h4>sub</h4>b", "a\n\nSUB\n\nb"),
            ("x<h2>y</h2>", "x\n\n\nY"),
            ("  a \n\t b<b> c </b>d ", "a b c d"),
            ("<a href=\"https://x\">link</a> <img src=x alt=pic>end", "link end"),
            ("<ul><li>one<li>two<ul><li>deep</ul></ul>", " * one\n * two\n   * deep"),
            ("<ol start=3><li>c</li><li>d</li></ol>", " 3. c\n 4. d"),
            ("a<br>b<br/>c", "a\nb\nc"),
            ("a<hr>b", "a\n\n----------------------------------------\n\nb"),
            ("<pre>  x\n\ty</pre>", "  x\n\ty"),
            ("<blockquote>said<br>twice</blockquote>", "> said\n> twice"),
            ("<table><tr><th>k<th>v<tr><td>1<td>2</table>", "k   v\n1   2"),
            ("<head><title>T</title><style>b{}</style></head><body>in</body>", "in"),
            ("a<script>if (a < b) '</p>'</script>b", "ab"),
            ("<svg><text>no</text><svg></svg></svg>yes<svg/>!", "yes!"),
            ("&lt;p&gt; &eacute; &#x1F600; &nope;", "<p> é 😀 &nope;"),
            ("<textarea><b>raw</b></textarea>", "<b>raw</b>"),
            ("a\u{1b}[31mb\u{0}c\u{200b}d", "a[31mbcd"),
            ("<noscript>shown</noscript>", "shown"),
            ("", ""),
            ("<p", ""),
            ("</div></ul></blockquote>odd", "odd"),
        ];
        for (html, expected) in cases {
            assert_eq!(text(html), expected, "{html}");
        }
    }

    #[test]
    fn hostile_pages_stay_bounded() {
        let deep = "<blockquote><ul><li>".repeat(5_000) + "x";
        let shown = text_of_html(&deep, 10_000);
        assert!(shown.len() < 20_000, "{}", shown.len());
        let attributes: String = (0..3_000).map(|n| format!("a{n} ")).collect();
        assert!(text_of_html(&format!("one<p {attributes}>two"), 1_000).starts_with("one"));
        let long = format!("<p>{}</p>", "word ".repeat(100_000));
        let cut = text_of_html(&long, 1_000);
        assert!(cut.starts_with("word word") && cut.len() < 10_000);
    }

    proptest::proptest! {
        #[test]
        fn no_page_makes_it_panic(html in "(<|>|/|&|;|[a-z]{1,5}|ul|li|pre|h1|script|é|\\s|\"|=){0,200}") {
            let shown = text(&html);
            let has_control = shown.chars().any(|c| c.is_control() && !matches!(c, '\n' | '\t'));
            proptest::prop_assert!(!has_control);
        }
    }
}
