//! `/extensions`: list, enable, disable, update and uninstall extensions.

use crate::Front;

/// Extensions are loaded at program start.
const NEXT_TIME: &str = "The change applies after a restart.";

const USAGE: &str = "\
Usage: /extensions [list]
       /extensions enable|disable <name> [--scope=user|workspace]
       /extensions update|uninstall <names>|--all
Run `pollux extensions` in a shell to install, link and configure extensions.";

impl Front<'_, '_> {
    pub(super) fn extensions(&mut self, rest: &str) {
        let text = match command(rest) {
            Ok((lines, then)) => self.run_extensions(lines, then),
            Err(usage) => usage,
        };
        self.ui.note(text.trim_end());
    }

    fn run_extensions(&self, lines: Vec<Vec<&str>>, then: &str) -> String {
        let (mut out, mut err) = (String::new(), String::new());
        let mut failures = String::new();
        for words in lines {
            // Questions with long texts are asked in a shell.
            let done = self.subcommand(&[&["extensions"], words.as_slice()].concat());
            out.push_str(&done.out);
            err.push_str(&done.err);
            if let Err(failure) = done.result {
                failures.push_str(&format!("{}\n", failure.message()));
            }
        }
        format!("{err}{out}{failures}{then}")
    }
}

/// The subcommands that a line stands for, and a note about when they apply.
fn command(rest: &str) -> Result<(Vec<Vec<&str>>, &'static str), String> {
    let words: Vec<&str> = rest.split_whitespace().collect();
    let (word, rest) = words.split_first().map_or(("list", &[][..]), |(word, rest)| (*word, rest));
    let (flags, names): (Vec<&str>, Vec<&str>) = rest.iter().partition(|word| word.starts_with("--"));
    let all = flags.contains(&"--all");
    match (word, names.as_slice()) {
        ("list", _) => Ok((vec![vec!["list"]], "")),
        ("enable" | "disable", [name]) => {
            match flags.first().and_then(|flag| flag.strip_prefix("--scope=")) {
                None => Ok((vec![vec![word, name]], NEXT_TIME)),
                Some(scope @ ("user" | "workspace")) => {
                    Ok((vec![vec![word, name, "--scope", scope]], NEXT_TIME))
                }
                Some(_) => Err(USAGE.to_owned()),
            }
        }
        ("uninstall" | "delete", _) if all => Ok((vec![vec!["uninstall", "--all"]], NEXT_TIME)),
        ("uninstall" | "delete", names) if !names.is_empty() => {
            Ok((vec![[&["uninstall"], names].concat()], NEXT_TIME))
        }
        ("update", _) if all => Ok((vec![vec!["update", "--all"]], NEXT_TIME)),
        ("update", []) => Err("Usage: /extensions update <extension-names>|--all".to_owned()),
        ("update", names) => Ok((names.iter().map(|name| vec!["update", name]).collect(), NEXT_TIME)),
        ("install" | "link" | "config", _) => {
            Err(format!("Run `pollux extensions {word}` in a shell: it asks questions."))
        }
        _ => Err(USAGE.to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_is_a_command_or_is_explained() {
        assert_eq!(command("").unwrap().0, [["list"]]);
        let switch = [["disable", "x", "--scope", "workspace"]];
        assert_eq!(command("disable x --scope=workspace").unwrap().0, switch);
        assert_eq!(command("update a b").unwrap().0.len(), 2);
        assert_eq!(command("uninstall --all").unwrap().0.len(), 1);
        for wrong in ["enable", "update", "uninstall", "frob", "install x", "enable x --scope=all"] {
            assert!(command(wrong).is_err(), "{wrong}");
        }
    }
}
