//! The system prompt: sections in a fixed order, each with its condition. Their texts are files; see [`texts`].

mod texts;

use std::collections::BTreeSet;
use std::path::PathBuf;

use pollux_domain::approval::ApprovalMode;
use pollux_domain::untrusted::sealed;

pub use texts::Profile;
use texts::{Section, Text, fill};

/// What the prompt depends on.
#[derive(Debug, Clone, Default)]
pub struct PromptInputs {
    /// Which texts the model gets; set by the session itself.
    pub profile: Profile,
    pub interactive: bool,
    pub mode: ApprovalMode,
    /// Names of the context files the user may have.
    pub context_file_names: Vec<String>,
    /// The user's own instructions for all projects, framed.
    pub global_context: Option<String>,
    /// Private notes about this project, framed.
    pub project_memory: Option<String>,
    /// Learnings from earlier sessions.
    pub learnings: Option<String>,
    pub in_git_repository: bool,
    /// What kind of sandbox the program runs in, if any.
    pub sandbox: Option<String>,
    /// Where a plan may be written; set by the session itself.
    pub plans_dir: PathBuf,
    /// Disabled sections, by key.
    pub disabled: BTreeSet<String>,
    /// A custom prompt that replaces all sections.
    pub replacement: Option<String>,
    /// The available agents with descriptions; set by the session itself.
    pub agents: Vec<(String, String)>,
    /// The skills that can be activated; set by the session itself.
    pub skills: Option<String>,
    /// Additional rules at the end, before memory, for sub-agents.
    pub appendix: Option<String>,
}

/// The keys for disabling sections with `GEMINI_PROMPT_<KEY>=0`, in section order.
pub const SECTION_KEYS: [&str; 9] = [
    "preamble",
    "coreMandates",
    "primaryWorkflows",
    "planningWorkflow",
    "subAgents",
    "agentSkills",
    "operationalGuidelines",
    "sandbox",
    "git",
];

/// Builds the prompt for these tools.
pub fn build(inputs: &PromptInputs, tools: &[&str]) -> String {
    let mut prompt = match &inputs.replacement {
        Some(own) => substituted(own, inputs, tools),
        None => sections(inputs, tools),
    };
    if let Some(text) = &inputs.appendix {
        prompt.push_str(&format!("\n\n{text}"));
    }
    prompt.push_str(&memory(inputs));
    collapse_blank_lines(&prompt)
}

fn sections(inputs: &PromptInputs, tools: &[&str]) -> String {
    let planning = inputs.mode == ApprovalMode::Plan;
    let texts = [
        ("preamble", Some(preamble(inputs))),
        ("coreMandates", Some(mandates(inputs))),
        ("primaryWorkflows", (!planning).then(|| workflow(inputs, tools))),
        ("planningWorkflow", planning.then(|| planning_workflow(inputs, tools))),
        ("subAgents", agents(inputs, tools)),
        ("agentSkills", inputs.skills.clone()),
        ("operationalGuidelines", Some(guidelines(inputs, tools))),
        ("sandbox", sandbox(inputs, tools)),
        ("git", git(inputs, tools)),
    ];
    texts
        .into_iter()
        .filter(|(key, _)| !inputs.disabled.contains(*key))
        .filter_map(|(_, text)| text)
        .collect::<Vec<_>>()
        .join("\n\n")
}

const SHELL: &str = "run_shell_command";

/// The name of a fragment that depends on whether a person is there.
fn presence(inputs: &PromptInputs) -> &'static str {
    if inputs.interactive { "interactive" } else { "unattended" }
}

fn preamble(inputs: &PromptInputs) -> String {
    let text = Text::of(inputs.profile, Section::Preamble);
    text.filled(&[("manner", text.fragment(presence(inputs)))])
}

fn mandates(inputs: &PromptInputs) -> String {
    let names = match inputs.context_file_names.join("`, `") {
        none if none.is_empty() => String::new(),
        names => format!(" (`{names}`)"),
    };
    let text = Text::of(inputs.profile, Section::Principles);
    text.filled(&[("beyond", text.fragment(presence(inputs))), ("names", &names)])
}

fn workflow(inputs: &PromptInputs, tools: &[&str]) -> String {
    let has = |name: &str| tools.contains(&name);
    let text = Text::of(inputs.profile, Section::Workflow);
    let ways = [("grep_search", "search.text"), ("glob", "search.names"), ("read_file", "search.files")];
    let known: Vec<&str> =
        ways.iter().filter(|(tool, _)| has(tool)).map(|(_, fragment)| text.fragment(fragment)).collect();
    let search = if known.is_empty() { text.fragment("search.none").to_owned() } else { known.join(", ") };
    let change = if has("replace") || has("write_file") { "change" } else { "change.none" };
    let verify = if has(SHELL) { "verify" } else { "verify.none" };
    text.filled(&[("search", &search), ("change", text.fragment(change)), ("verify", text.fragment(verify))])
}

fn planning_workflow(inputs: &PromptInputs, tools: &[&str]) -> String {
    let text = Text::of(inputs.profile, Section::Planning);
    let (allowed, deliver) = match tools.contains(&"write_file") {
        true => ("allowed.file", "deliver.file"),
        false => ("allowed.text", "deliver.text"),
    };
    let place = inputs.plans_dir.display().to_string();
    let allowed = fill(text.fragment(allowed), &[("place", &place)]);
    text.filled(&[("allowed", &allowed), ("deliver", text.fragment(deliver))])
}

