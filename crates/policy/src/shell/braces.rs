//! Brace expansion: `{a,b}` and `{1..3}`.

/// Limit of words that are expanded.
const MAX_WORDS: usize = 64;

/// Whether unquoted braces in a word would expand.
pub(super) fn expands(text: &str, bare: &[bool]) -> bool {
    let mut open = 0_usize;
    let mut opened = false;
    let mut separated = false;
    let mut previous_dot = false;
    for (c, bare) in text.chars().zip(bare) {
        match c {
            '{' if *bare => {
                open += 1;
                opened = true;
            }
            '}' if *bare && open > 0 => {
                if separated {
                    return true;
                }
                open -= 1;
            }
            ',' if *bare && open > 0 => separated = true,
            '.' if *bare && open > 0 && previous_dot => separated = true,
            _ => {}
        }
        previous_dot = c == '.';
    }
    opened && separated
}

/// The words a comma list makes; `None` if it is not that simple.
pub(super) fn expand(raw: &str) -> Option<Vec<String>> {
    if raw.contains(['\\', '\'', '"', '$', '`', '*', '?', '[', '<', '>']) || raw.contains("..") {
        return None;
    }
    let mut done = Vec::new();
    let mut waiting = vec![raw.to_owned()];
    while let Some(word) = waiting.pop() {
        if done.len() + waiting.len() > MAX_WORDS {
            return None;
        }
        match split(&word)? {
            Some(mut alternatives) => {
                alternatives.reverse();
                waiting.extend(alternatives);
            }
            None if word.contains(['{', '}']) && word != "{}" => return None,
            None => done.push(word),
        }
    }
    done.retain(|word| !word.is_empty());
    Some(done)
}

/// Whether a word is `{1..9}`: integers and nothing else.
pub(super) fn counts(raw: &str) -> bool {
    let Some(inside) = raw.strip_prefix('{').and_then(|rest| rest.strip_suffix('}')) else { return false };
    let numbers: Vec<&str> = inside.split("..").collect();
    (2..=3).contains(&numbers.len()) && numbers.iter().all(|n| n.len() < 10 && n.parse::<i64>().is_ok())
}

/// Replaces the first brace list by each of its members; the outer `None` means that it is too unusual.
fn split(word: &str) -> Option<Option<Vec<String>>> {
    let Some((before, rest)) = word.split_once('{') else { return Some(None) };
    let mut depth = 0_usize;
    let mut members = vec![String::new()];
    let mut characters = rest.chars();
    loop {
        match characters.next() {
            Some('}') if depth == 0 => break,
            Some(',') if depth == 0 => members.push(String::new()),
            Some(c) => {
                match c {
                    '{' => depth += 1,
                    '}' => depth -= 1,
                    _ => {}
                }
                members.last_mut()?.push(c);
            }
            None => return None,
        }
    }
    if members.len() < 2 {
        return if word == "{}" { Some(None) } else { None };
    }
    let after: String = characters.collect();
    Some(Some(members.into_iter().map(|member| format!("{before}{member}{after}")).collect()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn comma_lists_expand_as_in_bash() {
        assert_eq!(expand("{rm,-rf,x}"), Some(vec!["rm".into(), "-rf".into(), "x".into()]));
        assert_eq!(expand("a{b,c{d,e}}f"), Some(vec!["abf".into(), "acdf".into(), "acef".into()]));
        assert_eq!(expand("{a}"), None);
        assert_eq!(expand("{}"), Some(vec!["{}".into()]));
    }
}
