//! The sessions behind `pollux sessions`.

mod archive;
mod details;
mod going_back;
mod incoming;

pub(crate) use archive::archive;
