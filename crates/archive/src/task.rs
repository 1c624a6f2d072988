//! The metadata of an A2A task, as gemini-cli's server keeps it: gzipped JSON under the name `metadata.tar.gz`.

use std::io::{self, Read as _, Write as _};

use flate2::Compression;
use flate2::read::MultiGzDecoder;
use flate2::write::GzEncoder;
use serde_json::{Map, Value};

/// Limit of the unpacked text.
const MAX_TEXT: u64 = 64 * 1024 * 1024;
/// The member that upstream cannot restore a task without.
const STATE: &str = "__persistedState";

/// Why metadata cannot be used. The texts equal upstream's where it has one.
#[derive(Debug, thiserror::Error)]
pub enum TaskMetadataError {
    #[error("Invalid taskId: {0}")]
    InvalidId(String),
    #[error("Task {0} is missing persisted state in metadata.")]
    MissingState(String),
    #[error("the metadata of task {id} is damaged: {message}")]
    Damaged { id: String, message: String },
    #[error("the metadata of task {id} is larger than {} MiB", MAX_TEXT >> 20)]
    TooLarge { id: String },
}

/// Checks an id as upstream does: letters, digits, `_` and `-`.
pub fn check_task_id(id: &str) -> Result<(), TaskMetadataError> {
    let valid = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'_' || byte == b'-';
    if id.is_empty() || !id.bytes().all(valid) {
        let shown = id.chars().filter(|c| !c.is_control()).take(100).collect();
        return Err(TaskMetadataError::InvalidId(shown));
    }
    Ok(())
}

/// Packs a task's metadata; what could not be unpacked again is refused.
pub fn pack_task_metadata(id: &str, metadata: &Map<String, Value>) -> Result<Vec<u8>, TaskMetadataError> {
    let damaged =
        |error: io::Error| TaskMetadataError::Damaged { id: id.to_owned(), message: error.to_string() };
    let text = serde_json::to_vec(metadata).map_err(|error| damaged(error.into()))?;
    if text.len() as u64 > MAX_TEXT {
        return Err(TaskMetadataError::TooLarge { id: id.to_owned() });
    }
    compress(&text).map_err(damaged)
}

/// Compresses a text, always into the same bytes.
pub fn compress(text: &[u8]) -> io::Result<Vec<u8>> {
    let mut packed = GzEncoder::new(Vec::new(), Compression::default());
    packed.write_all(text)?;
    packed.finish()
}

/// Reverses [`compress`]; `None` for a text that is larger than a task's metadata may be.
pub fn decompress(packed: &[u8]) -> io::Result<Option<Vec<u8>>> {
    let mut text = Vec::new();
    MultiGzDecoder::new(packed).take(MAX_TEXT + 1).read_to_end(&mut text)?;
    Ok(Some(text).filter(|text| text.len() as u64 <= MAX_TEXT))
}

/// Unpacks a task's metadata; it must hold the state that a task is restored from.
pub fn unpack_task_metadata(id: &str, packed: &[u8]) -> Result<Map<String, Value>, TaskMetadataError> {
    let damaged = |message: String| TaskMetadataError::Damaged { id: id.to_owned(), message };
    let text = decompress(packed).map_err(|error| damaged(error.to_string()))?;
    let text = text.ok_or_else(|| TaskMetadataError::TooLarge { id: id.to_owned() })?;
    let value: Value = serde_json::from_slice(&text).map_err(|error| damaged(error.to_string()))?;
    match value {
        Value::Object(metadata) if metadata.get(STATE).is_some_and(Value::is_object) => Ok(metadata),
        Value::Object(_) => Err(TaskMetadataError::MissingState(id.to_owned())),
        _ => Err(damaged("not a JSON object".to_owned())),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn gzip(text: &[u8]) -> Vec<u8> {
        compress(text).unwrap()
    }

    #[test]
    fn metadata_comes_back_with_unknown_members_in_their_order() {
        let text = r#"{"z":1,"__persistedState":{"_agentSettings":{"kind":"agent-settings","workspacePath":"/w"},"_taskState":"input-required"},"_contextId":"c","_pollux":{"rev":3}}"#;
        let metadata = unpack_task_metadata("t", &gzip(text.as_bytes())).unwrap();
        assert_eq!(metadata["_pollux"], json!({"rev": 3}));
        let packed = pack_task_metadata("t", &metadata).unwrap();
        let mut again = String::new();
        MultiGzDecoder::new(&packed[..]).read_to_string(&mut again).unwrap();
        assert_eq!(again, text);
    }

    #[test]
    fn metadata_that_cannot_be_used_is_refused_in_upstreams_words() {
        let said = |packed: &[u8]| unpack_task_metadata("t-1", packed).unwrap_err().to_string();
        assert_eq!(said(&gzip(b"{}")), "Task t-1 is missing persisted state in metadata.");
        assert_eq!(
            said(&gzip(br#"{"__persistedState":7}"#)),
            "Task t-1 is missing persisted state in metadata."
        );
        for damaged in [&gzip(b"[]")[..], &gzip(b"{"), b"plain", b"", &gzip(b"{}")[..8]] {
            assert!(said(damaged).contains("is damaged"), "{damaged:?}");
        }
        let bomb = gzip(&vec![b' '; (MAX_TEXT + 1) as usize]);
        assert!(bomb.len() < 1 << 20 && said(&bomb).contains("larger than 64 MiB"));
        let large = json!({"__persistedState": {}, "text": " ".repeat(MAX_TEXT as usize)});
        let refused = pack_task_metadata("t-1", large.as_object().unwrap()).unwrap_err();
        assert!(refused.to_string().contains("larger than 64 MiB"), "{refused}");
    }

    #[test]
    fn ids_are_checked_as_upstream_does() {
        for good in ["a", "0b9d-_X"] {
            check_task_id(good).unwrap();
        }
        for bad in ["", "../x", "a/b", "a b", "é", "a.b"] {
            assert_eq!(check_task_id(bad).unwrap_err().to_string(), format!("Invalid taskId: {bad}"));
        }
    }
}
