use super::*;

fn hit() -> Hit {
    Hit {
        citation: "memory/a.md#L3-L9".into(),
        source: "memory",
        provenance: "untrusted",
        date: Some("2026-03-01".into()),
        score: 0.75,
        snippet: "first\nsecond \u{1b}[31m".into(),
        focus: 0,
        parts: vec![("vector", 0.5), ("text", 0.25), ("recency", 0.0)],
        cosine: Some(0.6),
        keyword: None,
    }
}

#[test]
fn a_passage_is_shown_with_its_place_and_who_wrote_it() {
    let text = results::text("q", &[hit()], false);
    assert!(
        text.starts_with(
            "1. memory/a.md#L3-L9  (memory, 2026-03-01, untrusted, score 0.750)\n   first second"
        ),
        "{text}"
    );
    assert!(!text.contains('\u{1b}'));
    assert_eq!(results::text("a\nb", &[], false), "No results for: a b\n");
}

#[test]
fn a_score_is_the_sum_of_what_is_shown() {
    let text = results::text("q", &[hit()], true);
    assert!(text.contains("   0.500000 vector + 0.250000 text = 0.750000; cosine 0.600\n"), "{text}");
}

#[test]
fn a_long_passage_is_cut() {
    let long = Hit { snippet: "ä".repeat(1000), ..hit() };
    let text = results::text("q", &[long], false);
    assert_eq!(text.matches('ä').count(), 300);
    assert!(text.ends_with("…\n"));
}

#[test]
fn the_match_is_in_what_is_shown() {
    let words = "lorem ipsum ".repeat(25);
    for (before, after) in [(words.as_str(), words.as_str()), (&words, ""), ("", &words)] {
        let snippet = format!("{before}WALNUT {after}");
        let focus = before.chars().count();
        let text = results::text("q", &[Hit { snippet, focus, ..hit() }], false);
        assert!(text.contains("WALNUT"), "{text}");
        assert!(text.chars().count() < 420, "{text}");
    }
}

#[test]
fn a_state_without_memory_says_how_to_switch_it_on() {
    let text = page::status(&json!({"enabled": false}));
    assert!(text.starts_with("Durable memory is off") && text.contains("pollux memory enable"), "{text}");
    let on = page::status(&json!({"enabled": true, "files": 3, "vector": {"available": false},
        "sourceCounts": [{"source": "memory", "files": 2, "chunks": 9}]}));
    assert!(on.contains("Files            3\n") && on.contains("Vector search    no\n"), "{on}");
    assert!(on.contains("memory         2 files, 9 passages"), "{on}");
}
