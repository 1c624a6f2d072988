//! What users add to the agent.
//!
//! Owns: context files (`GEMINI.md` and friends) with their imports, and the picture of the workspace that
//! the first message carries. Does not own: when any of it is used; that is the agent's business.
//! Start at [`context::ContextFiles`].

pub mod agents;
pub mod commands;
pub mod context;
pub mod extension;
pub mod frontmatter;
pub mod imports;
pub mod skills;
pub mod tree;
