//! Fuzzy matching of names.

/// The rank of a match; lower is better. `None` if the letters do not occur in order or, if not
/// `loose`, not next to each other. `sought` must be in lower case.
pub(super) fn rank(name: &str, sought: &str, loose: bool) -> Option<u32> {
    if name.is_ascii() {
        return rank_bytes(name.as_bytes(), sought.as_bytes(), loose);
    }
    rank_bytes(name.to_lowercase().as_bytes(), sought.as_bytes(), loose)
}

/// The indexes of the best matches, best first; ties keep their order.
pub(super) fn best(mut ranked: Vec<(u32, u32)>, most: usize) -> Vec<usize> {
    if ranked.len() > most {
        ranked.select_nth_unstable(most);
        ranked.truncate(most);
    }
    ranked.sort_unstable();
    ranked.into_iter().filter_map(|(_, at)| usize::try_from(at).ok()).collect()
}

fn rank_bytes(name: &[u8], sought: &[u8], loose: bool) -> Option<u32> {
    let length = u32::try_from(name.len().min(0xffff)).unwrap_or(0xffff);
    if sought.is_empty() {
        return Some(length);
    }
    // Backwards, because the last letters more often belong to the file name.
    let mut left = sought.iter().rev();
    let mut wanted = left.next();
    let (mut last, mut first) = (None, 0);
    for (at, byte) in name.iter().enumerate().rev() {
        if wanted == Some(&byte.to_ascii_lowercase()) {
            last = last.or(Some(at));
            first = at;
            wanted = left.next();
            if wanted.is_none() {
                break;
            }
        }
    }
    let (None, Some(last)) = (wanted, last) else { return None };
    let own = own_name(name);
    let class = match whole(name, sought, own) {
        Some(class) => class,
        None if !loose => return None,
        None if first >= own => 7,
        None => 8,
    };
    let gaps = if class < 7 { 0 } else { (last + 1 - first).saturating_sub(sought.len()).min(0xff) };
    Some(class << 24 | u32::try_from(gaps).unwrap_or(0xff) << 16 | length)
}

/// The start of the last path component.
fn own_name(name: &[u8]) -> usize {
    let body = name.strip_suffix(b"/").unwrap_or(name);
    body.iter().rposition(|byte| *byte == b'/').map_or(0, |slash| slash + 1)
}

/// The class of a contiguous match; `None` without one.
fn whole(name: &[u8], sought: &[u8], own: usize) -> Option<u32> {
    let mut found = None;
    for at in 0..=name.len().checked_sub(sought.len())? {
        let Some(here) = name.get(at..at + sought.len()) else { break };
        if !here.eq_ignore_ascii_case(sought) {
            continue;
        }
        let ends = matches!(name.get(at + sought.len()..), Some([] | [b'/']));
        let before = at.checked_sub(1).and_then(|at| name.get(at));
        let begins_word = before.is_none_or(|byte| !byte.is_ascii_alphanumeric());
        let class = match (at == own, at == 0, begins_word) {
            (true, _, _) if ends => 0,
            (true, _, _) => 1,
            (_, true, _) => 2,
            (_, _, true) if at > own => 3,
            (_, _, false) if at > own => 4,
            (_, _, true) => 5,
            (_, _, false) => 6,
        };
        found = found.min(Some(class)).or(Some(class));
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sorted<'a>(names: &[&'a str], sought: &str) -> Vec<&'a str> {
        let ranked = names.iter().zip(0..).filter_map(|(name, at)| Some((rank(name, sought, true)?, at)));
        best(ranked.collect(), 100).into_iter().map(|at| names[at]).collect()
    }

    #[test]
    fn what_is_called_so_goes_before_what_only_contains_the_letters() {
        let names = [
            "docs/maintenance.md",
            "src/domain.rs",
            "src/main.rs",
            "main/other.txt",
            "m/a/i/n.txt",
            "my_amazing_ink.rs",
            "main",
            "README.md",
        ];
        let expected = [
            "main",
            "src/main.rs",
            "docs/maintenance.md",
            "main/other.txt",
            "src/domain.rs",
            "my_amazing_ink.rs",
            "m/a/i/n.txt",
        ];
        assert_eq!(sorted(&names, "main"), expected);
    }

    #[test]
    fn letters_count_in_their_order_and_whatever_their_case() {
        assert!(rank("src/Composer/Input.rs", "cmpinp", true).is_some());
        assert!(rank("src/Composer/Input.rs", "inpcmp", true).is_none());
        assert!(rank("src/Composer/Input.rs", "cmpinp", false).is_none());
        assert!(rank("src/Composer/Input.rs", "composer/in", false).is_some());
        assert!(rank("ÜBER/Größe.txt", "über/grö", true).is_some());
        assert!(rank("", "a", true).is_none() && rank("a", "", true).is_some());
    }

    #[test]
    fn a_folder_shows_what_is_in_it_before_what_is_deeper() {
        let names = ["src/deep/a.rs", "src/b.rs", "src/", "other/src/c.rs"];
        assert_eq!(sorted(&names, "src/"), ["src/", "src/b.rs", "src/deep/a.rs", "other/src/c.rs"]);
    }
}
