//! Blocks of a task's history.

use pollux_archive::{compress, decompress};
use serde_json::Value;

use super::TaskStore;
use super::pieces::Folder;
use crate::error::{A2aError, ErrorKind};
use crate::task::history::Block;

impl TaskStore {
    /// Writes a block; gives its name. The same block is always the same object.
    pub(crate) async fn save_block(&self, task: &str, block: &Block) -> Result<String, A2aError> {
        let packed = compress(block.to_json().to_string().as_bytes());
        let packed = packed.map_err(|error| A2aError::new(ErrorKind::Internal, error.to_string()))?;
        self.save_piece(task, Folder::History, &packed).await
    }

    /// Reads a block; `None` if it is missing or damaged.
    pub(crate) async fn load_block(&self, task: &str, name: &str) -> Result<Option<Block>, A2aError> {
        let Some(packed) = self.load_piece(task, Folder::History, name).await? else { return Ok(None) };
        let text = decompress(&packed).ok().flatten();
        let value = text.and_then(|text| serde_json::from_slice::<Value>(&text).ok());
        Ok(value.map(|value| Block::read(&value)))
    }

    /// Deletes blocks that no record names any more.
    pub(crate) async fn remove_blocks(&self, task: &str, blocks: &[String]) -> Result<(), A2aError> {
        self.remove_pieces(task, Folder::History, blocks.iter()).await
    }
}
