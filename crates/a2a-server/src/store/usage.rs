//! What owners used in a day. Each server writes what was used with it; together they are what counts.

use pollux_blobs::Condition;
use serde_json::{Value, json};

use super::{TaskStore, key};
use crate::error::A2aError;

/// What was used.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Used {
    pub(crate) tokens: u64,
    pub(crate) micro_usd: u64,
}

impl Used {
    pub(crate) fn plus(self, other: Self) -> Self {
        Self {
            tokens: self.tokens.saturating_add(other.tokens),
            micro_usd: self.micro_usd.saturating_add(other.micro_usd),
        }
    }
}

impl TaskStore {
    /// What an owner used on a day with other servers, also with those that are gone.
    pub(crate) async fn used_elsewhere(&self, owner: &str, day: i64) -> Result<Used, A2aError> {
        let mut all = Used::default();
        for (key, replica) in self.names(&folder(owner, day)).await? {
            if replica == self.replica {
                continue;
            }
            let Some(blob) = self.blobs.get(&key).await? else { continue };
            let value: Value = serde_json::from_slice(&blob.bytes).unwrap_or(Value::Null);
            let number = |name: &str| value.get(name).and_then(Value::as_u64).unwrap_or_default();
            all = all.plus(Used { tokens: number("tokens"), micro_usd: number("microUsd") });
        }
        Ok(all)
    }

    /// Records what an owner used on a day with this server.
    pub(crate) async fn set_used(&self, owner: &str, day: i64, used: Used) -> Result<(), A2aError> {
        let key = key(&format!("{}{}", folder(owner, day), self.replica))?;
        let text = json!({"tokens": used.tokens, "microUsd": used.micro_usd}).to_string();
        self.blobs.put(&key, text.as_bytes(), Condition::Any).await?;
        Ok(())
    }

    /// Deletes what was recorded about days before this one.
    pub(crate) async fn forget_used(&self, owner: &str, before: i64) -> Result<(), A2aError> {
        for (key, name) in self.names(&format!("usage/{owner}/")).await? {
            let day = name.split('/').next().and_then(|day| day.parse::<i64>().ok());
            if day.is_some_and(|day| day < before) {
                self.blobs.delete(&key, Condition::Any).await?;
            }
        }
        Ok(())
    }
}

fn folder(owner: &str, day: i64) -> String {
    format!("usage/{owner}/{day:06}/")
}
