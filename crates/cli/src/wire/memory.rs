//! The memory behind `pollux memory`.

mod command;
mod models;

pub(crate) use command::notebook;
