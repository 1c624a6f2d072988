use proptest::prelude::*;

use super::*;

fn set(allow: &[&str], deny: &[&str]) -> RuleSet {
    let mut rules = RuleSet::default();
    for text in allow {
        let pattern = HostPattern::parse(text).unwrap();
        rules.allow(Allow { pattern, reach: Reach::Public, origin: Origin::Stored });
    }
    for text in deny {
        rules.deny(Deny { pattern: HostPattern::parse(text).unwrap(), origin: Origin::Stored });
    }
    rules
}

fn decide(book: &RuleBook, host: &str, port: u16) -> Decision {
    book.snapshot().decide(&Host::parse(host).unwrap(), port)
}

fn is_allowed(book: &RuleBook, host: &str, port: u16) -> bool {
    matches!(decide(book, host, port), Decision::Allow { .. })
}

#[test]
fn deny_beats_allow() {
    let book = RuleBook::new(set(&["**.example.com"], &["bad.example.com"]));
    assert!(is_allowed(&book, "a.example.com", 443));
    let expected = Decision::Deny { rule: "deny bad.example.com (sandbox.toml)".to_owned() };
    assert_eq!(decide(&book, "bad.example.com", 443), expected);
    assert_eq!(decide(&book, "other.example", 443), Decision::Unlisted);
}

#[test]
fn a_project_can_only_deny() {
    let mut rules = set(&["a.example"], &[]);
    let pattern = HostPattern::parse("evil.example").unwrap();
    rules.allow(Allow { pattern, reach: Reach::Public, origin: Origin::Project });
    rules.deny(Deny { pattern: HostPattern::parse("a.example").unwrap(), origin: Origin::Project });
    let book = RuleBook::new(rules);
    assert_eq!(decide(&book, "evil.example", 443), Decision::Unlisted);
    assert!(matches!(decide(&book, "a.example", 443), Decision::Deny { .. }));
}

#[test]
fn a_wildcard_never_reaches_private_networks() {
    let mut rules = RuleSet::default();
    for text in ["*.corp.example", "mirror.corp.example"] {
        let pattern = HostPattern::parse(text).unwrap();
        rules.allow(Allow { pattern, reach: Reach::Private, origin: Origin::Stored });
    }
    let book = RuleBook::new(rules);
    let reach = |host| match decide(&book, host, 443) {
        Decision::Allow { reach, .. } => reach,
        other => panic!("{other:?}"),
    };
    assert_eq!(reach("a.corp.example"), Reach::Public);
    assert_eq!(reach("mirror.corp.example"), Reach::Private);
}

#[test]
fn addresses_match_only_literal_rules() {
    let book = RuleBook::new(set(&["**.example.com:*", "10.0.0.5:5432"], &[]));
    assert!(is_allowed(&book, "10.0.0.5", 5432));
    assert_eq!(decide(&book, "10.0.0.5", 443), Decision::Unlisted);
    for (address, rule) in
        [("169.254.169.254", "cloud metadata address"), ("0.0.0.0", "special-purpose address")]
    {
        assert_eq!(decide(&book, address, 80), Decision::Deny { rule: rule.to_owned() });
    }
    let listed = RuleBook::new(set(&["169.254.169.254"], &[]));
    assert!(!is_allowed(&listed, "169.254.169.254", 80), "listed without a port");
    let listed = RuleBook::new(set(&["169.254.169.254:80"], &[]));
    assert!(is_allowed(&listed, "169.254.169.254", 80));
}

#[test]
fn the_public_mode_allows_names_and_public_addresses() {
    let mut rules = RuleSet::new(Unlisted::Public);
    rules.deny(Deny { pattern: HostPattern::parse("**.bad.example").unwrap(), origin: Origin::Settings });
    let book = RuleBook::new(rules);
    assert!(is_allowed(&book, "any.example", 8443) && is_allowed(&book, "1.1.1.1", 443));
    for host in ["x.bad.example", "127.0.0.1", "10.0.0.1", "[::1]", "169.254.169.254", "[fe80::1]"] {
        assert!(matches!(decide(&book, host, 443), Decision::Deny { .. }), "{host}");
    }
}

#[test]
fn a_swap_replaces_the_rules_and_keeps_the_grants() {
    let book = RuleBook::new(set(&["a.example"], &[]));
    let before = book.snapshot();
    assert_eq!(book.grant(&Host::parse("b.example").unwrap(), 443), 2);
    assert_eq!(book.replace(set(&[], &[])), 3);
    assert!(!is_allowed(&book, "a.example", 443));
    assert!(is_allowed(&book, "b.example", 443) && !is_allowed(&book, "b.example", 80));
    assert!(matches!(before.decide(&Host::parse("a.example").unwrap(), 443), Decision::Allow { .. }));
    book.replace(set(&[], &["b.example"]));
    assert!(!is_allowed(&book, "b.example", 443), "a later deny beats a grant");
    assert_eq!(book.revoke_grants(), 5);
    book.replace(set(&[], &[]));
    assert_eq!(decide(&book, "b.example", 443), Decision::Unlisted);
}

#[test]
fn what_was_taken_back_comes_again_only_by_a_choice() {
    let (book, rules) = (RuleBook::new(RuleSet::default()), set(&["a.example:443", "b.example:443"], &[]));
    let host = Host::parse("a.example").unwrap();
    book.revoke(&host, 443);
    book.grant_unless_revoked(&rules);
    assert!(!is_allowed(&book, "a.example", 443) && is_allowed(&book, "b.example", 443));
    book.grant_all(&rules);
    assert!(is_allowed(&book, "a.example", 443));
    book.revoke(&host, 443);
    book.grant(&host, 443);
    book.grant_unless_revoked(&rules);
    assert!(is_allowed(&book, "a.example", 443));
}

proptest! {
    #[test]
    fn an_unlisted_name_is_never_allowed(
        listed in prop::collection::vec("(\\*\\.|\\*\\*\\.)?[ab]{1,2}\\.[ab]{1,2}", 0..6),
        host in "[ab]{1,2}(\\.[ab]{1,2}){0,3}",
    ) {
        let book = RuleBook::new(set(&listed.iter().map(String::as_str).collect::<Vec<_>>(), &[]));
        let covered = listed.iter().any(|pattern| {
            let zone = pattern.trim_start_matches(['*', '.']);
            let below = host.ends_with(&format!(".{zone}"));
            match pattern.strip_prefix("**.") {
                Some(_) => below || host == zone,
                None if pattern.starts_with("*.") => below,
                None => host == zone,
            }
        });
        prop_assert_eq!(is_allowed(&book, &host, 443), covered);
    }
}
