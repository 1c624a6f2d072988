//! HTML to plain text: headings in capitals, lists with marks, no links, no wrapping.
//!
//! Works on the tokens, without building a tree: depth and memory stay bounded whatever the page does.

use std::cell::RefCell;
use std::time::{Duration, Instant};

use html5ever::tendril::StrTendril;
use html5ever::tokenizer::states::RawKind;
use html5ever::tokenizer::{BufferQueue, Tag, TagKind, Token, TokenSink, TokenSinkResult, Tokenizer};

mod layout;

use layout::Layout;

/// The tokenizer is fed in pieces, and time is looked at in between: a tag with a million attributes
/// costs it the square of that.
const PIECE_BYTES: usize = 4 << 10;
const TIME_LIMIT: Duration = Duration::from_secs(2);

/// The text of a page, at most about `limit` bytes of it.
pub(crate) fn text_of_html(html: &str, limit: usize) -> String {
    let sink = Sink(RefCell::new(Reader { layout: Layout::new(limit), hidden: None }));
    let tokenizer = Tokenizer::new(sink, Default::default());
    let queue = BufferQueue::default();
    let started = Instant::now();
    let mut rest = html;
    while !rest.is_empty() && started.elapsed() < TIME_LIMIT && !tokenizer.sink.0.borrow().layout.is_full() {
        let (piece, after) = rest.split_at(rest.floor_char_boundary(PIECE_BYTES.min(rest.len())));
        rest = after;
        queue.push_back(StrTendril::from_slice(piece));
        // A script end tag interrupts; what is left in the queue is read on.
        while !queue.is_empty() {
            let _ = tokenizer.feed(&queue);
        }
    }
    tokenizer.end();
    tokenizer.sink.0.into_inner().layout.finish()
}

struct Sink(RefCell<Reader>);

struct Reader {
    layout: Layout,
    /// The element whose content is not shown, and how often it is nested in itself.
    hidden: Option<(String, u32)>,
}

impl TokenSink for Sink {
    type Handle = ();

    fn process_token(&self, token: Token, _: u64) -> TokenSinkResult<()> {
        let mut reader = self.0.borrow_mut();
        match token {
            Token::CharacterTokens(text) => {
                if reader.hidden.is_none() {
                    reader.layout.text(&text);
                }
            }
            Token::TagToken(tag) => return reader.tag(&tag),
            Token::DoctypeToken(_)
            | Token::CommentToken(_)
            | Token::NullCharacterToken
            | Token::EOFToken
            | Token::ParseError(_) => {}
        }
        TokenSinkResult::Continue
    }
}

impl Reader {
    fn tag(&mut self, tag: &Tag) -> TokenSinkResult<()> {
        let name: &str = &tag.name;
        match tag.kind {
            TagKind::StartTag => {
                self.start(name, tag);
                raw_kind(name)
            }
            TagKind::EndTag => {
                self.end(name);
                TokenSinkResult::Continue
            }
        }
    }

    fn start(&mut self, name: &str, tag: &Tag) {
        if let Some((hidden, depth)) = &mut self.hidden {
            if hidden == name && !tag.self_closing {
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
        if is_hidden && !(tag.self_closing && matches!(name, "svg" | "math")) {
            self.hidden = Some((name.to_owned(), 1));
        } else if !is_hidden {
            self.layout.open(name, start_number(tag));
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

/// How the content of an element is to be read.
fn raw_kind(name: &str) -> TokenSinkResult<()> {
    match name {
        "script" => TokenSinkResult::RawData(RawKind::ScriptData),
        "style" | "iframe" | "noembed" | "noframes" | "xmp" => TokenSinkResult::RawData(RawKind::Rawtext),
        "title" | "textarea" => TokenSinkResult::RawData(RawKind::Rcdata),
        "plaintext" => TokenSinkResult::Plaintext,
        _ => TokenSinkResult::Continue,
    }
}

/// Where an ordered list begins to count.
fn start_number(tag: &Tag) -> Option<i32> {
    let start = tag.attrs.iter().find(|attribute| &*attribute.name.local == "start")?;
    start.value.trim().parse().ok()
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
