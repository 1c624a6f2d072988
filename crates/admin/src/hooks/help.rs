//! The help text of `pollux hooks`.

pub(super) const HELP: &str = r#"Hooks: your own commands at certain moments, and what they would do

Usage: pollux hooks list [--json]
       pollux hooks enable <name> [--scope user|project]
       pollux hooks disable <name> [--scope user|project]
       pollux hooks migrate --from-claude
       pollux hooks run <event> [--input FILE|-] [--json]

  list     every hook with its event, its command and where it is configured
  enable   take a hook off the list of those that are switched off
  disable  put a hook on that list, by its name, or by its command if it has none; in your own settings unless
           --scope project, which is for hooks of the project alone
  migrate  write the hooks of Claude Code (.claude/settings.json) into .gemini/settings.json
  run      run the hooks of one event for real, with a sample of its input, and tell what each answered and
           what would come of it

Options:
      --input <file>             the event's own keys as a JSON object, laid over the sample; `-` for stdin
      --json                     for programs
      --scope <user|project>     which settings file is changed
      --skip-trust               trust this folder for this run

Events:
  SessionStart SessionEnd BeforeAgent AfterAgent BeforeModel AfterModel BeforeToolSelection BeforeTool
  AfterTool PreCompress Notification

Examples:
  pollux hooks list
  pollux hooks run BeforeTool
  echo '{"tool_name": "write_file", "tool_input": {"file_path": "a"}}' | pollux hooks run BeforeTool --input -
"#;
