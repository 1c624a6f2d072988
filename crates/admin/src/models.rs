//! `pollux models`: models with their context windows, prices and capabilities; serving a model file.

mod arguments;
mod page;
mod serve;

use pollux_domain::exit::ExitKind;
use pollux_domain::failure::{Failure, print_result};
use pollux_domain::plural::counted;
use pollux_host::providers::set::{ProviderSet, provider_set};

pub use arguments::{ListArgs, ModelsArgs, ModelsCommand};
pub use serve::ServeArgs;

use crate::context::Context;

/// Runs the command.
pub fn run(command: &ModelsCommand, context: &mut Context<'_>) -> Result<(), Failure> {
    match command {
        ModelsCommand::List(args) => {
            let set = provider_set(context.request, context.env)?;
            context.note(&set.notes());
            list(args, &set, context)
        }
        ModelsCommand::Serve(args) => serve::run(args, context),
    }
}

fn list(args: &ListArgs, set: &ProviderSet, context: &mut Context<'_>) -> Result<(), Failure> {
    let only = args.provider.as_deref();
    let asked = if args.refresh { refresh(only, set, context)? } else { Ok(()) };
    let rows = set.models(only)?;
    print_result(context.out, &page::list(&rows, args.json))?;
    asked
}

/// Queries the servers and reports the result. Models that are known without them are listed in any case.
fn refresh(
    only: Option<&str>,
    set: &ProviderSet,
    context: &mut Context<'_>,
) -> Result<Result<(), Failure>, Failure> {
    let refreshed = set.refresh(only)?;
    if refreshed.is_empty() {
        let text = "nothing to refresh: no provider has a key and no local server responds";
        return Ok(Err(
            Failure::new(ExitKind::Auth, text).hint("run `pollux providers` to see missing keys and servers")
        ));
    }
    let mut failed = Vec::new();
    for provider in &refreshed {
        match &provider.models {
            Ok(count) => context.warn(&[format!("{}: {}", provider.provider, counted(*count, "model"))]),
            Err(reason) => failed.push(format!("{}: {reason}", provider.provider)),
        }
    }
    if failed.len() < refreshed.len() {
        context.warn(&failed.iter().map(|line| format!("Warning: {line}")).collect::<Vec<_>>());
        return Ok(Ok(()));
    }
    let text = format!("could not refresh the models: {}", failed.join("; "));
    Ok(Err(Failure::new(ExitKind::Failure, text)))
}

#[cfg(test)]
mod tests;
