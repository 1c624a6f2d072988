//! What users add to the agent.
//!
//! Owns: context files (`GEMINI.md` and friends) with their imports, the picture of the workspace that the first message
//! carries, and what others wrote for the agent: skills, agents' definitions, custom commands, extensions. Which of two with
//! one name counts is decided here. Does not own: when any of it is used; that is the agent's business. Getting it onto the
//! machine; that is `install`.
//! Start at [`context::ContextFiles`], [`skills::discover`] or [`extension::load`].

pub mod agents;
pub mod commands;
pub mod context;
pub mod extension;
pub mod frontmatter;
pub mod imports;
pub mod skills;
pub mod tree;
