//! The safetensors format: a length, a JSON header, then the numbers.

use std::collections::BTreeMap;
use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};

use serde::Deserialize;

use super::ModelError;

/// Headers of real models take a few kilobytes.
const MAX_HEADER: u64 = 8 << 20;
/// How much is read at once while numbers are converted: it stays in the cache in between.
const BLOCK: usize = 256 << 10;

/// An open file of named tensors.
#[derive(Debug)]
pub(super) struct SafeTensors {
    file: File,
    path: PathBuf,
    tensors: BTreeMap<String, Tensor>,
}

/// Where a tensor lies.
#[derive(Debug, Clone)]
pub(super) struct Tensor {
    pub(super) numbers: Numbers,
    pub(super) shape: Vec<usize>,
    start: u64,
}

/// How numbers are written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Numbers {
    F64,
    F32,
    F16,
    Bf16,
    I64,
    I32,
    I8,
}

#[derive(Deserialize)]
struct Entry {
    dtype: String,
    shape: Vec<usize>,
    data_offsets: (u64, u64),
}

impl Numbers {
    fn named(name: &str) -> Option<Self> {
        Some(match name {
            "F64" => Self::F64,
            "F32" => Self::F32,
            "F16" => Self::F16,
            "BF16" => Self::Bf16,
            "I64" => Self::I64,
            "I32" => Self::I32,
            "I8" => Self::I8,
            _ => return None,
        })
    }

    pub(super) fn size(self) -> usize {
        match self {
            Self::F64 | Self::I64 => 8,
            Self::F32 | Self::I32 => 4,
            Self::F16 | Self::Bf16 => 2,
            Self::I8 => 1,
        }
    }

    /// Appends the decoded values.
    pub(super) fn decode(self, bytes: &[u8], into: &mut Vec<f32>) {
        match self {
            Self::F32 => into.extend(words(bytes).map(f32::from_le_bytes)),
            Self::F16 => into.extend(words(bytes).map(|word| half(u16::from_le_bytes(word)))),
            Self::Bf16 => into
                .extend(words(bytes).map(|word| f32::from_bits(u32::from(u16::from_le_bytes(word)) << 16))),
            Self::F64 => into.extend(words(bytes).map(|word| f64::from_le_bytes(word) as f32)),
            Self::I64 => into.extend(words(bytes).map(|word| i64::from_le_bytes(word) as f32)),
            Self::I32 => into.extend(words(bytes).map(|word| i32::from_le_bytes(word) as f32)),
            Self::I8 => into.extend(bytes.iter().map(|byte| f32::from(byte.cast_signed()))),
        }
    }
}

fn words<const N: usize>(bytes: &[u8]) -> impl Iterator<Item = [u8; N]> {
    bytes.as_chunks::<N>().0.iter().copied()
}

/// A 16-bit number. Scaling by a power of two also gives the smallest ones their value.
fn half(bits: u16) -> f32 {
    let sign = u32::from(bits & 0x8000) << 16;
    let magnitude = f32::from_bits(u32::from(bits & 0x7fff) << 13) * f32::from_bits(0x7780_0000);
    // An exponent of all ones means infinity or not a number; either is refused later.
    let magnitude = if bits & 0x7c00 == 0x7c00 { f32::NAN } else { magnitude };
    f32::from_bits(magnitude.to_bits() | sign)
}

impl SafeTensors {
    /// Reads the header and checks that every tensor lies inside of the file.
    pub(super) fn open(path: &Path) -> Result<Self, ModelError> {
        let failed = |source| ModelError::Read { path: path.to_owned(), source };
        let file = File::open(path).map_err(failed)?;
        let length = file.metadata().map_err(failed)?.len();
        let bad = |reason: &str| ModelError::Content { path: path.to_owned(), reason: reason.to_owned() };
        let mut size = [0; 8];
        read_exact_at(&file, &mut size, 0).map_err(|_| bad("it is too short for a safetensors file"))?;
        let header = u64::from_le_bytes(size);
        if header > MAX_HEADER || header + 8 > length {
            return Err(bad("it does not begin with a safetensors header"));
        }
        let mut json = vec![0; usize::try_from(header).unwrap_or_default()];
        read_exact_at(&file, &mut json, 8).map_err(failed)?;
        let entries: BTreeMap<String, serde_json::Value> =
            serde_json::from_slice(&json).map_err(|_| bad("its safetensors header is not valid JSON"))?;
        let mut tensors = BTreeMap::new();
        for (name, entry) in entries {
            if name == "__metadata__" {
                continue;
            }
            let entry: Entry = serde_json::from_value(entry)
                .map_err(|_| bad("its header has an invalid tensor description"))?;
            // Unused tensors may have any type.
            let Some(numbers) = Numbers::named(&entry.dtype) else { continue };
            let (from, to) = entry.data_offsets;
            let count = entry.shape.iter().try_fold(1_usize, |all, side| all.checked_mul(*side));
            let bytes = count.and_then(|count| count.checked_mul(numbers.size()));
            let fits = to <= length - 8 - header && from <= to;
            if !fits || bytes.and_then(|bytes| u64::try_from(bytes).ok()) != Some(to - from) {
                return Err(bad(&format!("its header has invalid offsets for tensor `{name}`")));
            }
            tensors.insert(name, Tensor { numbers, shape: entry.shape, start: 8 + header + from });
        }
        Ok(Self { file, path: path.to_owned(), tensors })
    }

    pub(super) fn get(&self, name: &str) -> Option<&Tensor> {
        self.tensors.get(name)
    }

