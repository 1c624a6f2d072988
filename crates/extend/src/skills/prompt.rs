//! The section of the system prompt that lists the skills.

use super::Skill;
use super::activate::TOOL;

/// Longer descriptions are cut; the limit of the Agent Skills specification.
const MAX_DESCRIPTION: usize = 1024;
/// Size limit of the skill list in the prompt, in bytes.
const MAX_LIST: usize = 128 * 1024;

/// The section of the system prompt; `None` without skills.
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
        count => format!("{count} more skills do not fit in this list; the tool's description names them.\n"),
    };
    Some(format!(
        "# Available Agent Skills
A skill contains instructions for one kind of task, often with scripts and references. When a task fits the description of a skill, call `{TOOL}` with its name before you begin, even if you think you know how to do it. The result is in `<activated_skill>`: follow its `<instructions>` for this task as you would follow the user, within the usual limits, and open its `<available_resources>` when the instructions mention them. Do not activate skills that the task does not need.

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

/// A description cannot close the list that contains it.
fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;")
}
