//! Content that users and third parties add to the agent.
//!
//! Owns: context files (`GEMINI.md` and others) with their imports, the picture of the workspace in the first
//! message, skills, agent definitions, custom commands and extensions, and which one wins if two have the same
//! name.
//! Does not own: when any of it is used (`agent`), and installing it (`install`).
//! Start at [`context::ContextFiles`], [`skills::discover`] or [`extension::load`].

pub mod agents;
pub mod commands;
pub mod context;
pub mod extension;
pub mod frontmatter;
pub mod imports;
pub mod skills;
pub mod tree;