    /// All numbers of a tensor.
    pub(super) fn read(&self, tensor: &Tensor) -> Result<Vec<f32>, ModelError> {
        let count: usize = tensor.shape.iter().product();
        let mut left = count * tensor.numbers.size();
        let mut numbers = Vec::with_capacity(count);
        let mut block = vec![0; left.min(BLOCK)];
        let mut at = tensor.start;
        while left > 0 {
            let part = left.min(BLOCK);
            read_exact_at(&self.file, &mut block[..part], at)
                .map_err(|source| ModelError::Read { path: self.path.clone(), source })?;
            tensor.numbers.decode(&block[..part], &mut numbers);
            left -= part;
            at += part as u64;
        }
        Ok(numbers)
    }

    /// A tensor that has to be there with this shape.
    pub(super) fn tensor(&self, name: &str, shape: &[usize]) -> Result<&Tensor, ModelError> {
        let reason = match self.get(name) {
            Some(tensor) if tensor.shape == shape => return Ok(tensor),
            Some(tensor) => format!("`{name}` has the shape {:?} instead of {shape:?}", tensor.shape),
            None => format!("it has no tensor `{name}`"),
        };
        Err(ModelError::Content { path: self.path.clone(), reason })
    }

    /// The numbers of such a tensor.
    pub(super) fn expect(&self, name: &str, shape: &[usize]) -> Result<Vec<f32>, ModelError> {
        self.read(self.tensor(name, shape)?)
    }

    /// One row of a table, appended.
    pub(super) fn read_row(&self, table: &Tensor, row: usize, into: &mut Vec<f32>) -> Result<(), ModelError> {
        let width = table.shape.get(1).copied().unwrap_or_default() * table.numbers.size();
        if table.shape.first().is_none_or(|rows| row >= *rows) {
            let reason = format!("its table has no row {row}, but the tokenizer has that token");
            return Err(ModelError::Content { path: self.path.clone(), reason });
        }
        let mut bytes = vec![0; width];
        read_exact_at(&self.file, &mut bytes, table.start + (row * width) as u64)
            .map_err(|source| ModelError::Read { path: self.path.clone(), source })?;
        table.numbers.decode(&bytes, into);
        Ok(())
    }
}

#[cfg(unix)]
fn read_exact_at(file: &File, buffer: &mut [u8], offset: u64) -> io::Result<()> {
    std::os::unix::fs::FileExt::read_exact_at(file, buffer, offset)
}

#[cfg(windows)]
fn read_exact_at(file: &File, mut buffer: &mut [u8], mut offset: u64) -> io::Result<()> {
    while !buffer.is_empty() {
        let count = std::os::windows::fs::FileExt::seek_read(file, buffer, offset)?;
        if count == 0 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        offset += count as u64;
        buffer = &mut buffer[count..];
    }
    Ok(())
}

#[cfg(test)]
#[expect(clippy::disallowed_methods, reason = "scratch files need no care")]
mod tests {
    use super::*;

    fn file(header: &str, data: &[u8]) -> (tempfile::TempDir, PathBuf) {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("x.safetensors");
        let mut bytes = (header.len() as u64).to_le_bytes().to_vec();
        bytes.extend_from_slice(header.as_bytes());
        bytes.extend_from_slice(data);
        std::fs::write(&path, bytes).unwrap();
        (folder, path)
    }

    #[test]
    fn every_kind_of_number_is_read() {
        let cases: &[(&str, &[u8], &[f32])] = &[
            ("F32", &[0, 0, 0x80, 0x3f, 0, 0, 0, 0xc0], &[1.0, -2.0]),
            // 1, -2, 2^-24 (the smallest), 65504 (the largest)
            ("F16", &[0, 0x3c, 0, 0xc0, 1, 0, 0xff, 0x7b], &[1.0, -2.0, 5.960_464_5e-8, 65504.0]),
            ("BF16", &[0x80, 0x3f, 0, 0xc0], &[1.0, -2.0]),
            ("I8", &[1, 0xfe], &[1.0, -2.0]),
            ("I64", &[5, 0, 0, 0, 0, 0, 0, 0], &[5.0]),
        ];
        for (name, bytes, expected) in cases {
            let header = format!(
                r#"{{"t":{{"dtype":"{name}","shape":[{}],"data_offsets":[0,{}]}}}}"#,
                expected.len(),
                bytes.len()
            );
            let (_folder, path) = file(&header, bytes);
            let tensors = SafeTensors::open(&path).unwrap();
            assert_eq!(tensors.read(tensors.get("t").unwrap()).unwrap(), *expected, "{name}");
        }
    }

    #[test]
    fn a_file_that_lies_is_refused() {
        let cases: &[(&str, &str)] = &[
            ("{", "not valid JSON"),
            (r#"{"t":{"dtype":"F32","shape":[2],"data_offsets":[0,4]}}"#, "invalid offsets"),
            (r#"{"t":{"dtype":"F32","shape":[2],"data_offsets":[4,12]}}"#, "invalid offsets"),
            (
                r#"{"t":{"dtype":"F32","shape":[18446744073709551615,9],"data_offsets":[0,4]}}"#,
                "invalid offsets",
            ),
            (r#"{"t":{"dtype":"F32","shape":[-1],"data_offsets":[0,4]}}"#, "invalid tensor description"),
            (r#"{"t":3}"#, "invalid tensor description"),
        ];
        for (header, reason) in cases {
            let (_folder, path) = file(header, &[0; 8]);
            let error = SafeTensors::open(&path).unwrap_err().to_string();
            assert!(error.contains(reason), "{header}: {error}");
        }
        let (_folder, path) = file("", &[]);
        std::fs::write(&path, [255; 8]).unwrap();
        assert!(SafeTensors::open(&path).unwrap_err().to_string().contains("header"));
        std::fs::write(&path, [0; 3]).unwrap();
        assert!(SafeTensors::open(&path).unwrap_err().to_string().contains("too short"));
    }
}
