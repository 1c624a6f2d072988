//! The help about agents.

pub(super) const HELP: &str = r#"Agents: helpers that the model may hand a task to

Usage: pollux agents list [--json]
       pollux agents show <name> [--json]
       pollux agents enable <name> [--scope user|project]
       pollux agents disable <name> [--scope user|project]
       pollux agents acknowledge <name>

  list         every agent: what it is for, where it comes from, and whether it can be asked
  show         one agent: its model, tools, limits and prompt
  enable       let the model ask it again
  disable      keep the model from asking it (`agents.overrides.<name>.enabled` in the settings)
  acknowledge  agree to an agent of this project as it is now; a conversation on a terminal asks by itself

An agent is a Markdown file in ~/.gemini/agents, or in .gemini/agents of a trusted project: a front matter with
name and description, and below it the agent's instructions. In a prompt, @name asks for an agent.

Options:
      --scope user|project    whose settings file is changed (user)
      --json                  for programs
      --skip-trust            trust this folder for this run

Examples:
  pollux agents list
  pollux agents show codebase_investigator
  pollux agents disable generalist
"#;
