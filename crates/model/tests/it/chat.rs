//! The Chat Completions client against a server that follows a script and checks every request.

mod failures;
pub(crate) mod fixture;
mod replies;
mod requests;
