//! Replaces unknown words by the values that their variables can have.

use super::value::{Variables, WordValue};
use super::word::Word;
use super::{Context, Findings, Part, wrapper};

/// Limit of variants of one command.
const MAX_READINGS: usize = 64;
/// Limit of bytes of them in one command line.
const MAX_BYTES: usize = 256 * 1024;

/// Lists a command once for each possible combination of its words.
pub(super) fn part(mut part: Part, variables: &Variables, found: &mut Findings) {
    if part.pieces.is_empty() {
        found.part(part);
        return;
    }
    let mut readings: Vec<Vec<Word>> = vec![Vec::with_capacity(part.words.len())];
    let mut followed = true;
    for (at, word) in part.words.iter().enumerate() {
        let Some((_, pieces)) = part.pieces.iter().find(|(place, _)| *place == at) else {
            let pattern = part.patterns.iter().find(|pattern| pattern.at == at);
            let word = match (word, pattern) {
                (Some(text), _) => Word::plain(text),
                (None, Some(pattern)) => {
                    Word { pattern: Some(pattern.text.clone()), relayed: pattern.relayed, ..Word::default() }
                }
                (None, None) => Word::default(),
            };
            readings.iter_mut().for_each(|words| words.push(word.clone()));
            continue;
        };
        match variables.standing(at, pieces) {
            WordValue::Words(words) if readings.len() * words.len() <= MAX_READINGS => {
                let more = |before: &Vec<Word>| {
                    let before = before.clone();
                    words.iter().map(move |words| {
                        let mut next = before.clone();
                        next.extend(words.iter().map(|text| Word::found(text, text)));
                        next
                    })
                };
                readings = readings.iter().flat_map(more).collect();
            }
            WordValue::Words(_) | WordValue::Unknown => followed = false,
            WordValue::Data(datum) => {
                part.data.push(datum);
                readings.iter_mut().for_each(|words| words.push(Word::default()));
            }
        }
    }
    part.pieces.clear();
    let open = |(at, word): &(usize, &Option<String>)| {
        word.is_none() && part.patterns.iter().all(|pattern| pattern.at != *at)
    };
    if !followed || part.data.len() == part.words.iter().enumerate().filter(open).count() {
        found.part(part);
        return;
    }
    let bytes: usize = readings.iter().flatten().map(|word| word.raw.len() + 16).sum();
    found.followed += bytes;
    if found.followed > MAX_BYTES {
        found.doubt("its variables have too many possible values");
        found.part(part);
        return;
    }
    let context = Context {
        behind: part.behind.clone(),
        writes_nohup: part.writes_nohup,
        repeats: part.repeats,
        ..Context::default()
    };
    for words in readings {
        emit(&part, &words, &context, found);
    }
}

fn emit(part: &Part, words: &[Word], context: &Context, found: &mut Findings) {
    let before = found.parts.len();
    wrapper::emit(part.text.clone(), words, part.assignments.clone(), context, found);
    // Data keeps its index only if no word before it became several.
    let same = words.len() == part.words.len();
    if let Some(emitted) = found.parts.get_mut(before).filter(|_| same) {
        emitted.data.clone_from(&part.data);
    }
}
