//! `pollux licenses`: the licences of the crates that the program is built from.

use clap::Args;
use pollux_domain::failure::{Failure, print_result};
use serde_json::{Value, json};

use crate::columns::columns;
use crate::command_line::{RootOptions, SubcommandArgs};
use crate::context::Context;
use crate::usage::UsageError;

/// One crate per line: name, version, licence. Written by `scripts/licenses.sh`.
const LIST: &str = include_str!("licenses/list.txt");

#[derive(Debug, Args)]
#[command(after_help = "Examples:
  pollux licenses
  pollux licenses --json")]
pub struct LicensesArgs {
    /// Output JSON
    #[arg(long)]
    json: bool,
}

/// `pollux licenses`
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LicensesCommand {
    json: bool,
}

impl SubcommandArgs for LicensesArgs {
    type Command = LicensesCommand;

    fn resolve(self, _: &mut RootOptions) -> Result<LicensesCommand, UsageError> {
        Ok(LicensesCommand { json: self.json })
    }
}

/// Runs the command.
pub fn run(command: &LicensesCommand, context: &mut Context<'_>) -> Result<(), Failure> {
    let text = if command.json {
        let row = |[name, version, license]: [&str; 3]| json!({"name": name, "version": version, "license": license});
        format!("{:#}\n", rows().map(row).collect::<Value>())
    } else {
        let heading = ["crate", "version", "license"].map(str::to_owned);
        columns(std::iter::once(heading).chain(rows().map(|row| row.map(str::to_owned))), &[])
    };
    print_result(context.out, &text)
}

fn rows() -> impl Iterator<Item = [&'static str; 3]> {
    LIST.lines().filter_map(|line| {
        let (name, rest) = line.split_once(' ')?;
        let (version, license) = rest.split_once(' ')?;
        Some([name, version, license])
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_crate_of_the_list_is_locked_at_its_version_and_names_a_license() {
        let lock = include_str!("../../../Cargo.lock");
        assert!(rows().count() > 100 && rows().count() == LIST.lines().count());
        for [name, version, license] in rows() {
            let entry = format!("name = \"{name}\"\nversion = \"{version}\"\n");
            assert!(lock.contains(&entry), "{name} {version} is not in Cargo.lock; run scripts/licenses.sh");
            assert!(!license.trim().is_empty(), "{name} has no license");
        }
    }
}
