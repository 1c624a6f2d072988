//! The help text of `pollux policy`.

pub(super) const HELP: &str = r#"Policy: what the rules say about calls, and whether they are sound

Usage: pollux policy explain [--json] --tool NAME --args JSON [--approval-mode MODE] [--headless]
       pollux policy list [--json] [--approval-mode MODE] [--headless]
       pollux policy replay [--json] [--all-projects] [sessions..] [--approval-mode MODE] [--headless]
       pollux policy test <file>
       pollux policy lint [files..]

  explain  the final outcome of one call, which is not made: allow, ask or deny, and why
  list     every rule in force, in the order in which they are tried
  replay   the calls of past sessions through the rules: how many pass, and which do not
  test     a table of calls with what is expected of each; exit 1 if one turns out otherwise
  lint     what is wrong with policy files, those of a run unless some are named; exit 1 on errors

Options:
      --approval-mode <mode>     default, auto_edit, yolo or plan
      --headless                 nobody can be asked, as in `pollux -p`
      --all-projects             sessions of all projects, not only of this folder
      --allowed-tools <list>     tools that need no approval
      --policy <list>            policy files or folders instead of ~/.gemini/policies
      --admin-policy <list>      the same with the rank of the administrator
      --skip-trust               trust this folder for this question

Examples:
  pollux policy explain --tool run_shell_command --args '{"command": "git push"}'
  pollux policy explain --json --tool write_file --args '{"file_path": "a", "content": ""}' --headless
  pollux policy replay --headless --policy team.toml
  pollux policy lint .gemini/policies
"#;
