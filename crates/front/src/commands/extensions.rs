//! `/extensions`: what there is, and switching it on and off.

use pollux_admin::extensions::ExtensionsCommand;
use pollux_host::extension_set::SwitchScope;

use crate::Front;

/// The extensions of a conversation are those that the program began with.
const NEXT_TIME: &str = "This counts from the next start on.";

const USAGE: &str = "\
Usage: /extensions [list]
       /extensions enable|disable <name> [--scope=user|workspace]
       /extensions update|uninstall <names>|--all
`pollux extensions` in a shell also installs, links and configures them.";

impl Front<'_, '_> {
    pub(super) fn extensions(&mut self, rest: &str) {
        let text = match command(rest) {
            Ok((commands, then)) => self.run_extensions(commands, then),
            Err(usage) => usage,
        };
        self.face.note(text.trim_end());
    }

    fn run_extensions(&self, commands: Vec<ExtensionsCommand>, then: &str) -> String {
        let (mut out, mut err) = (String::new(), String::new());
        let mut failures = String::new();
        for command in commands {
            // Whoever has to be asked is asked in a shell, where the whole text fits.
            let done = self.subcommand(command);
            out.push_str(&done.out);
            err.push_str(&done.err);
            if let Err(failure) = done.result {
                failures.push_str(&format!("{}\n", failure.message()));
            }
        }
        format!("{err}{out}{failures}{then}")
    }
}

/// What a line asks for, and a word about when it counts.
fn command(rest: &str) -> Result<(Vec<ExtensionsCommand>, &'static str), String> {
    let words: Vec<&str> = rest.split_whitespace().collect();
    let (word, rest) = words.split_first().map_or(("list", &[][..]), |(word, rest)| (*word, rest));
    let (flags, names): (Vec<&str>, Vec<&str>) = rest.iter().partition(|word| word.starts_with("--"));
    let all = flags.contains(&"--all");
    match (word, names.as_slice()) {
        ("list", _) => Ok((vec![ExtensionsCommand::List { json: false }], "")),
        ("enable" | "disable", [name]) => {
            let scope = match flags.first().and_then(|flag| flag.strip_prefix("--scope=")) {
                None => SwitchScope::Unsaid,
                Some("user") => SwitchScope::User("user".to_owned()),
                Some("workspace") => SwitchScope::Workspace("workspace".to_owned()),
                Some(_) => return Err(USAGE.to_owned()),
            };
            let name = (*name).to_owned();
            Ok((vec![ExtensionsCommand::Switch { name, on: word == "enable", scope }], NEXT_TIME))
        }
        ("uninstall" | "delete", names) if all || !names.is_empty() => {
            let names = names.iter().map(|name| (*name).to_owned()).collect();
            Ok((vec![ExtensionsCommand::Uninstall { names, all }], NEXT_TIME))
        }
        ("update", _) if all => Ok((vec![ExtensionsCommand::Update { name: None }], NEXT_TIME)),
        ("update", []) => Err("Usage: /extensions update <extension-names>|--all".to_owned()),
        ("update", names) => {
            let each = names.iter().map(|name| ExtensionsCommand::Update { name: Some((*name).to_owned()) });
            Ok((each.collect(), NEXT_TIME))
        }
        ("install" | "link" | "config", _) => Err(format!(
            "`pollux extensions {word}` in a shell does this: there is something to read and to answer."
        )),
        _ => Err(USAGE.to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_is_a_command_or_is_explained() {
        assert_eq!(command("").unwrap().0, [ExtensionsCommand::List { json: false }]);
        let switch = ExtensionsCommand::Switch {
            name: "x".to_owned(),
            on: false,
            scope: SwitchScope::Workspace("workspace".to_owned()),
        };
        assert_eq!(command("disable x --scope=workspace").unwrap().0, [switch]);
        assert_eq!(command("update a b").unwrap().0.len(), 2);
        assert_eq!(command("uninstall --all").unwrap().0.len(), 1);
        for wrong in ["enable", "update", "uninstall", "frob", "install x", "enable x --scope=all"] {
            assert!(command(wrong).is_err(), "{wrong}");
        }
    }
}
