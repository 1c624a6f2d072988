//! The help about extensions.

pub(super) const HELP: &str = r#"Extensions: bundles of MCP servers, commands, hooks, skills, agents, policies and texts

Usage: pollux extensions install <source> [--ref NAME] [--auto-update] [--pre-release] [--consent] [--skip-settings]
       pollux extensions list [-o text|json]
       pollux extensions update <name> | --all
       pollux extensions uninstall <names..> | --all
       pollux extensions enable|disable <name> [--scope user|workspace]
       pollux extensions config [name] [setting] [--scope user|workspace]
       pollux extensions new <path> [template]
       pollux extensions validate <path>
       pollux extensions link <path> [--consent]

  install    from a folder, an archive (.zip, .tar.gz), a git repository, or a GitHub repository (owner/repo, whose
             release is used if it has one); shows everything that it would run, and asks
  list       what is installed, where it is on, and what it brings along; says so if its files were changed
  update     fetches a newer version and puts it in place as a whole; asks again, with the difference, only if
             there is something new to agree to
  uninstall  removes it with its settings and secrets
  enable     on for the user, or for this folder and those below; without a scope, wherever it was off
  disable    off for the user, or for this folder and those below
  config     sets what an extension wants to know; secrets go to the keychain
  new        begins an extension of your own: custom-commands, exclude-tools, hooks, mcp-server, policies, skills
             or themes-example, or just a manifest
  validate   tells what is wrong with an extension; exit code 1 if something is
  link       uses an extension where it lies, so that every change counts at once

Options:
      --ref <name>               a branch, a tag or a commit
      --auto-update              noted for gemini-cli, which updates such extensions by itself; here, `update --all`
      --pre-release              releases that are not finished, too
      --consent                  agree beforehand; needed where nobody can be asked
      --skip-settings            do not ask for what it wants to know
      --skip-trust               trust this folder for this command

For one run, `pollux -e a,b` uses these extensions and no others, and `-e none` uses none.

Examples:
  pollux extensions new my-tools mcp-server
  pollux extensions link my-tools
  pollux extensions install https://github.com/gemini-cli-extensions/security
  pollux extensions disable security --scope workspace
"#;
