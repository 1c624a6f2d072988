//! Names of agents, as settings and files write them.

/// Whether two names mean the same agent: older releases and files write `-` for `_`.
pub fn same_agent(one: &str, other: &str) -> bool {
    let plain = |c: char| if c == '-' { '_' } else { c };
    one.chars().map(plain).eq(other.chars().map(plain))
}
