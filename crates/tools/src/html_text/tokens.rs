//! Splits HTML into tokens: text, start tags and end tags.
//!
//! Our own small tokenizer: the tables of a full HTML parser contain thousands of pointers that every start of
//! the program would have to relocate, for a tool that is rarely used. One pass, no tree, no growing state.

/// A piece of a page.
#[derive(Debug, PartialEq)]
pub(super) enum Token {
    /// Text with its references resolved.
    Text(String),
    Start {
        name: String,
        self_closing: bool,
        start: Option<i32>,
    },
    End(String),
}

/// Reads a page token by token.
pub(super) struct Tokens<'a> {
    rest: &'a str,
    /// The element whose content is raw text, up to its end tag.
    raw: Option<String>,
}

impl<'a> Tokens<'a> {
    pub(super) fn new(html: &'a str) -> Self {
        Self { rest: html, raw: None }
    }

    fn take(&mut self, length: usize) -> &'a str {
        let (taken, rest) = self.rest.split_at_checked(length).unwrap_or((self.rest, ""));
        self.rest = rest;
        taken
    }

    /// Everything up to the end tag of the element under way.
    fn raw_text(&mut self, name: &str) -> Option<Token> {
        let end = if name == "plaintext" { None } else { end_tag_at(self.rest, name) };
        let text = self.take(end.unwrap_or(self.rest.len()));
        if text.is_empty() {
            return None;
        }
        let resolves = matches!(name, "title" | "textarea");
        Some(Token::Text(if resolves { resolved(text) } else { text.to_owned() }))
    }

    /// Parses markup that begins with `<`; `None` if the character is plain text.
    fn markup(&mut self) -> Option<Option<Token>> {
        if self.rest.starts_with("<!--") {
            let end = self.rest.find("-->").map_or(self.rest.len(), |at| at + 3);
            self.take(end);
            return Some(None);
        }
        let after = self.rest.get(1..).unwrap_or_default();
        match after.chars().next() {
            Some('!' | '?') => {
                let end = self.rest.find('>').map_or(self.rest.len(), |at| at + 1);
                self.take(end);
                Some(None)
            }
            Some('/') if after.chars().nth(1).is_some_and(|c| c.is_ascii_alphabetic()) => Some(self.tag(2)),
            Some(c) if c.is_ascii_alphabetic() => Some(self.tag(1)),
            _ => None,
        }
    }

    /// Reads a tag whose name begins at `name_at`; nothing if the page ends inside it.
    fn tag(&mut self, name_at: usize) -> Option<Token> {
        let length = tag_length(self.rest);
        let whole = self.rest;
        let inside = whole.get(name_at..length.unwrap_or(whole.len()).saturating_sub(1)).unwrap_or_default();
        self.take(length.unwrap_or(whole.len()));
        length?;
        let name_end = inside.find(|c: char| c.is_whitespace() || c == '/').unwrap_or(inside.len());
        let (name, attributes) = inside.split_at_checked(name_end)?;
        let name = name.to_ascii_lowercase();
        if name_at == 2 {
            return Some(Token::End(name));
        }
        if matches!(
            name.as_str(),
            "script"
                | "style"
                | "iframe"
                | "noembed"
                | "noframes"
                | "xmp"
                | "title"
                | "textarea"
                | "plaintext"
        ) {
            self.raw = Some(name.clone());
        }
        let start = (name == "ol").then(|| start_attribute(attributes)).flatten();
        Some(Token::Start { name, self_closing: attributes.ends_with('/'), start })
    }
}

impl Iterator for Tokens<'_> {
    type Item = Token;

    fn next(&mut self) -> Option<Token> {
        loop {
            if self.rest.is_empty() {
                return None;
            }
            if let Some(name) = self.raw.take() {
                if let Some(token) = self.raw_text(&name) {
                    return Some(token);
                }
                continue;
            }
            if self.rest.starts_with('<') {
                match self.markup() {
                    Some(Some(token)) => return Some(token),
                    Some(None) => continue,
                    None => {
                        self.take(1);
                        return Some(Token::Text("<".to_owned()));
                    }
                }
            }
            let end = self.rest.find('<').unwrap_or(self.rest.len());
            return Some(Token::Text(resolved(self.take(end))));
        }
    }
}

