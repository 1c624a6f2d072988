//! What a GGUF file says about its model: the header only, never the weights.
//!
//! Use [`GgufMetadata::read`] before a server is started with the file, and [`GgufMetadata::context_for`] for the
//! window that fits into memory.

use std::fs::File;
use std::io::{self, BufReader, Read};
use std::path::Path;

/// A header never comes near this size before the vocabulary begins.
const MAX_HEADER: u64 = 4 << 20;
const MAX_TEXT: u64 = 64 << 10;
const MAX_ENTRIES: u64 = 10_000;

/// The smallest window that a conversation can be held in, and the largest that is asked for without the user's word.
const MIN_CONTEXT: u64 = 2_048;
const MAX_CONTEXT: u64 = 65_536;
/// The window of a file that does not say what its model was trained with.
const UNKNOWN_CONTEXT: u64 = 8_192;
/// A number of two bytes for each value that is kept of a token.
const VALUE_BYTES: u64 = 2;

/// The facts that decide how a model is served.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct GgufMetadata {
    pub architecture: String,
    pub name: Option<String>,
    /// The window the model was trained with.
    pub context_length: Option<u64>,
    /// The size of the file.
    pub bytes: u64,
    layers: Option<u64>,
    heads: Option<u64>,
    kv_heads: Option<u64>,
    width: Option<u64>,
}

/// Why a file cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum GgufError {
    #[error("could not read {path}")]
    Io { path: String, source: io::Error },
    #[error("{path} is not a GGUF file")]
    NotGguf { path: String },
}

/// A value of the header, as far as it matters.
enum Entry {
    Number(u64),
    Text(String),
    Other,
}

impl GgufMetadata {
    /// Reads the header of a file.
    pub fn read(path: &Path) -> Result<Self, GgufError> {
        let shown = || path.display().to_string();
        let opened = File::open(path).and_then(|file| {
            let length = file.metadata().and_then(|meta| match meta.is_file() {
                true => Ok(meta.len()),
                false => Err(io::ErrorKind::InvalidInput.into()),
            })?;
            Ok((file, length))
        });
        let (file, bytes) = opened.map_err(|source| GgufError::Io { path: shown(), source })?;
        let mut reader = BufReader::new(file.take(MAX_HEADER));
        let mut metadata = parse(&mut reader).ok_or_else(|| GgufError::NotGguf { path: shown() })?;
        metadata.bytes = bytes;
        Ok(metadata)
    }

    /// The window to serve it with: the model's own, as far as memory allows.
    pub fn context_for(&self, free_memory: Option<u64>) -> u64 {
        let own = self.context_length.unwrap_or(UNKNOWN_CONTEXT);
        let fits = match (free_memory, self.bytes_per_token()) {
            // Some memory is left for the computation itself and for everything else that runs.
            (Some(free), Some(each)) => (free / 10 * 8).saturating_sub(self.bytes) / each.max(1),
            _ => u64::MAX,
        };
        let whole = own.min(fits).min(MAX_CONTEXT);
        (whole / 256 * 256).max(MIN_CONTEXT.min(own.max(1)))
    }

    /// How much memory a token of the conversation takes.
    fn bytes_per_token(&self) -> Option<u64> {
        let heads = self.heads.filter(|heads| *heads > 0)?;
        let head = self.width? / heads;
        let kept = head.checked_mul(self.kv_heads.unwrap_or(heads))?;
        // Keys and values.
        kept.checked_mul(self.layers?)?.checked_mul(2 * VALUE_BYTES)
    }
}

fn parse(reader: &mut impl Read) -> Option<GgufMetadata> {
    let mut magic = [0; 4];
    reader.read_exact(&mut magic).ok()?;
    if &magic != b"GGUF" || !(2..=3).contains(&read_u32(reader)?) {
        return None;
    }
    let _tensors = read_u64(reader)?;
    let entries = read_u64(reader)?.min(MAX_ENTRIES);
    let mut found = GgufMetadata::default();
    for _ in 0..entries {
        // A header that is cut or odd from here on still has the facts before that.
        let Some(key) = read_text(reader) else { break };
        // The vocabulary follows, which is long and says nothing of interest.
        if key.starts_with("tokenizer.") {
            break;
        }
        let Some(value) = read_u32(reader).and_then(|kind| read_entry(reader, kind)) else { break };
        found.take(&key, value);
    }
    Some(found)
}

impl GgufMetadata {
    fn take(&mut self, key: &str, value: Entry) {
        match (key, value) {
            ("general.architecture", Entry::Text(text)) => self.architecture = text,
            ("general.name", Entry::Text(text)) => self.name = Some(text),
            (key, Entry::Number(number)) => {
                let own = key.strip_prefix(self.architecture.as_str()).unwrap_or_default();
                match own {
                    ".context_length" => self.context_length = Some(number),
                    ".block_count" => self.layers = Some(number),
                    ".embedding_length" => self.width = Some(number),
                    ".attention.head_count" => self.heads = Some(number),
                    ".attention.head_count_kv" => self.kv_heads = Some(number),
                    _ => {}
                }
            }
            _ => {}
        }
    }
}

