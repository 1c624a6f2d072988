//! Gemini models get the same bytes as ever: the recorded texts are compared, not the files they are made from.

use std::fmt::Write as _;

use super::*;

const ALL: &[&str] = &[
    "read_file",
    "glob",
    "grep_search",
    "replace",
    "write_file",
    SHELL,
    "invoke_agent",
    "ask_user",
    "activate_skill",
];

/// Prompts for every condition that a section has.
fn prompts() -> String {
    let mut text = String::new();
    let mut add = |title: &str, inputs: &PromptInputs, tools: &[&str]| {
        let _ = write!(text, "===== {title}\n{}\n", build(inputs, tools));
    };
    let plain = PromptInputs {
        context_file_names: vec!["GEMINI.md".to_owned(), "AGENTS.md".to_owned()],
        plans_dir: "/plans".into(),
        in_git_repository: true,
        ..PromptInputs::default()
    };
    add("headless", &plain, ALL);
    add("nothing", &PromptInputs::default(), &[]);
    add("reading", &PromptInputs::default(), &["read_file", "grep_search"]);
    let full = PromptInputs {
        interactive: true,
        sandbox: Some("bubblewrap".to_owned()),
        agents: vec![("one".to_owned(), "does <one>".to_owned()), ("two".to_owned(), "does two".to_owned())],
        skills: Some("# Skills\n- `x`".to_owned()),
        global_context: Some("use tabs".to_owned()),
        project_memory: Some("a note".to_owned()),
        learnings: Some("- be brief".to_owned()),
        appendix: Some("# More\n\n\n\nrules".to_owned()),
        ..plain.clone()
    };
    add("interactive", &full, ALL);
    for tools in [ALL, &["read_file"]] {
        add("planning", &PromptInputs { mode: ApprovalMode::Plan, ..full.clone() }, tools);
    }
    let disabled = SECTION_KEYS.iter().map(|key| (*key).to_owned()).collect();
    add("disabled", &PromptInputs { disabled, ..full }, ALL);
    text
}

#[test]
fn the_prompt_of_gemini_models_is_the_recorded_one() {
    assert_eq!(prompts(), include_str!("golden.txt"));
}
