//! The help about skills.

pub(super) const HELP: &str = r#"Skills: instructions that the model takes when a task calls for them

Usage: pollux skills list [--all] [--json]
       pollux skills show <name> [--json]
       pollux skills enable <name>
       pollux skills disable <name> [--scope user|workspace]
       pollux skills install <source> [--scope user|workspace] [--path FOLDER] [--consent]
       pollux skills link <folder> [--scope user|workspace] [--consent]
       pollux skills uninstall <name> [--scope user|workspace]
       pollux skills validate <folder> [--json]
       pollux skills reload

  list       every skill with its description and where it is; --all adds those that are part of the program
  show       one skill with its instructions
  enable     takes a skill off the lists of those that are switched off
  disable    puts it on such a list, in the project's settings unless --scope user
  install    copies skills from a folder, a .skill, .zip or .tar.gz file, a git address or GitHub's owner/repo,
             after showing what would be installed
  link       the same with links instead of copies, for a skill that is being written
  uninstall  removes an installed or linked skill; what a link leads to stays
  validate   checks a folder against the public Agent Skills specification; exit 1 if it does not hold
  reload     looks at all skills anew and says what is wrong with them; in a conversation: /skills reload

Options:
  -s, --scope user|workspace     ~/.gemini or the project's .gemini (user; workspace for disable)
      --path <folder>            a folder inside the source
      --consent                  agree without being asked; needed where there is no terminal
      --json                     for programs
      --skip-trust               trust this folder for this run

A skill is a folder with a SKILL.md. They are looked for in extensions, ~/.gemini/skills, ~/.agents/skills, and,
where the folder is trusted, in .gemini/skills and .agents/skills; of two with one name the later one counts. In
a conversation `/name` calls a skill, as in -p "/name words".

Examples:
  pollux skills list --all
  pollux skills install https://github.com/anthropics/skills --path skills/pdf
  pollux skills link ./my-skill --scope workspace
  git diff | pollux -p "/review-change"
"#;
