//! The help texts of `pollux sessions`.

/// A page for each command, the overview first.
const PAGES: &[(&str, &str)] = &[
    ("", OVERVIEW),
    ("list", LIST),
    ("show", SHOW),
    ("search", SEARCH),
    ("transcript", TRANSCRIPT),
    ("find-project", FIND_PROJECT),
    ("export", EXPORT),
    ("import", IMPORT),
    ("delete", DELETE),
    ("prune", PRUNE),
    ("verify", VERIFY),
    ("stats", STATS),
    ("rewind", REWIND),
];

/// The name of a command's page.
pub(super) fn page(command: &str) -> &'static str {
    PAGES.iter().find(|(name, _)| *name == command).map_or("", |(name, _)| name)
}

pub(super) fn text(page: &str) -> &'static str {
    PAGES.iter().find(|(name, _)| *name == page).map_or(OVERVIEW, |(_, text)| text)
}

const OVERVIEW: &str = r#"Sessions: what was said and done, in this project and everywhere

Usage: pollux sessions list [--all-projects] [--source all|gemini|claude|codex|opencode] [--json]
       pollux sessions show ID
       pollux sessions search WORDS… [--json]
       pollux sessions transcript ID --format text|markdown|jsonl
       pollux sessions find-project NAME [--json]
       pollux sessions export ID --output FILE
       pollux sessions import ID|FILE [--source claude|codex|opencode]
       pollux sessions delete ID [--yes]
       pollux sessions prune [--dry-run] [--yes]
       pollux sessions verify [--repair]
       pollux sessions stats [--json]
       pollux sessions rewind ID --to PROMPT_NUMBER|MESSAGE_ID --conversation|--files|--both [--yes]

ID is a number of the list, an id, four or more characters that only one id begins with, or `latest`.
Reading needs no key and no network and changes nothing. `pollux sessions list --help` and so on
explain each of them.

Examples:
  pollux sessions list
  pollux sessions search database migration
  pollux sessions transcript latest
  pollux --resume 3
"#;

const LIST: &str = r#"List sessions

Usage: pollux sessions list [--all-projects] [--source all|gemini|claude|codex|opencode]
                            [--subagents] [--json]

The sessions of this project, oldest first, with the numbers that `--resume` takes.

Options:
      --all-projects       of every project, grouped
      --source <name>      gemini (the default: Pollux' and gemini-cli's), claude, codex, opencode or all
      --subagents          sub-agents' sessions, too, below the one that started them
      --json               for programs

Examples:
  pollux sessions list
  pollux sessions list --all-projects --source all
"#;

const SHOW: &str = r#"Show one session: where it is, how large, and what was asked

Usage: pollux sessions show ID [--all-projects] [--source gemini|claude|codex|opencode] [--json]

An id that this project does not have is looked for in the other projects and agents.
The numbers of the prompts are those that `pollux sessions rewind --to` takes.

Examples:
  pollux sessions show latest
  pollux sessions show 3 --json
  pollux sessions show 0f9d --source claude
"#;

const SEARCH: &str = r#"Search what was said and done in all sessions

Usage: pollux sessions search WORDS… [--this-project] [--source all|gemini|claude|codex|opencode]
                              [--subagents] [--limit N] [--json]

Finds messages that hold all the words, best and latest first. The last word may be a beginning;
'"two words"' is a phrase. The first search reads every session; later ones read what changed.

Examples:
  pollux sessions search database migration
  pollux sessions search '"connection refused"' --this-project
"#;

const TRANSCRIPT: &str = r#"Print a session as people read it

Usage: pollux sessions transcript ID [--format text|markdown|jsonl] [--all-projects]
                                  [--source gemini|claude|codex|opencode]

Who said what, which tools were called, what failed. Thoughts and outputs are left out.

Examples:
  pollux sessions transcript latest
  pollux sessions transcript 3 --format markdown > talk.md
"#;

const FIND_PROJECT: &str = r#"Find a project and its sessions by a part of its name

Usage: pollux sessions find-project NAME [--json]

Session files hold only a hash of the project's path. It is looked up among the projects that are known,
in the usual folders (~, ~/dev, ~/projects, ~/src, ~/code, …), and in what tools were called with.

Examples:
  pollux sessions find-project shop
  pollux sessions find-project shop --json
"#;

const EXPORT: &str = r#"Write a session into a file of its own

Usage: pollux sessions export ID --output FILE [--yes] [--all-projects] [--json]

The whole record as indented JSON, as gemini-cli's /export-session writes it. `--session-file FILE` and
`pollux sessions import FILE` take it. A file that is there is replaced only with --yes.

Examples:
  pollux sessions export latest --output talk.json
"#;

const IMPORT: &str = r#"Make a session of this project from a file or another agent's session

Usage: pollux sessions import ID|FILE [--source gemini|claude|codex|opencode] [--json]

The conversation is copied under a new id; `--resume` goes on with it. Tool calls of other agents become
notes in the text. What is copied from is only read.

Examples:
  pollux sessions import talk.json
  pollux sessions import 0f9d --source claude
"#;

const DELETE: &str = r#"Delete a session with everything that belongs to it

Usage: pollux sessions delete ID [--yes] [--all-projects] [--json]

Says what goes and asks first; where there is no terminal --yes is needed. A session in use stays.
Sessions of other agents are never deleted.

Examples:
  pollux sessions delete 3
  pollux sessions delete latest --yes
"#;

const PRUNE: &str = r#"Delete old sessions of all projects

Usage: pollux sessions prune [--dry-run] [--yes] [--json]

What is old, general.sessionRetention says: maxAge, maxCount (for each project) and minRetention.

Options:
      --dry-run            only list every file with the reason
  -y, --yes                do not ask; needed where there is no terminal

Examples:
  pollux sessions prune --dry-run
"#;

const VERIFY: &str = r#"Check every session file of every project

Usage: pollux sessions verify [--repair] [--json]

Exit 1 if something is damaged. With --repair a cut end, missing or repeated ids and locks of processes
that are gone are put right, after a copy was kept beside the file. What cannot be read is left alone.

Examples:
  pollux sessions verify
  pollux sessions verify --repair
"#;

const STATS: &str = r#"How many sessions there are, and how much is in them

Usage: pollux sessions stats [--json]

Examples:
  pollux sessions stats
"#;

const REWIND: &str = r#"Go back to the moment before a prompt

Usage: pollux sessions rewind ID --to PROMPT_NUMBER|MESSAGE_ID --conversation|--files|--both
                              [--overwrite] [--yes] [--all-projects] [--json]

Shows what would happen and asks first; where there is no terminal --yes is needed. The message itself
and everything behind it goes; `pollux sessions show` has the numbers and ids.

Options:
      --conversation       take the messages back
      --files              put the project's files back
      --both               both
      --overwrite          also files that somebody else changed since

Examples:
  pollux sessions rewind latest --to 2 --conversation
  pollux sessions rewind 3 --to 1 --both --yes
"#;
