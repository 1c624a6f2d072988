//! `pollux models serve`: a model file for other programs.

use clap::Args;
use pollux_domain::failure::{Failure, print_result};
use pollux_host::local_server::serve;

use crate::context::Context;

#[derive(Debug, Clone, PartialEq, Eq, Args)]
pub struct ServeArgs {
    /// Port to listen on (default: any free port)
    #[arg(long, value_name = "port")]
    pub port: Option<u16>,
    /// GGUF file, or a model name such as gguf//models/qwen3-8b.gguf
    #[arg(value_name = "model")]
    pub model: String,
}

/// Serves until the server exits or the program is stopped, which also stops the server.
pub(super) fn run(args: &ServeArgs, context: &mut Context<'_>) -> Result<(), Failure> {
    let out = &mut *context.out;
    serve(context.request, context.env, &args.model, args.port, &mut |text| print_result(out, text))
}
