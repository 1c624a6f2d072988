//! Search over notes and sessions by keywords and vectors.

pub(crate) mod answer;
mod focus;
mod forms;
mod fuse;
mod keyword;
pub(crate) mod reader;
mod seed;
pub(crate) mod words;
