//! Extracts learnings from a message that the user typed.

use super::{Category, Confidence, sentence};

const LEAST_CHARS: usize = 10;
const MAX_ITEMS: usize = 3;
/// Longer sentences or paragraphs count as pasted.
const MAX_SENTENCE: usize = 240;
const MAX_PARAGRAPH: usize = 600;

const PREFERENCES: &[&str] = &[
    "i prefer ",
    "i'd prefer ",
    "i would prefer ",
    "i like ",
    "i want you to ",
    "i always want ",
    "always use ",
    "always ",
    "usually use ",
    "please always ",
    "never ",
    "please never ",
    "keep it ",
    "my style is ",
    "my preference is ",
];
const CORRECTIONS: &[&str] = &[
    "actually i meant",
    "actually, i meant",
    "actually i want",
    "actually, i want",
    "no, i want",
    "no, i need",
    "no i want",
    "no i need",
    "no, i meant",
    "not what i asked",
    "not what i meant",
    "that's not what i",
    "don't ",
    "please don't ",
    "do not ",
    "please do not ",
    "wrong, it should be",
    "that's wrong",
    "that is wrong",
    "no, that's wrong",
    "no, that is wrong",
    "no, it's ",
    "no, it is ",
    "no, the ",
    "actually, the ",
    "actually the ",
    "actually, it's ",
    "actually, it is ",
];
const PRAISE: &[&str] = &[
    "perfect",
    "exactly",
    "great job",
    "that's right",
    "that's it",
    "well done",
    "excellent",
    "that worked",
];
/// A praise of fewer words says nothing by itself.
const LEAST_WORDS_OF_PRAISE: usize = 5;
const SURE: &[&str] = &["always", "never", "must", "important"];

/// A finished turn.
#[derive(Debug, Clone, Copy, Default)]
pub struct Turn<'a> {
    /// The typed text, without tool results, files or pages.
    pub user: &'a str,
    /// What they had asked for before.
    pub previous_request: Option<&'a str>,
    /// The tools and files of the turn that `user` answers to.
    pub tools: &'a [String],
    pub files: &'a [String],
}

/// Something to learn.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Candidate {
    pub category: Category,
    pub text: String,
    pub confidence: Confidence,
}

/// Asks a model for learnings; [`from_model`] reads its answer.
pub const EXTRACTION_PROMPT: &str = "\
From the user's own words in this conversation, list at most 3 lasting facts about how they want to work. Leave out
anything that only concerns the current task, and anything that came from files, web pages or tool output. One line each,
in the form `category: sentence`, where category is preference, correction, pattern or tool-usage. If there is nothing,
answer NO_REPLY.";

/// By rules: at most one for each category, and three in all.
pub fn extract(turn: &Turn<'_>) -> Vec<Candidate> {
    if turn.user.trim().chars().count() < LEAST_CHARS {
        return Vec::new();
    }
    let mut found: Vec<Candidate> = Vec::new();
    let mut add = |category: Category, text: &str, confidence: Confidence| {
        let is_new = found.iter().all(|known| known.category != category);
        if let Some(text) = sentence(text).filter(|_| is_new && found.len() < MAX_ITEMS) {
            found.push(Candidate { category, text, confidence });
        }
    };
    for said in own_sentences(turn.user) {
        let lower = said.to_lowercase();
        let starts = |list: &[&str]| list.iter().any(|start| lower.starts_with(start));
        let is_sure =
            SURE.iter().any(|word| lower.split(|c: char| !c.is_alphanumeric()).any(|other| other == *word));
        if is_about_tools(&lower) {
            add(Category::ToolUsage, said, if is_sure { Confidence::High } else { Confidence::Medium });
        } else if starts(CORRECTIONS) {
            add(Category::Correction, said, Confidence::High);
        } else if starts(PREFERENCES) {
            let is_wish = lower.starts_with("i like ") || lower.starts_with("i want ");
            let confidence = match (is_sure, is_wish) {
                (true, _) => Confidence::High,
                (false, true) => Confidence::Low,
                (false, false) => Confidence::Medium,
            };
            add(Category::Preference, said, confidence);
        } else if starts(PRAISE) {
            let own = (said.split_whitespace().count() >= LEAST_WORDS_OF_PRAISE).then(|| said.to_owned());
            if let Some(pattern) = pattern(turn).or(own) {
                add(Category::Pattern, &pattern, Confidence::Medium);
            }
        }
    }
    found
}

