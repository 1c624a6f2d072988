//! Integration tests of the policy crate.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

#[path = "it/corpus.rs"]
mod corpus;
#[path = "it/denied.rs"]
mod denied;
#[path = "it/differential.rs"]
mod differential;
#[path = "it/disguised.rs"]
mod disguised;
#[path = "it/everyday.rs"]
mod everyday;
#[path = "../../fuzz/src/policy/grammar.rs"]
mod grammar;
#[path = "it/lines.rs"]
mod lines;
#[path = "it/listed.rs"]
mod listed;
#[path = "it/nested.rs"]
mod nested;
#[path = "it/reads.rs"]
mod reads;
#[path = "it/ruled.rs"]
mod ruled;
#[path = "it/steered.rs"]
mod steered;
#[path = "it/tracked.rs"]
mod tracked;
