use pollux_host::agents::question_about;

use super::*;

fn fixed() -> Vec<AgentRow> {
    let painter = AgentRow {
        name: "painter".into(),
        description: "paints\nhouses".into(),
        origin: "project".into(),
        status: "unacknowledged",
        ..AgentRow::default()
    };
    let far = AgentRow {
        name: "far".into(),
        status: "enabled",
        origin: "user".into(),
        is_remote: true,
        ..AgentRow::default()
    };
    vec![painter, far]
}

/// What is printed for people.
fn said(text: &str) -> String {
    let mut out = Vec::new();
    show(&mut out, text).unwrap();
    String::from_utf8(out).unwrap()
}

#[test]
fn agents_are_listed_by_kind_with_their_state() {
    let text = said(&page::text(&fixed(), true));
    assert!(
        text.contains("Local agents:\n\npainter [Needs approval] [project]\n  Description: paints houses\n"),
        "{text}"
    );
    assert!(text.contains("Remote agents:\n\nfar [Enabled] [user]\n"), "{text}");
    let json = page::json(&fixed(), true, &[]);
    assert_eq!(json["agents"][1]["kind"], "remote");
    let text = said(&page::whole(&fixed()[0], "You \u{1b}[31mpaint."));
    assert!(text.ends_with("\nYou paint.\n"), "{text:?}");
}

#[test]
fn a_person_is_asked_about_all_that_nobody_agreed_to_and_about_nothing_else() {
    let mut rows = fixed();
    let (lines, names) = question_about(&rows).unwrap();
    assert!(lines.iter().any(|line| line == "  * painter: paints houses"), "{lines:?}");
    assert_eq!(names, ["painter"]);
    rows.remove(0);
    assert!(question_about(&rows).is_none());
}