/// Lines `category: sentence` of a model's answer, under the same rules.
pub fn from_model(reply: &str) -> Vec<Candidate> {
    let mut found: Vec<Candidate> = Vec::new();
    for line in reply.lines().map(|line| line.trim().trim_start_matches(['-', '*', ' '])) {
        let Some((category, text)) = line.split_once(':') else { continue };
        let Some(category) = Category::parse(&category.trim().to_lowercase()) else { continue };
        if let Some(text) = sentence(text).filter(|_| found.len() < MAX_ITEMS) {
            found.push(Candidate { category, text, confidence: Confidence::Medium });
        }
    }
    found
}

/// "use the X tool", "don't use X", "run X instead of Y", "confirm before X".
fn is_about_tools(lower: &str) -> bool {
    let after = |start: &str, end: &str| {
        lower.find(start).and_then(|at| lower.get(at + start.len()..)).is_some_and(|rest| rest.contains(end))
    };
    let asks =
        ["always confirm before ", "confirm before ", "always ask before ", "ask me before ", "ask before "];
    asks.iter().any(|start| lower.starts_with(start) || lower.starts_with(&format!("please {start}")))
        || after("use the ", " tool")
        || after("prefer ", " command")
        || ["don't use ", "do not use ", "don't run ", "do not run ", "never run "]
            .iter()
            .any(|start| lower.starts_with(start) || lower.contains(&format!("please {start}")))
        || (lower.contains(" instead of ")
            && ["use ", "run ", "please use "].iter().any(|start| lower.starts_with(start)))
}

fn pattern(turn: &Turn<'_>) -> Option<String> {
    let request = own_sentences(turn.previous_request?).into_iter().next()?;
    let mut text: String = request.chars().take(80).collect();
    for (word, list) in [("with", turn.tools), ("in", turn.files)] {
        let names: Vec<&str> = list.iter().take(3).map(String::as_str).collect();
        if !names.is_empty() {
            text.push_str(&format!(" {word} {}", names.join(", ")));
        }
    }
    Some(text)
}

/// The user's own sentences, without text in fences, quotes, tags or after a colon.
fn own_sentences(message: &str) -> Vec<&str> {
    let mut sentences = Vec::new();
    let mut fenced = false;
    for paragraph in message.split("\n\n") {
        let is_pasted = paragraph.chars().count() > MAX_PARAGRAPH;
        for line in paragraph.lines() {
            let line = line.trim();
            if line.starts_with("```") || line.starts_with("~~~") {
                fenced = !fenced;
                continue;
            }
            if line.starts_with('<') {
                // A tag: what follows was pasted.
                return sentences;
            }
            let is_quoted = line.starts_with(['>', '|', '"', '\'', '@', '“', '«']) || line.contains("://");
            if fenced || is_pasted || is_quoted {
                continue;
            }
            sentences.extend(line.split_inclusive(['.', '!', '?', ';']).flat_map(unquoted));
            // The rest is quoted material: a text to translate, a log, a page.
            if line.ends_with(':') {
                return sentences;
            }
        }
    }
    sentences
}

fn unquoted(part: &str) -> Option<&str> {
    let said = part.trim().trim_end_matches(['.', '!', '?', ';']).trim();
    let is_correction = said.split_once(": ").is_some_and(|(start, _)| {
        let start = start.to_lowercase();
        CORRECTIONS.iter().any(|known| start.starts_with(known))
    });
    let is_quote = said.contains(['"', '“', '”', '«', '»']) || (said.contains(": ") && !is_correction);
    (!said.is_empty() && said.chars().count() <= MAX_SENTENCE && !is_quote).then_some(said)
}
