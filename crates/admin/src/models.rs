//! `pollux models`: serve a model file to other programs.

mod arguments;
mod serve;

use pollux_domain::failure::Failure;

pub use arguments::{ModelsArgs, ModelsCommand};
pub use serve::ServeArgs;

use crate::context::Context;

/// Runs the command.
pub fn run(command: &ModelsCommand, context: &mut Context<'_>) -> Result<(), Failure> {
    match command {
        ModelsCommand::Serve(args) => serve::run(args, context),
    }
}
