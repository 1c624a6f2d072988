//! Terminal control sequences, and how to remove them from a stream of bytes.

const ESCAPE: u8 = 0x1b;
const BELL: u8 = 0x07;

/// Removes escape sequences from bytes that arrive in pieces.
#[derive(Debug, Default)]
pub(crate) struct Stripper {
    state: State,
}

#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
enum State {
    #[default]
    Text,
    /// After ESC.
    Escape,
    /// Inside `ESC [ …`, until a final byte.
    Control,
    /// Inside `ESC ] …` and its kin, until BEL or `ESC \`.
    StringBody,
    /// Inside such a string, after an ESC.
    StringEscape,
}

impl Stripper {
    /// Appends what is left of `input` to `kept`.
    pub(crate) fn push(&mut self, input: &[u8], kept: &mut Vec<u8>) {
        if self.state == State::Text && !input.contains(&ESCAPE) {
            kept.extend_from_slice(input);
            return;
        }
        for &byte in input {
            self.state = match self.state {
                State::Text if byte == ESCAPE => State::Escape,
                State::Text => {
                    kept.push(byte);
                    State::Text
                }
                State::Escape => match byte {
                    b'[' => State::Control,
                    b']' | b'P' | b'X' | b'^' | b'_' => State::StringBody,
                    // Intermediate bytes, as in `ESC ( B`.
                    0x20..=0x2f | ESCAPE => State::Escape,
                    _ => State::Text,
                },
                State::Control => match byte {
                    0x40..=0x7e => State::Text,
                    ESCAPE => State::Escape,
                    // A line end never belongs to a sequence; a broken one must not eat the output.
                    b'\n' => {
                        kept.push(byte);
                        State::Text
                    }
                    _ => State::Control,
                },
                State::StringBody => match byte {
                    BELL => State::Text,
                    ESCAPE => State::StringEscape,
                    b'\n' => {
                        kept.push(byte);
                        State::Text
                    }
                    _ => State::StringBody,
                },
                State::StringEscape if byte == b'\\' => State::Text,
                State::StringEscape => State::StringBody,
            };
        }
    }
}

/// The text without escape sequences; bytes that are not UTF-8 become replacement characters.
pub(crate) fn plain(bytes: &[u8]) -> String {
    let mut kept = Vec::new();
    Stripper::default().push(bytes, &mut kept);
    match String::from_utf8(kept) {
        Ok(text) => text,
        Err(error) => String::from_utf8_lossy(error.as_bytes()).into_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn escape_sequences_are_removed() {
        let cases: [(&[u8], &str); 7] = [
            (b"plain", "plain"),
            (b"\x1b[31mred\x1b[0m", "red"),
            (b"\x1b]0;title\x07after", "after"),
            (b"\x1b]8;;http://x\x1b\\link\x1b]8;;\x1b\\", "link"),
            (b"\x1b(Bascii", "ascii"),
            (b"cut \x1b[31", "cut "),
            (b"\x1b]never closed\nnext", "\nnext"),
        ];
        for (input, expected) in cases {
            assert_eq!(plain(input), expected, "{input:?}");
        }
    }

    #[test]
    fn every_split_of_a_stream_gives_the_same_text() {
        let input = b"a\x1b[1;31mb\x1b]0;t\x07c\x1b(Bd";
        for cut in 0..input.len() {
            let (first, second) = input.split_at(cut);
            let (mut stripper, mut kept) = (Stripper::default(), Vec::new());
            stripper.push(first, &mut kept);
            stripper.push(second, &mut kept);
            assert_eq!(kept, b"abcd", "cut at {cut}");
        }
    }
}
