//! The tool `activate_skill`: returns the instructions of a skill and gives read access to its folder.

use std::sync::Arc;

use pollux_config::groups::FileFiltering;
use pollux_domain::tool::{
    ArgError, Display, Effect, Invocation, Tool, ToolContext, ToolErrorKind, ToolKind, ToolOutcome, ToolSpec,
};
use pollux_domain::untrusted::sealed;
use pollux_domain::{BoxFuture, JsonObject};
use serde_json::{Value, json};

use super::{BodyError, GrantRead, Skill, named, prompt};
use crate::tree;

/// The tool's name.
pub const TOOL: &str = "activate_skill";

pub(super) struct ActivateSkill {
    spec: Arc<ToolSpec>,
    skills: Arc<[Skill]>,
    admit: GrantRead,
}

struct Call {
    /// As the model wrote it.
    asked: String,
    skill: Option<Skill>,
    known: Vec<String>,
    admit: GrantRead,
}

impl ActivateSkill {
    /// For these skills, all of which are switched on.
    pub(super) fn new(skills: Arc<[Skill]>, admit: GrantRead) -> Self {
        let names: Vec<&str> = skills.iter().map(|skill| skill.name.as_str()).collect();
        let quoted: Vec<String> = names.iter().map(|name| format!("'{name}'")).collect();
        let spec = ToolSpec {
            name: TOOL.to_owned(),
            display_name: "Activate Skill".to_owned(),
            description: format!(
                "Loads the instructions of an agent skill into the conversation and gives read access to its folder (available: {}). Call it as soon as a task fits the description of a skill. The result is in `<activated_skill>`; follow its `<instructions>` for the task.",
                quoted.join(", ")
            ),
            kind: ToolKind::Other,
            parameters: json!({
                "type": "object",
                "properties": {
                    "name": {"type": "string", "enum": names, "description": "The name of the skill."}
                },
                "required": ["name"],
                "additionalProperties": false
            }),
            output_is_markdown: true,
            offloads_long_output: false,
        };
        Self { spec: Arc::new(spec), skills, admit }
    }
}

impl Tool for ActivateSkill {
    fn spec(&self) -> &Arc<ToolSpec> {
        &self.spec
    }

    fn prompt_section(&self) -> Option<String> {
        prompt::section(&self.skills)
    }

    fn prepare(&self, args: &JsonObject) -> Result<Box<dyn Invocation>, ArgError> {
        let asked = args.get("name").and_then(Value::as_str).unwrap_or_default().to_owned();
        if asked.trim().is_empty() {
            return Err(ArgError("params must have required property 'name'".to_owned()));
        }
        let skill = named(&self.skills, asked.trim()).cloned();
        let known = self.skills.iter().map(|skill| skill.name.clone()).collect();
        Ok(Box::new(Call { asked, skill, known, admit: Arc::clone(&self.admit) }))
    }
}

impl Invocation for Call {
    fn describe(&self) -> String {
        match &self.skill {
            Some(skill) => format!("\"{}\": {}", self.asked, skill.description),
            None => format!("\"{}\" (?) unknown skill", self.asked),
        }
    }

    fn consent(&self) -> Option<String> {
        let skill = self.skill.as_ref()?;
        let tree = resources(skill)?;
        Some(format!(
            "Activate Skill: {}\n\nYou are about to enable the specialized agent skill **{}**.\n\n**Description:**\n{}\n\n\
             **Resources to be shared with the model:**\n{tree}",
            skill.name, skill.name, skill.description
        ))
    }

    fn effect(&self) -> Effect {
        // Built-in skills share no files, so no approval is needed.
        match self.skill.as_ref().and_then(Skill::folder) {
            Some(folder) => Effect::Read(vec![folder.to_owned()]),
            None => Effect::Dialog,
        }
    }

    fn run<'a>(self: Box<Self>, _context: &'a ToolContext) -> BoxFuture<'a, ToolOutcome> {
        Box::pin(async move {
            let Some(skill) = &self.skill else {
                let known = self.known.join(", ");
                let message = format!("Skill \"{}\" not found. Available skills are: {known}", self.asked);
                return ToolOutcome::failed(ToolErrorKind::InvalidToolParams, message);
            };
            let (text, display) = match activation(skill, &self.admit) {
                Ok(given) => given,
                Err(error) => {
                    return ToolOutcome::failed(ToolErrorKind::ReadContentFailure, error.to_string());
                }
            };
            ToolOutcome::text(text, Display::Text(display))
        })
    }
}

/// The text for the model and for display; gives read access to the folder.
pub(super) fn activation(skill: &Skill, admit: &GrantRead) -> Result<(String, String), BodyError> {
    let body = skill.body()?;
    if let Some(folder) = skill.folder() {
        admit(folder);
    }
    let (name, tree) = (&skill.name, resources(skill));
    let listed = sealed(tree.as_deref().unwrap_or("(none: this skill is part of the program)"));
    let body = sealed(&body);
    let text = format!(
        "<activated_skill name=\"{name}\">\n  <instructions>\n    {body}\n  </instructions>\n\n  \
         <available_resources>\n    {listed}\n  </available_resources>\n</activated_skill>"
    );
    let display = match (skill.folder(), tree) {
        (Some(folder), Some(tree)) => {
            format!("Skill **{name}** activated. Resources loaded from `{}`:\n\n{tree}", folder.display())
        }
        _ => format!("Skill **{name}** activated."),
    };
    Ok((text, display))
}

fn resources(skill: &Skill) -> Option<String> {
    // All of the skill's own files are listed, whatever the project ignores.
    let everything =
        FileFiltering { respect_git_ignore: false, respect_gemini_ignore: false, ..FileFiltering::default() };
    Some(tree::draw(skill.folder()?, &everything))
}
