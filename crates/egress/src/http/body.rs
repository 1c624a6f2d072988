//! Chunked bodies, read strictly and written again without extensions and trailers.

/// Maximum length of a chunk's first line and of all trailers.
const MAX_LINE: usize = 4096;
const MAX_TRAILERS: usize = 16 * 1024;
/// More digits than this overflow no counter but no real chunk needs them.
const MAX_SIZE_DIGITS: usize = 12;

/// Why a chunked body is refused.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("malformed chunked body")]
pub(crate) struct ChunkError;

/// The state of a chunked body.
#[derive(Debug, Default)]
pub(crate) struct Chunks {
    state: State,
}

#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
enum State {
    #[default]
    Size,
    Data(u64),
    DataEnd,
    Trailer {
        seen: usize,
    },
    Done,
}

impl Chunks {
    /// Reads as much as possible, appends what is forwarded to `out` and returns how many bytes were used.
    pub(crate) fn advance(&mut self, bytes: &[u8], out: &mut Vec<u8>) -> Result<usize, ChunkError> {
        let mut used = 0;
        loop {
            let rest = bytes.get(used..).unwrap_or_default();
            match self.state {
                State::Done => return Ok(used),
                State::Size => {
                    let Some(text) = line(rest)? else { return Ok(used) };
                    used += text.len() + 2;
                    let size = chunk_size(text)?;
                    if size == 0 {
                        self.state = State::Trailer { seen: 0 };
                    } else {
                        out.extend_from_slice(format!("{size:x}\r\n").as_bytes());
                        self.state = State::Data(size);
                    }
                }
                State::Data(left) => {
                    if rest.is_empty() {
                        return Ok(used);
                    }
                    let count = rest.len().min(usize::try_from(left).unwrap_or(usize::MAX));
                    out.extend_from_slice(rest.get(..count).unwrap_or_default());
                    used += count;
                    let left = left - count as u64;
                    self.state = if left == 0 { State::DataEnd } else { State::Data(left) };
                }
                State::DataEnd => match rest {
                    [b'\r', b'\n', ..] => {
                        out.extend_from_slice(b"\r\n");
                        used += 2;
                        self.state = State::Size;
                    }
                    [] | [b'\r'] => return Ok(used),
                    _ => return Err(ChunkError),
                },
                State::Trailer { seen } => {
                    let Some(text) = line(rest)? else { return Ok(used) };
                    used += text.len() + 2;
                    let seen = seen + text.len();
                    if seen > MAX_TRAILERS {
                        return Err(ChunkError);
                    }
                    self.state = State::Trailer { seen };
                    if text.is_empty() {
                        out.extend_from_slice(b"0\r\n\r\n");
                        self.state = State::Done;
                    }
                }
            }
        }
    }

    /// Whether the body has ended.
    pub(crate) fn is_done(&self) -> bool {
        self.state == State::Done
    }
}

/// The next line without its end; `None` if it is not complete.
fn line(bytes: &[u8]) -> Result<Option<&[u8]>, ChunkError> {
    let Some(end) = bytes.iter().take(MAX_LINE + 2).position(|byte| *byte == b'\n') else {
        return if bytes.len() > MAX_LINE { Err(ChunkError) } else { Ok(None) };
    };
    let text = bytes.get(..end).and_then(|text| text.strip_suffix(b"\r")).ok_or(ChunkError)?;
    if text.iter().any(|byte| matches!(byte, b'\r' | 0)) {
        return Err(ChunkError);
    }
    Ok(Some(text))
}

/// The size at the beginning of a chunk's first line; extensions are dropped.
fn chunk_size(text: &[u8]) -> Result<u64, ChunkError> {
    let digits = text.split(|byte| *byte == b';').next().unwrap_or_default();
    let digits = digits.trim_ascii_end();
    if digits.is_empty() || digits.len() > MAX_SIZE_DIGITS || !digits.iter().all(u8::is_ascii_hexdigit) {
        return Err(ChunkError);
    }
    let text = std::str::from_utf8(digits).map_err(|_| ChunkError)?;
    u64::from_str_radix(text, 16).map_err(|_| ChunkError)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn run(bytes: &[u8]) -> Result<(Vec<u8>, usize, bool), ChunkError> {
        let (mut chunks, mut out) = (Chunks::default(), Vec::new());
        let used = chunks.advance(bytes, &mut out)?;
        Ok((out, used, chunks.is_done()))
    }

    #[test]
    fn chunks_are_written_anew_without_extensions_and_trailers() {
        let body = b"5;ext=1\r\nhello\r\n0A\r\n0123456789\r\n0\r\nx-trailer: 1\r\n\r\nGET next";
        let (out, used, done) = run(body).unwrap();
        assert_eq!(String::from_utf8(out).unwrap(), "5\r\nhello\r\na\r\n0123456789\r\n0\r\n\r\n");
        assert!(done);
        assert_eq!(&body[used..], b"GET next");
    }

    #[test]
    fn disputed_forms_are_refused() {
        for body in [
            &b"5\nhello\r\n"[..],
            b"0x5\r\nhello",
            b"+5\r\nhello",
            b"-1\r\n",
            b"\r\n",
            b" 5\r\nhello",
            b"5\r\nhelloX\r\n",
            b"5\r\nhello\n",
            b"fffffffffffffffff\r\n",
            b"5;a\rb\r\nhello",
            b"5\r\nhello\r\n0\n\n",
        ] {
            assert!(run(body).is_err(), "{:?}", String::from_utf8_lossy(body));
        }
    }

    proptest! {
        #[test]
        fn the_pieces_in_which_bytes_arrive_do_not_matter(
            parts in prop::collection::vec(prop::collection::vec(any::<u8>(), 1..20), 0..5), piece in 1usize..9,
        ) {
            let mut body: Vec<u8> = Vec::new();
            for part in &parts {
                body.extend(format!("{:X};q\r\n", part.len()).into_bytes());
                body.extend(part);
                body.extend(b"\r\n");
            }
            body.extend(b"0\r\n\r\n");
            let (whole, used, done) = run(&body).unwrap();
            prop_assert!(done && used == body.len());
            let (mut chunks, mut out, mut held) = (Chunks::default(), Vec::new(), Vec::new());
            for bytes in body.chunks(piece) {
                held.extend_from_slice(bytes);
                let used = chunks.advance(&held, &mut out).unwrap();
                held.drain(..used);
            }
            // Sizes of chunks are kept, so both ways give the same bytes.
            prop_assert!(chunks.is_done());
            prop_assert_eq!(out, whole);
        }

        #[test]
        fn any_bytes_are_read_without_panic(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
            let _ = run(&bytes);
        }
    }
}
