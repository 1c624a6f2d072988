//! Tokenises queries into words for the text index and names from code.

use crate::scripts::is_cjk;

/// Stop words.
const STOP_WORDS: &[&str] = &[
    "a", "about", "am", "an", "and", "any", "are", "as", "at", "be", "been", "but", "by", "can", "could",
    "did", "do", "does", "for", "from", "had", "has", "have", "he", "her", "him", "his", "how", "i", "if",
    "in", "into", "is", "it", "its", "me", "my", "of", "on", "or", "our", "she", "should", "so", "some",
    "that", "the", "their", "them", "then", "there", "these", "they", "this", "those", "to", "us", "was",
    "we", "were", "what", "when", "where", "which", "who", "whom", "whose", "why", "will", "with", "would",
    "you", "your",
];
/// More words of a question are not looked at.
const MAX_WORDS: usize = 32;
/// Shorter names are words.
const LEAST_NAME: usize = 4;
/// A joined word has at least so many letters.
const LEAST_JOINED: usize = 10;
/// Letters that two forms of a word have in common, at least.
pub(super) const LEAST_STEM: usize = 4;
/// Letters of a word that is looked for inside of longer ones.
pub(super) const LEAST_INSIDE: usize = 4;

/// A text in which letters of scripts without blanks stand alone, so that the index has each of them.
pub(crate) fn spaced(text: &str) -> std::borrow::Cow<'_, str> {
    if text.is_ascii() || !text.contains(is_cjk) {
        return text.into();
    }
    let mut spaced = String::with_capacity(text.len() * 2);
    for c in text.chars() {
        spaced.push(c);
        if is_cjk(c) {
            spaced.push(' ');
        }
    }
    spaced.into()
}

/// The phrases of a question, each to be found by itself; stop words only if there is nothing else.
pub(crate) fn phrases(question: &str) -> Vec<String> {
    let mut found: Vec<String> = Vec::new();
    let mut stopped: Vec<String> = Vec::new();
    for word in question.split(|c: char| !c.is_alphanumeric()).filter(|word| !word.is_empty()) {
        if word.contains(is_cjk) {
            found.extend(pairs(word));
        } else {
            let word = word.to_lowercase();
            if is_stop_word(&word) { stopped.push(word) } else { found.push(word) }
        }
    }
    if found.is_empty() {
        found = stopped;
    }
    let mut seen = std::collections::HashSet::new();
    found.retain(|phrase| seen.insert(phrase.clone()));
    found.truncate(MAX_WORDS);
    found
}

/// Neighbouring words of a question written as one: `roll back` stands in notes as `rollback`.
pub(crate) fn joined(question: &str) -> Vec<String> {
    let words: Vec<String> = question
        .split(|c: char| !c.is_alphanumeric())
        .filter(|word| !word.is_empty())
        .take(MAX_WORDS)
        .map(str::to_lowercase)
        .collect();
    let is_part =
        |word: &String| word.chars().count() > 1 && word.chars().all(|c| c.is_alphabetic() && !is_cjk(c));
    let pairs = words.windows(2).filter_map(|pair| match pair {
        [one, other] if is_part(one) && is_part(other) && !(is_stop_word(one) && is_stop_word(other)) => {
            Some(format!("{one}{other}"))
        }
        _ => None,
    });
    pairs.filter(|pair| pair.chars().count() > LEAST_STEM).collect()
}

/// How many letters at the beginning of a word stay the same in its forms.
pub(super) fn stem_length(letters: usize) -> usize {
    match letters {
        0..=4 => letters,
        5..=7 => letters - 1,
        _ => (letters * 3).div_ceil(4),
    }
}

