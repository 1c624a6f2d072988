//! The help text of `pollux config`.

pub(super) const HELP: &str = r#"Settings: what holds, and where it comes from

Usage: pollux config show [--origin] [--json]
       pollux config get <key>
       pollux config set <key> <value> [--scope user|project]

  show     every setting as `key = value`; --origin adds the file, variable or flag it comes from
  get      one value, bare; an object as JSON
  set      change a settings file and keep its comments; the user's file unless --scope project

Examples:
  pollux config show --origin
  pollux config get model.name
  pollux config set model.name gemini-2.5-pro
"#;