fn read_entry(reader: &mut impl Read, kind: u32) -> Option<Entry> {
    Some(match kind {
        8 => Entry::Text(read_text(reader)?),
        9 => {
            let (kind, count) = (read_u32(reader)?, read_u64(reader)?);
            for _ in 0..count {
                read_entry(reader, if kind == 9 { return None } else { kind })?;
            }
            Entry::Other
        }
        2 => Entry::Number(u64::from(u16::from_le_bytes(read_bytes(reader)?))),
        4 => Entry::Number(u64::from(read_u32(reader)?)),
        5 => Entry::Number(u64::try_from(i32::from_le_bytes(read_bytes(reader)?)).unwrap_or(0)),
        10 => Entry::Number(read_u64(reader)?),
        11 => Entry::Number(u64::try_from(i64::from_le_bytes(read_bytes(reader)?)).unwrap_or(0)),
        0 | 1 | 7 => skip::<1>(reader)?,
        3 => skip::<2>(reader)?,
        6 => skip::<4>(reader)?,
        12 => skip::<8>(reader)?,
        _ => return None,
    })
}

fn skip<const N: usize>(reader: &mut impl Read) -> Option<Entry> {
    read_bytes::<N>(reader).map(|_| Entry::Other)
}

fn read_bytes<const N: usize>(reader: &mut impl Read) -> Option<[u8; N]> {
    let mut bytes = [0; N];
    reader.read_exact(&mut bytes).ok().map(|()| bytes)
}

fn read_u32(reader: &mut impl Read) -> Option<u32> {
    read_bytes(reader).map(u32::from_le_bytes)
}

fn read_u64(reader: &mut impl Read) -> Option<u64> {
    read_bytes(reader).map(u64::from_le_bytes)
}

fn read_text(reader: &mut impl Read) -> Option<String> {
    let length = read_u64(reader)?;
    if length > MAX_TEXT {
        return None;
    }
    let mut bytes = Vec::new();
    reader.take(length).read_to_end(&mut bytes).ok()?;
    (bytes.len() as u64 == length).then(|| String::from_utf8_lossy(&bytes).into_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(text: &str) -> Vec<u8> {
        let mut bytes = (text.len() as u64).to_le_bytes().to_vec();
        bytes.extend(text.as_bytes());
        bytes
    }

    fn header(numbers: &[(&str, u32)]) -> Vec<u8> {
        let mut bytes = b"GGUF\x03\0\0\0".to_vec();
        bytes.extend(7_u64.to_le_bytes());
        bytes.extend((numbers.len() as u64 + 3).to_le_bytes());
        bytes.extend(text("general.architecture"));
        bytes.extend(8_u32.to_le_bytes());
        bytes.extend(text("llama"));
        bytes.extend(text("general.tags"));
        bytes.extend([9_u32.to_le_bytes(), 8_u32.to_le_bytes()].concat());
        bytes.extend(1_u64.to_le_bytes());
        bytes.extend(text("chat"));
        for (key, number) in numbers {
            bytes.extend(text(key));
            bytes.extend(4_u32.to_le_bytes());
            bytes.extend(number.to_le_bytes());
        }
        bytes.extend(text("tokenizer.ggml.tokens"));
        bytes
    }

    /// SmolLM2-135M.
    fn small() -> GgufMetadata {
        let bytes = header(&[
            ("llama.context_length", 8_192),
            ("llama.block_count", 30),
            ("llama.embedding_length", 576),
            ("llama.attention.head_count", 9),
            ("llama.attention.head_count_kv", 3),
        ]);
        parse(&mut bytes.as_slice()).unwrap()
    }

    #[test]
    fn the_header_tells_the_window_and_what_a_token_takes() {
        let found = small();
        assert_eq!((found.architecture.as_str(), found.context_length), ("llama", Some(8_192)));
        assert_eq!(found.bytes_per_token(), Some(64 * 3 * 30 * 4));
    }

    #[test]
    fn the_window_fits_into_memory() {
        let model = GgufMetadata { bytes: 100 << 20, ..small() };
        assert_eq!(model.context_for(None), 8_192);
        assert_eq!(model.context_for(Some(8 << 30)), 8_192);
        let tight = model.context_for(Some(200 << 20));
        assert!((2_048..4_096).contains(&tight), "{tight}");
        assert_eq!(model.context_for(Some(0)), 2_048);
        let long = GgufMetadata { context_length: Some(1 << 20), ..model.clone() };
        assert_eq!(long.context_for(Some(64 << 30)), MAX_CONTEXT);
        assert_eq!(GgufMetadata { context_length: Some(512), ..model }.context_for(None), 512);
        assert_eq!(GgufMetadata::default().context_for(Some(1 << 30)), UNKNOWN_CONTEXT);
    }

    #[test]
    fn hostile_headers_are_read_as_far_as_they_go() {
        let whole = header(&[("llama.context_length", 4_096), ("llama.attention.head_count", 0)]);
        for cut in 0..whole.len() {
            let _ = parse(&mut &whole[..cut]);
        }
        assert_eq!(parse(&mut whole.as_slice()).unwrap().bytes_per_token(), None);
        let mut huge = b"GGUF\x03\0\0\0".to_vec();
        huge.extend([0xff; 40]);
        assert_eq!(parse(&mut huge.as_slice()), Some(GgufMetadata::default()));
        assert_eq!(parse(&mut b"PK\x03\x04 and more".as_slice()), None);
        let nested =
            [b"GGUF\x03\0\0\0".to_vec(), vec![0; 8], vec![1, 0, 0, 0, 0, 0, 0, 0], text("a"), vec![9; 400]];
        assert!(parse(&mut nested.concat().as_slice()).is_some());
    }
}