/// The length of the tag at the start of the text; quoted values may contain `>`.
fn tag_length(text: &str) -> Option<usize> {
    let mut quote = None;
    let mut before = ' ';
    for (at, c) in text.char_indices() {
        match (quote, c) {
            (None, '>') => return Some(at + 1),
            // A quote opens a value only after an equals sign.
            (None, '"' | '\'') if before == '=' => quote = Some(c),
            (Some(open), c) if c == open => quote = None,
            _ => {}
        }
        if !c.is_whitespace() {
            before = c;
        }
    }
    None
}

/// Where `</name` begins, whatever the case.
fn end_tag_at(text: &str, name: &str) -> Option<usize> {
    text.match_indices("</").map(|(at, _)| at).find(|at| {
        let after = text.get(at + 2..).unwrap_or_default();
        let same = after.get(..name.len()).is_some_and(|start| start.eq_ignore_ascii_case(name));
        let next = after.get(name.len()..).and_then(|rest| rest.chars().next());
        same && next.is_none_or(|c| c.is_whitespace() || c == '>' || c == '/')
    })
}

fn start_attribute(attributes: &str) -> Option<i32> {
    let (_, value) = attributes.split_once("start")?;
    let value = value.trim_start().strip_prefix('=')?.trim_start().trim_start_matches(['"', '\'']);
    let digits = value.split(|c: char| !(c.is_ascii_digit() || c == '-')).next()?;
    digits.parse().ok()
}

/// A text with its character references resolved; unknown ones stay as they are.
fn resolved(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    while let Some((before, after)) = rest.split_once('&') {
        out.push_str(before);
        match reference(after) {
            Some((character, length)) => {
                out.push(character);
                rest = after.get(length..).unwrap_or_default();
            }
            None => {
                out.push('&');
                rest = after;
            }
        }
    }
    out.push_str(rest);
    out
}

/// The character that a reference means, and how much of the text it takes.
fn reference(text: &str) -> Option<(char, usize)> {
    let end = text.bytes().take(12).position(|byte| byte == b';')?;
    let name = text.get(..end)?;
    let character = match name.strip_prefix('#') {
        Some(number) => {
            let code = match number.strip_prefix(['x', 'X']) {
                Some(hex) => u32::from_str_radix(hex, 16).ok()?,
                None => number.parse().ok()?,
            };
            char::from_u32(code)?
        }
        None => named(name)?,
    };
    Some((character, end + 1))
}

