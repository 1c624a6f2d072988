//! Finds the rules that may be about a command without trying all of them.

use std::collections::HashMap;

use super::prefix;
use crate::rule::{Condition, Rule};
use crate::shell::Part;

/// Positions of rules in the sorted list, by the program that their prefix names.
#[derive(Debug, Clone, Default)]
pub(super) struct ProgramIndex {
    by_program: HashMap<String, Vec<usize>>,
    /// Rules that name no program.
    others: Vec<usize>,
}

impl ProgramIndex {
    pub(super) fn new(rules: &[Rule]) -> Self {
        let mut index = Self::default();
        for (place, rule) in rules.iter().enumerate().filter(|(_, rule)| rule.tool.covers_shell()) {
            match &rule.condition {
                Condition::Prefix(words) => {
                    let program = words.first().map(String::as_str).unwrap_or_default();
                    index.by_program.entry(prefix::program_key(program)).or_default().push(place);
                }
                _ => index.others.push(place),
            }
        }
        index
    }

    /// The rules that may match a part, in order.
    pub(super) fn about<'e>(&self, rules: &'e [Rule], part: &Part) -> Vec<&'e Rule> {
        if matches!(part.words.first(), Some(None)) {
            return rules.iter().collect();
        }
        let mut places = self.others.clone();
        let program = part.words.first().and_then(Option::as_ref);
        for name in part.behind.iter().chain(program) {
            places.extend(self.by_program.get(&prefix::program_key(name)).into_iter().flatten());
        }
        places.sort_unstable();
        places.dedup();
        places.into_iter().filter_map(|place| rules.get(place)).collect()
    }
}
