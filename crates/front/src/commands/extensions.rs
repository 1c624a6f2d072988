//! `/extensions`: what there is, and switching it on and off.

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
            Ok((lines, then)) => self.run_extensions(lines, then),
            Err(usage) => usage,
        };
        self.ui.note(text.trim_end());
    }

    fn run_extensions(&self, lines: Vec<Vec<&str>>, then: &str) -> String {
        let (mut out, mut err) = (String::new(), String::new());
        let mut failures = String::new();
        for words in lines {
            // Whoever has to be asked is asked in a shell, where the whole text fits.
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

/// The lines of `pollux extensions` that a line stands for, and a word about when they count.
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
