//! Completions and manual pages, generated from the command line's definition.

use std::path::Path;

use clap::Command;
use clap_complete::Shell;
use clap_mangen::Man;
use pollux_config::env::Env;
use pollux_config::files::{self, FileError, Mode};
use pollux_domain::exit::ExitKind;
use pollux_domain::failure::Failure;

use crate::command_line;

/// The completions of a shell.
pub(crate) fn completions(shell: Shell) -> String {
    let mut text = Vec::new();
    clap_complete::generate(shell, &mut command_line(), "pollux", &mut text);
    String::from_utf8_lossy(&text).into_owned()
}

/// The main manual page.
pub(crate) fn main_page() -> Result<String, Failure> {
    page(&command_line())
}

/// Writes a manual page for every command into a folder, and says how many there are.
pub(crate) fn write_pages(folder: &Path, env: &Env) -> Result<String, Failure> {
    let folder = env.cwd().join(folder);
    let count = write_page(&command_line(), &folder)?;
    Ok(format!("Wrote {count} manual pages to {}\n", folder.display()))
}

fn not_written(error: FileError) -> Failure {
    Failure::new(ExitKind::Failure, "could not write manual pages").because(&error)
}

fn write_page(command: &Command, folder: &Path) -> Result<usize, Failure> {
    let name = command.get_display_name().unwrap_or_else(|| command.get_name());
    let file = folder.join(format!("{name}.1"));
    files::replace(&file, page(command)?.as_bytes(), Mode::Shared).map_err(not_written)?;
    let below = command.get_subcommands().map(|inner| write_page(inner, folder));
    below.sum::<Result<usize, Failure>>().map(|below| below + 1)
}

fn page(command: &Command) -> Result<String, Failure> {
    let mut text = Vec::new();
    let rendered = Man::new(command.clone()).manual("Pollux").render(&mut text);
    rendered
        .map_err(|error| Failure::new(ExitKind::Failure, "could not render a manual page").because(&error))?;
    Ok(String::from_utf8_lossy(&text).into_owned())
}
