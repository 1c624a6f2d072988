//! What a program is called.

use super::Part;

/// The last component of a program's path.
pub(super) fn base(program: &str) -> &str {
    program.trim_end_matches('/').rsplit('/').next().unwrap_or(program)
}

/// Every name to compare deny rules with: the program as written and without its directory, its wrappers, and,
/// where the program is only known at run time, the words that may turn out to be it.
pub fn program_names(part: &Part) -> Vec<&str> {
    let mut names: Vec<&str> = Vec::new();
    for wrapper in &part.behind {
        push(&mut names, wrapper);
    }
    match part.words.first() {
        Some(Some(program)) => push(&mut names, program),
        Some(None) => {
            for word in part.words.iter().flatten().filter(|word| !word.starts_with('-')) {
                push(&mut names, word);
            }
        }
        None => {}
    }
    names
}

fn push<'a>(names: &mut Vec<&'a str>, program: &'a str) {
    for name in [program, base(program)] {
        if !name.is_empty() && !names.contains(&name) {
            names.push(name);
        }
    }
}