fn agents(inputs: &PromptInputs, tools: &[&str]) -> Option<String> {
    if inputs.agents.is_empty() || !tools.contains(&"invoke_agent") {
        return None;
    }
    let lines: Vec<String> =
        inputs.agents.iter().map(|(name, purpose)| format!("- `{name}`: {}", sealed(purpose))).collect();
    Some(Text::of(inputs.profile, Section::Agents).filled(&[("agents", &lines.join("\n"))]))
}

fn guidelines(inputs: &PromptInputs, tools: &[&str]) -> String {
    let text = Text::of(inputs.profile, Section::Style);
    let shell = if tools.contains(&SHELL) { text.fragment("shell") } else { "" };
    text.filled(&[("shell", shell), ("declined", text.fragment(presence(inputs)))])
}

fn sandbox(inputs: &PromptInputs, tools: &[&str]) -> Option<String> {
    let text = Text::of(inputs.profile, Section::Sandbox);
    let inside = match &inputs.sandbox {
        Some(kind) => fill(text.fragment("inside"), &[("kind", kind)]),
        None if tools.contains(&SHELL) => text.fragment("outside").to_owned(),
        None => return None,
    };
    Some(text.filled(&[("text", &inside)]))
}

fn git(inputs: &PromptInputs, tools: &[&str]) -> Option<String> {
    let applies = inputs.in_git_repository && tools.contains(&SHELL);
    applies.then(|| Text::of(inputs.profile, Section::Git).filled(&[]))
}

fn memory(inputs: &PromptInputs) -> String {
    let mut blocks = String::new();
    if let Some(text) = &inputs.global_context {
        blocks.push_str(&format!("<global_context>\n{text}\n</global_context>\n"));
    }
    if let Some(text) = &inputs.project_memory {
        blocks.push_str(&format!("<user_project_memory>\n{text}\n</user_project_memory>\n"));
    }
    if let Some(text) = &inputs.learnings {
        blocks.push_str(&format!("<learnings>\n{}\n</learnings>\n", sealed(text)));
    }
    if blocks.is_empty() { String::new() } else { format!("\n\n<loaded_context>\n{blocks}</loaded_context>") }
}

/// Replaces the placeholders of a custom prompt.
fn substituted(own: &str, inputs: &PromptInputs, tools: &[&str]) -> String {
    let list: Vec<String> = tools.iter().map(|name| format!("- `{name}`")).collect();
    let mut text = own
        .replace("${AvailableTools}", &list.join("\n"))
        .replace("${AgentSkills}", inputs.skills.as_deref().unwrap_or_default())
        .replace("${SubAgents}", &agents(inputs, tools).unwrap_or_default());
    for name in tools {
        text = text.replace(&format!("${{{name}_ToolName}}"), name);
    }
    text
}

fn collapse_blank_lines(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(at) = rest.find("\n\n\n") {
        let (kept, more) = rest.split_at(at + 2);
        out.push_str(kept);
        rest = more.trim_start_matches('\n');
    }
    out.push_str(rest);
    out
}

#[cfg(test)]
mod golden;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sections_follow_mode_and_tools() {
        let read_only = build(&PromptInputs::default(), &["read_file", "glob"]);
        assert!(
            read_only.contains("no tool that changes files") && read_only.contains("cannot run commands")
        );
        assert!(!read_only.contains("# Git") && !read_only.contains("# Plan mode"));
        let plan = PromptInputs { mode: ApprovalMode::Plan, in_git_repository: true, ..Default::default() };
        let reading = build(&plan, &["read_file"]);
        assert!(reading.contains("# Plan mode") && reading.contains("answer with the plan"));
        assert!(!reading.contains("# How to work") && !reading.contains("plans directory"));
        assert!(build(&plan, &["write_file"]).contains("plans directory"));
    }

    #[test]
    fn nothing_is_said_about_commands_where_there_are_none() {
        let inputs = PromptInputs { in_git_repository: true, ..Default::default() };
        let without = build(&inputs, &["read_file"]);
        assert!(!without.contains("# Git") && !without.contains("sandbox"), "{without}");
        let with = build(&inputs, &["read_file", SHELL]);
        assert!(with.contains("# Git") && with.contains("# No sandbox"));
    }

    #[test]
    fn a_section_can_be_switched_off_and_memory_always_follows() {
        let inputs = PromptInputs {
            disabled: BTreeSet::from(["sandbox".to_owned()]),
            global_context: Some("use tabs".into()),
            learnings: Some("- be brief".into()),
            ..Default::default()
        };
        let text = build(&inputs, &[SHELL]);
        assert!(!text.contains("sandbox") && text.contains("<global_context>\nuse tabs\n"));
        assert!(text.ends_with("<learnings>\n- be brief\n</learnings>\n</loaded_context>"), "{text}");
    }

    #[test]
    fn a_prompt_of_the_users_own_replaces_the_sections() {
        let inputs = PromptInputs {
            replacement: Some("Use ${glob_ToolName}.\n\n\n\n${AvailableTools}".into()),
            ..Default::default()
        };
        assert_eq!(build(&inputs, &["glob"]), "Use glob.\n\n- `glob`");
    }
}