/// How alike two words are: 4 for the same, 2 for two forms of one, 1 for a part of the other, 0 for neither.
pub(super) fn likeness(asked: &[char], found: &[char]) -> usize {
    if asked == found {
        return 4;
    }
    let shorter = asked.len().min(found.len());
    let common = asked.iter().zip(found).take_while(|(one, other)| one == other).count();
    if shorter >= 3 && common >= stem_length(shorter) {
        return 2;
    }
    let is_inside = |part: &[char], whole: &[char]| {
        part.len() >= LEAST_INSIDE && whole.windows(part.len()).any(|window| window == part)
    };
    usize::from(is_inside(asked, found) || is_inside(found, asked))
}

pub(crate) fn is_stop_word(word: &str) -> bool {
    STOP_WORDS.binary_search(&word).is_ok()
}

/// Letters two by two, as phrases; other letters between them stay whole.
fn pairs(word: &str) -> Vec<String> {
    let mut phrases = Vec::new();
    let characters: Vec<char> = word.chars().collect();
    for run in characters.chunk_by(|a, b| is_cjk(*a) == is_cjk(*b)) {
        match run {
            [first, ..] if !is_cjk(*first) => phrases.push(run.iter().collect::<String>().to_lowercase()),
            [one] => phrases.push(one.to_string()),
            _ => phrases.extend(
                run.windows(2).map(|pair| pair.iter().map(char::to_string).collect::<Vec<_>>().join(" ")),
            ),
        }
    }
    phrases
}

/// One phrase for the text index; nothing in it is understood as an operator.
pub(crate) fn quoted(phrase: &str) -> String {
    format!("\"{}\"", phrase.replace('"', "\"\""))
}

/// What is found by a part of it, in lower case: names of code, and words long enough to be joined ones. Everything
/// else is found by its beginning, so the table stays small.
pub(crate) fn found_by_parts(text: &str) -> String {
    let is_joined = |word: &&str| {
        word.len() >= LEAST_JOINED
            && word.chars().count() >= LEAST_JOINED
            && word.chars().all(|c| c.is_alphabetic() && !is_cjk(c))
    };
    let words = text.split(|c: char| !c.is_alphanumeric()).filter(is_joined);
    let mut found: Vec<String> = each_name(text).chain(words).map(str::to_lowercase).collect();
    found.sort_unstable();
    found.dedup();
    found.join(" ")
}

/// The names that a question is about. One that could also be a word of everyday language counts only when
/// the question has hardly anything else.
pub(crate) fn asked_names(question: &str) -> Vec<String> {
    let names: Vec<&str> = each_name(question).take(MAX_WORDS).collect();
    let lowered: Vec<String> = names.iter().map(|name| name.to_lowercase()).collect();
    let in_names = |phrase: &String| lowered.iter().any(|name| name.contains(phrase.as_str()));
    let others = phrases(question).iter().filter(|phrase| !in_names(phrase)).count();
    let counts = |name: &&str| others <= 1 || is_certain(name);
    names.iter().filter(|name| counts(name)).map(|name| name.to_lowercase()).collect()
}

fn each_name(text: &str) -> impl Iterator<Item = &str> {
    let is_part = |c: char| c.is_alphanumeric() || matches!(c, '_' | ':' | '/' | '.' | '-');
    text.split(move |c: char| !is_part(c))
        .map(|word| word.trim_matches(|c: char| matches!(c, ':' | '/' | '.' | '-')))
        .filter(|word| is_name(word))
}

/// Whether a word is from code: `fooBar_baz`, `a828e60`, `std::fs`, `src/main.rs`, `YouTube`.
fn is_name(word: &str) -> bool {
    if word.len() < LEAST_NAME || word.len() > 200 || !word.contains(char::is_alphabetic) {
        return false;
    }
    let has_hump =
        word.as_bytes().array_windows().any(|[a, b]| a.is_ascii_lowercase() && b.is_ascii_uppercase());
    let has_ending = word.rsplit_once('.').is_some_and(|(stem, ending)| {
        stem.len() > 1
            && (1..=4).contains(&ending.len())
            && ending.bytes().all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit())
    });
    has_hump || has_ending || is_certain(word)
}

