//! Names of MCP servers, as tools and rules see them.

/// A name as it is part of the names of tools: whatever else is in it becomes `_`.
pub fn sanitised(name: &str) -> String {
    let keep = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '.' | ':' | '-');
    name.chars().map(|c| if keep(c) { c } else { '_' }).collect()
}

/// Whether what is said of one server could be taken for the other, however the two are spelt.
pub fn same_server(one: &str, other: &str) -> bool {
    let same = |one: &str, other: &str| sanitised(one).eq_ignore_ascii_case(&sanitised(other));
    same(one, other) || same(one.trim(), other.trim())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_that_rules_cannot_tell_apart_are_the_same() {
        for (one, other, same) in [
            ("my tools", "my_tools", true),
            ("my tools", "My/Tools", true),
            (" git ", "GIT", true),
            ("git ", "git_", true),
            ("é", "_", true),
            ("git", "git_hub", false),
            ("a-b", "a_b", false),
        ] {
            assert_eq!(same_server(one, other), same, "{one} {other}");
            assert_eq!(same_server(other, one), same, "{other} {one}");
        }
    }
}
