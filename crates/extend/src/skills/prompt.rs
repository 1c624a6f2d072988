//! What the model is told about skills from the start.

use super::Skill;
use super::activate::TOOL;

/// Longer descriptions are cut; the limit of the Agent Skills specification.
const MAX_DESCRIPTION: usize = 1024;
/// What all skills together may take of the prompt, in bytes.
const MAX_LIST: usize = 128 * 1024;

/// The section of the system prompt; `None` when there is no skill.
pub fn section(skills: &[Skill]) -> Option<String> {
    if skills.is_empty() {
        return None;
    }
    let mut list = String::new();
    let mut left_out = 0;
    for skill in skills {
        let entry = entry(skill);
        if list.len() + entry.len() > MAX_LIST {
            left_out += 1;
        } else {
            list.push_str(&entry);
        }
    }
    let more = match left_out {
        0 => String::new(),
        count => format!(
            "{count} more skills are there that this list has no room for; their names are in the tool.\n"
        ),
    };
    Some(format!(
        "# Available Agent Skills
A skill holds instructions for one kind of task, and often scripts and references beside them. When a task fits the \
description of a skill, call `{TOOL}` with its name before you begin, even if you believe to know the way. What it \
answers stands in `<activated_skill>`: follow its `<instructions>` for this task as you would follow the user, within the \
limits that hold anyway, and open its `<available_resources>` when the instructions speak of them. Without need, activate \
none.

<available_skills>
{list}</available_skills>
{more}"
    ))
}

fn entry(skill: &Skill) -> String {
    let mut description: String = skill.description.chars().take(MAX_DESCRIPTION).collect();
    if description.len() < skill.description.len() {
        description.push('…');
    }
    format!(
        "  <skill>\n    <name>{}</name>\n    <description>{}</description>\n    <location>{}</location>\n  </skill>\n",
        escaped(&skill.name),
        escaped(&description),
        escaped(&skill.location.to_string_lossy()),
    )
}

/// A description cannot end the list that it stands in.
fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;")
}