/// Whether a word can only be from code.
fn is_certain(word: &str) -> bool {
    let digits = word.bytes().filter(|byte| byte.is_ascii_digit()).count();
    let plain = word.bytes().all(|byte| byte.is_ascii_alphanumeric());
    let is_mixed = plain && word.len() >= 6 && digits >= 2 && digits < word.len();
    let is_path = word.matches('/').count() > 1 || (word.contains('/') && word.contains('.'));
    word.contains('_') || word.contains("::") || is_path || is_mixed
}

/// The words of a text as a set, to compare texts with.
pub(crate) fn set(text: &str) -> std::collections::HashSet<String> {
    text.split(|c: char| !(c.is_alphanumeric() || c == '_'))
        .filter(|word| !word.is_empty())
        .map(str::to_lowercase)
        .collect()
}

/// How much two sets have in common; of two empty ones, everything.
pub(crate) fn jaccard(
    one: &std::collections::HashSet<String>,
    other: &std::collections::HashSet<String>,
) -> f64 {
    let common = one.intersection(other).count();
    let all = one.len() + other.len() - common;
    if all == 0 { 1.0 } else { common as f64 / all as f64 }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stop_words_are_in_order_and_left_out() {
        assert!(STOP_WORDS.is_sorted());
        assert_eq!(phrases("What did Ada say about the Trip to Rome, Rome?"), ["ada", "say", "trip", "rome"]);
        assert_eq!(phrases("who is it"), ["who", "is", "it"]);
        assert_eq!(phrases("日本語の本 Go言語"), ["日 本", "本 語", "語 の", "の 本", "go", "言 語"]);
        assert!(phrases(" ?!").is_empty());
        assert_eq!(quoted("a\"b"), "\"a\"\"b\"");
    }

    #[test]
    fn names_of_code_are_told_from_words() {
        let text = "See `fooBar_baz` in src/main.rs (a828e60), at std::fs. We went home on 2023-05-07, e.g. well-known.";
        assert_eq!(found_by_parts(text), "a828e60 foobar_baz src/main.rs std::fs");
        assert!(asked_names("where is my red bike in 1999, and/or the car?").is_empty());
        assert_eq!(asked_names("where is fooBar defined?"), ["foobar"]);
        assert_eq!(asked_names("why did we raise retry_budget in the client last week"), ["retry_budget"]);
        assert!(asked_names("which YouTube channel does Ada watch on weekends").is_empty());
    }

    #[test]
    fn words_are_joined_and_their_forms_are_alike() {
        assert_eq!(joined("how do I roll back a release?"), ["rollback"]);
        assert_eq!(joined("log in v2 東京 now, set up x"), ["login", "nowset", "setup"]);
        let like = |one: &str, other: &str| {
            likeness(&one.chars().collect::<Vec<_>>(), &other.chars().collect::<Vec<_>>())
        };
        assert_eq!(like("rechnung", "rechnung"), 4);
        for (one, other) in [
            ("rechnung", "rechnungen"),
            ("резервная", "резервные"),
            ("копия", "копии"),
            ("run", "running"),
            ("kitap", "kitaplarımızdan"),
        ] {
            assert_eq!((like(one, other), like(other, one)), (2, 2), "{one} {other}");
        }
        assert_eq!((like("verkehr", "zahlungsverkehr"), like("zahlungsverkehr", "verkehr")), (1, 1));
        assert_eq!((like("ab", "abc"), like("walnut", "wall"), like("", "x")), (0, 0, 0));
        assert_eq!(found_by_parts("Der Zahlungsverkehr ruht"), "zahlungsverkehr");
    }

    #[test]
    fn sets_are_compared() {
        assert!((jaccard(&set("a b c d"), &set("A b c")) - 0.75).abs() < 1e-12);
        assert_eq!(jaccard(&set(""), &set("")), 1.0);
    }
}
