//! The help text of `pollux trust`.

pub(super) const HELP: &str = r#"Trust: what a folder would run, and whether it may

Usage: pollux trust show [--json] [folder]
       pollux trust allow [--parent] [--yes] [folder]
       pollux trust deny [folder]
       pollux trust diff [--json] [folder]

  show     where the folder stands and why, and every command, setting and variable that it would bring;
           nothing is run
  allow    trust it with what it holds now, after a question; a later change has to be allowed again
  deny     never trust it, whatever is said about the folders above
  diff     what changed since it was trusted

Options:
      --parent                   trust the folder above, too, with all that is in it
  -y, --yes                      do not ask; needed where there is no terminal
      --json                     for programs

The folder is the working directory unless one is named.

Examples:
  pollux trust show
  pollux trust allow
  pollux trust diff ~/src/project
"#;