/// Names and characters in one string, so that the table has no pointers. Contains what pages commonly use:
/// markup characters, punctuation, arrows, currency, mathematics and the letters of Latin-1.
const NAMES: &str = "amp& lt< gt> quot\" apos' nbsp\u{a0} copy© reg® trade™ hellip… mdash— ndash– lsquo‘ rsquo’ ldquo“ \
rdquo” sbquo‚ bdquo„ laquo« raquo» lsaquo‹ rsaquo› bull• middot· dagger† Dagger‡ sect§ para¶ deg° plusmn± times× divide÷ \
frac12½ frac14¼ frac34¾ sup1¹ sup2² sup3³ microµ ordfª ordmº iexcl¡ iquest¿ cent¢ pound£ yen¥ euro€ curren¤ brvbar¦ \
not¬ shy\u{ad} macr¯ acute´ cedil¸ uml¨ larr← rarr→ uarr↑ darr↓ harr↔ lArr⇐ rArr⇒ hArr⇔ le≤ ge≥ ne≠ asymp≈ equiv≡ minus− \
infin∞ sum∑ prod∏ radic√ part∂ nabla∇ isin∈ forall∀ exist∃ empty∅ cap∩ cup∪ sub⊂ sup⊃ and∧ or∨ int∫ there4∴ prop∝ ang∠ \
alphaα betaβ gammaγ deltaδ epsilonε zetaζ etaη thetaθ lambdaλ muμ nuν piπ rhoρ sigmaσ tauτ phiφ chiχ psiψ omegaω \
DeltaΔ SigmaΣ OmegaΩ PiΠ ThetaΘ LambdaΛ PhiΦ PsiΨ GammaΓ ensp\u{2002} emsp\u{2003} thinsp\u{2009} zwnj\u{200c} zwj\u{200d} \
AgraveÀ AacuteÁ AcircÂ AtildeÃ AumlÄ AringÅ AEligÆ CcedilÇ EgraveÈ EacuteÉ EcircÊ EumlË IgraveÌ IacuteÍ IcircÎ IumlÏ \
ETHÐ NtildeÑ OgraveÒ OacuteÓ OcircÔ OtildeÕ OumlÖ OslashØ UgraveÙ UacuteÚ UcircÛ UumlÜ YacuteÝ THORNÞ szligß agraveà \
aacuteá acircâ atildeã aumlä aringå aeligæ ccedilç egraveè eacuteé ecircê eumlë igraveì iacuteí icircî iumlï ethð ntildeñ \
ograveò oacuteó ocircô otildeõ oumlö oslashø ugraveù uacuteú ucircû uumlü yacuteý thornþ yumlÿ OEligŒ oeligœ ScaronŠ \
scaronš YumlŸ fnofƒ circˆ tilde˜ permil‰ prime′ Prime″ oline‾ frasl⁄ hearts♥ diams♦ spades♠ clubs♣ check✓ star☆ lbrace{ \
rbrace} lbrack[ rbrack] lpar( rpar) colon: semi; comma, period. excl! quest? num# dollar$ percnt% ast* plus+ sol/ bsol\\ \
lowbar_ grave` verbar| commat@ equals= Hat^ Tab\u{9} NewLine\u{a}";

fn named(name: &str) -> Option<char> {
    NAMES.split(' ').find_map(|entry| {
        let rest = entry.strip_prefix(name)?;
        let mut characters = rest.chars();
        let character = characters.next()?;
        // A longer name with this one at its beginning leaves more than one character.
        characters.next().is_none().then_some(character)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn start(name: &str) -> Token {
        Token::Start { name: name.into(), self_closing: false, start: None }
    }

    #[test]
    fn tags_text_and_comments_are_told_apart() {
        let found: Vec<Token> =
            Tokens::new("a<!-- <b> -->b<P class=\"x>y\">c</p ><br/>1 < 2<!doctype x>").collect();
        let text = |text: &str| Token::Text(text.into());
        let expected = [
            text("a"),
            text("b"),
            start("p"),
            text("c"),
            Token::End("p".into()),
            Token::Start { name: "br".into(), self_closing: true, start: None },
            text("1 "),
            text("<"),
            text(" 2"),
        ];
        assert_eq!(found, expected);
    }

    #[test]
    fn references_are_resolved_and_unknown_ones_stay() {
        let cases = [
            ("&amp;&lt;&#65;&#x42;", "&<AB"),
            ("&eacute; &sup2; &sup; &euro;", "é ² ⊃ €"),
            ("&nope; & &;", "&nope; & &;"),
            ("&#x110000; &#xd800;", "&#x110000; &#xd800;"),
        ];
        for (text, expected) in cases {
            assert_eq!(resolved(text), expected, "{text}");
        }
    }

    #[test]
    fn raw_elements_end_at_their_own_end_tag_only() {
        let found: Vec<Token> = Tokens::new("<script>a</p>'</scripty>'</SCRIPT >b").collect();
        let expected = [
            start("script"),
            Token::Text("a</p>'</scripty>'".into()),
            Token::End("script".into()),
            Token::Text("b".into()),
        ];
        assert_eq!(found, expected);
    }
}
