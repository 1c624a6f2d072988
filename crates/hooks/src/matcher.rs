//! Matches a hook against a tool name, source, reason or trigger.

use crate::event::Event;

/// Longest expression, in bytes.
const MAX_PATTERN: usize = 2048;

/// A definition's `matcher`.
#[derive(Debug, Clone)]
pub(crate) struct Matcher(Rule);

#[derive(Debug, Clone)]
enum Rule {
    Everything,
    Exactly(String),
    /// Any of them, anywhere in the name.
    Found(Vec<Pattern>),
}

#[derive(Debug, Clone)]
enum Pattern {
    /// Takes time in proportion to the text.
    Linear(regex::Regex),
    /// Syntax that only JavaScript has, such as look-ahead.
    Full(Box<regress::Regex>),
}

impl Matcher {
    /// Parses a matcher; the second value describes a problem. `current_name` maps an old tool name to the
    /// current one.
    pub(crate) fn new(event: Event, text: &str, current_name: fn(&str) -> &str) -> (Self, Option<String>) {
        let text = text.trim();
        if event.subject_key().is_none() || text.is_empty() || text == "*" {
            return (Self(Rule::Everything), None);
        }
        match event {
            Event::BeforeTool | Event::AfterTool => Self::of_tools(text, current_name),
            _ => {
                let known = words(event);
                let odd = (!known.contains(&text))
                    .then(|| format!("`{text}` never matches (expected one of {})", known.join(", ")));
                (Self(Rule::Exactly(text.to_owned())), odd)
            }
        }
    }

    fn of_tools(text: &str, current_name: fn(&str) -> &str) -> (Self, Option<String>) {
        let Some(pattern) = compiled(text) else {
            let odd = format!("`{text}` is not a valid regular expression; matched literally");
            return (Self(Rule::Exactly(text.to_owned())), Some(odd));
        };
        let mut patterns = vec![pattern];
        let renamed = with_words(text, |word| current_name(word).to_owned());
        if renamed != text {
            patterns.extend(compiled(&renamed));
        }
        (Self(Rule::Found(patterns)), None)
    }

    /// Whether it concerns this tool, source, reason or trigger.
    pub(crate) fn matches(&self, subject: &str) -> bool {
        match &self.0 {
            Rule::Everything => true,
            Rule::Exactly(text) => text == subject,
            Rule::Found(patterns) => patterns.iter().any(|pattern| match pattern {
                Pattern::Linear(regex) => regex.is_match(subject),
                Pattern::Full(regex) => regex.find(subject).is_some(),
            }),
        }
    }
}

fn compiled(text: &str) -> Option<Pattern> {
    if text.len() > MAX_PATTERN {
        return None;
    }
    match regex::Regex::new(text) {
        Ok(regex) => Some(Pattern::Linear(regex)),
        Err(_) => regress::Regex::new(text).ok().map(|regex| Pattern::Full(Box::new(regex))),
    }
}

fn words(event: Event) -> &'static [&'static str] {
    match event {
        Event::SessionStart => &["startup", "resume", "clear"],
        Event::SessionEnd => &["exit", "clear", "logout", "prompt_input_exit", "other"],
        Event::PreCompress => &["manual", "auto"],
        _ => &[],
    }
}

/// The text with every word in it replaced.
pub(crate) fn with_words(text: &str, replace: impl Fn(&str) -> String) -> String {
    let is_word = |c: char| c.is_ascii_alphanumeric() || c == '_';
    let mut result = String::with_capacity(text.len());
    let mut word = String::new();
    for c in text.chars() {
        if is_word(c) {
            word.push(c);
            continue;
        }
        result.push_str(&replace(&std::mem::take(&mut word)));
        result.push(c);
    }
    result.push_str(&replace(&word));
    result
}

#[cfg(test)]
mod tests {
    use super::*;

    fn current(name: &str) -> &str {
        if name == "shell_execute" { "run_shell_command" } else { name }
    }

    #[test]
    fn matchers_follow_their_events_rules() {
        let table: &[(Event, &str, &str, bool)] = &[
            (Event::BeforeTool, "", "glob", true),
            (Event::BeforeTool, " * ", "glob", true),
            (Event::BeforeTool, "write", "write_todos", true),
            (Event::BeforeTool, "^write_file$", "write_todos", false),
            (Event::AfterTool, "write_file|replace", "replace", true),
            (Event::AfterTool, "mcp_.*_delete", "mcp_github_delete_repo", true),
            (Event::BeforeTool, "^(?!read_)", "read_file", false),
            (Event::BeforeTool, "^(?!read_)", "glob", true),
            (Event::BeforeTool, "shell_execute", "run_shell_command", true),
            (Event::BeforeTool, "^shell_execute$|glob", "run_shell_command", true),
            (Event::BeforeTool, "a(", "a(", true),
            (Event::BeforeTool, "a(", "xa(", false),
            (Event::SessionStart, "startup", "startup", true),
            (Event::SessionStart, "start", "startup", false),
            (Event::SessionStart, ".*", "startup", false),
            (Event::SessionEnd, "exit", "clear", false),
            (Event::PreCompress, "auto", "auto", true),
            (Event::BeforeAgent, "whatever", "", true),
            (Event::Notification, "x", "", true),
        ];
        for (event, text, subject, expected) in table {
            let (matcher, _) = Matcher::new(*event, text, current);
            assert_eq!(matcher.matches(subject), *expected, "{event} {text} {subject}");
        }
    }

    #[test]
    fn suspicious_matchers_are_reported() {
        let odd = |event, text: &str| Matcher::new(event, text, current).1;
        assert!(odd(Event::BeforeTool, "a(").unwrap().contains("not a valid regular expression"));
        assert!(odd(Event::BeforeTool, &"a".repeat(5000)).is_some());
        assert!(odd(Event::SessionStart, "startup|resume").unwrap().contains("startup, resume, clear"));
        assert_eq!(odd(Event::BeforeModel, "a("), None);
    }
}
