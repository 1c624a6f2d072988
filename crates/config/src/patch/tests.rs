use proptest::prelude::*;
use serde_json::json;

use super::*;

fn set(text: &str, path: &str, value: Value) -> String {
    let mut patch = Patch::open(text).unwrap();
    patch.set(&path.split('.').collect::<Vec<_>>(), &value).unwrap();
    let text = patch.into_text();
    jsonc::parse(&text).unwrap_or_else(|defect| panic!("{defect:?} in {text}"));
    text
}

fn removed(text: &str, path: &str) -> String {
    let mut patch = Patch::open(text).unwrap();
    assert!(patch.remove(&path.split('.').collect::<Vec<_>>()));
    let text = patch.into_text();
    jsonc::parse(&text).unwrap_or_else(|defect| panic!("{defect:?} in {text}"));
    text
}

#[test]
fn a_value_is_replaced_in_place() {
    for (before, path, value, after) in [
        ("{ \"a\" :1/*x*/ }", "a", json!(2), "{ \"a\" :2/*x*/ }"),
        ("{\"a\": {\"b\": [1,\n2]}, \"c\":3}", "a.b", json!("x"), "{\"a\": {\"b\": \"x\"}, \"c\":3}"),
        ("{\"a\": 1, \"a\": 2}", "a", json!(3), "{\"a\": 1, \"a\": 3}"),
        ("{\n\t\"a\": 1\n}", "a", json!([1]), "{\n\t\"a\": [\n\t\t1\n\t]\n}"),
        ("{\"a\":   1}", "a", json!(1), "{\"a\":   1}"),
        ("\u{feff}{\"a\": 1}", "a", json!(2), "\u{feff}{\"a\": 2}"),
        ("{\"a\": \"é\\n\"}", "a", json!("\"\\\u{1}"), "{\"a\": \"\\\"\\\\\\u0001\"}"),
    ] {
        assert_eq!(set(before, path, value), after);
    }
}

#[test]
fn a_new_key_goes_after_the_last_one() {
    for (before, path, value, after) in [
        ("{}", "a", json!(1), "{\n  \"a\": 1\n}"),
        ("{\n}\n", "a.b", json!(1), "{\n  \"a\": {\n    \"b\": 1\n  }\n}\n"),
        ("{\"a\":1}", "b", json!(2), "{\"a\":1, \"b\": 2}"),
        ("{\"a\":1}", "b.c", json!(2), "{\"a\":1, \"b\": {\"c\": 2}}"),
        (
            "{\n\n    \"a\": 1\n\n}",
            "b",
            json!({"c": 2}),
            "{\n\n    \"a\": 1,\n    \"b\": {\n        \"c\": 2\n    }\n\n}",
        ),
        (
            "{\n  \"a\": 1 // one\n  // end\n}",
            "b",
            json!(2),
            "{\n  \"a\": 1, // one\n  \"b\": 2\n  // end\n}",
        ),
        (
            "{\r\n  \"a\": {\r\n    \"x\": 1\r\n  }\r\n}",
            "a.y",
            json!(2),
            "{\r\n  \"a\": {\r\n    \"x\": 1,\r\n    \"y\": 2\r\n  }\r\n}",
        ),
        ("{ /* nothing yet */ }", "a", json!(1), "{ /* nothing yet */\n  \"a\": 1\n}"),
        ("{\n  // nothing yet\n}", "a", json!(1), "{\n  // nothing yet\n  \"a\": 1\n}"),
        ("{\"a\": {}}", "a.b", json!(true), "{\"a\": {\n  \"b\": true\n}}"),
        ("{\n  \"a\": 1, \"b\": 2 }", "c", json!(3), "{\n  \"a\": 1, \"b\": 2,\n  \"c\": 3 }"),
    ] {
        assert_eq!(set(before, path, value), after);
    }
}

#[test]
fn nothing_can_be_set_below_a_non_object() {
    let mut patch = Patch::open("{\"a\": {\"b\": 1}}").unwrap();
    assert_eq!(patch.set(&["a", "b", "c"], &json!(1)), Err(Blocked { key: "a.b".to_owned() }));
    assert_eq!(patch.into_text(), "{\"a\": {\"b\": 1}}");
}

#[test]
fn a_removed_key_takes_its_line_and_the_right_comma_along() {
    for (before, path, after) in [
        ("{\"a\": 1}", "a", "{}"),
        ("{\n  \"a\": 1\n}", "a", "{}"),
        ("{\n  // kept\n  \"a\": 1\n}", "a", "{\n  // kept\n}"),
        ("{\"a\": 1, \"b\": 2, \"c\": 3}", "a", "{\"b\": 2, \"c\": 3}"),
        ("{\"a\": 1, \"b\": 2, \"c\": 3}", "b", "{\"a\": 1, \"c\": 3}"),
        ("{\"a\": 1, \"b\": 2, \"c\": 3}", "c", "{\"a\": 1, \"b\": 2}"),
        ("{\n  \"a\": 1,\n  \"b\": 2,\n  \"c\": 3\n}", "b", "{\n  \"a\": 1,\n  \"c\": 3\n}"),
        ("{\n  \"a\": 1, // one\n  \"b\": 2 // two\n}", "b", "{\n  \"a\": 1 // one\n}"),
        ("{\n  \"a\": 1, // one\n  \"b\": 2 // two\n}", "a", "{\n  \"b\": 2 // two\n}"),
        (
            "{\n  // about a\n  \"a\": 1,\n\n  \"b\": {\"x\": 1, \"y\": 2}\n}",
            "b.y",
            "{\n  // about a\n  \"a\": 1,\n\n  \"b\": {\"x\": 1}\n}",
        ),
        ("{\"a\": 1, /* b */ \"b\": 2}", "a", "{/* b */ \"b\": 2}"),
        ("{ \"a\": 1,\n  \"b\": 2 }", "b", "{ \"a\": 1\n  }"),
        ("{\"a\": 1, \"b\": 2, \"a\": 3}", "a", "{\"b\": 2}"),
        ("{\"a\": {\"b\": 1}, \"a\": {\"b\": 2, \"b\": 3}}", "a.b", "{\"a\": {\"b\": 1}, \"a\": {}}"),
    ] {
        assert_eq!(removed(before, path), after);
    }
}

#[test]
fn a_taken_value_brings_its_comments() {
    let text =
        "{\n  // section\n\n  // why\n  \"a\": {\n    \"b\": 1 // inner\n  }, // trailing\n  \"c\": 2\n}";
    let mut patch = Patch::open(text).unwrap();
    let taken = patch.take(&["a"]).unwrap();
    assert_eq!(taken.raw, "{\n  \"b\": 1 // inner\n}");
    assert_eq!(taken.comments, ["// why", "// trailing"]);
    assert_eq!(patch.text(), "{\n  // section\n\n  \"c\": 2\n}");
    patch.put(&["x", "y"], &taken).unwrap();
    assert_eq!(
        patch.into_text(),
        "{\n  // section\n\n  \"c\": 2,\n  \"x\": {\n    // why\n    // trailing\n    \"y\": {\n      \"b\": 1 // inner\n    }\n  }\n}"
    );
}

/// Texts in odd but legal layouts.
fn layout() -> impl Strategy<Value = String> {
    let space = prop_oneof![
        Just(""),
        Just(" "),
        Just("\n"),
        Just("\n\n  "),
        Just("/* c */"),
        Just("// c\n"),
        Just("\r\n\t")
    ];
    let value = prop_oneof![
        Just("1"),
        Just("\"x\""),
        Just("{}"),
        Just("[1, // e\n 2]"),
        Just("{\"p\": 1, \"q\": {\"r\": null}}")
    ];
    prop::collection::vec((space.clone(), space.clone(), value, space.clone(), space), 0..4).prop_map(
        |entries| {
            let entries: Vec<String> = entries
                .into_iter()
                .zip(["a", "b", "c", "d"])
                .map(|((s1, s2, value, s3, s4), name)| format!("{s1}\"{name}\"{s2}:{s3}{value}{s4}"))
                .collect();
            format!("{{{}}}", entries.join(","))
        },
    )
}

proptest! {
    #[test]
    fn any_layout_still_parses_and_only_the_chosen_key_changes(
        text in layout(),
        path in prop_oneof![Just("a"), Just("b"), Just("c"), Just("b.p"), Just("c.q.r"), Just("z"), Just("z.y")],
    ) {
        let names: Vec<&str> = path.split('.').collect();
        let before = jsonc::parse(&text).unwrap().value;

        let mut patch = Patch::open(&text).unwrap();
        if patch.set(&names, &json!({"new": [true]})).is_ok() {
            let after = jsonc::parse(&patch.into_text()).unwrap().value;
            let mut wanted = before.clone();
            crate::settings::schema::insert(wanted.as_object_mut().unwrap(), path, json!({"new": [true]}));
            prop_assert_eq!(after, wanted);
        }

        let mut patch = Patch::open(&text).unwrap();
        let there = patch.get(&names).is_some();
        prop_assert_eq!(patch.remove(&names), there);
        let text_after = patch.text().to_owned();
        let comments = |text: &str| text.matches("/* c */").count() + text.matches("// c").count();
        prop_assert_eq!(patch.get(&names), None);
        prop_assert!(jsonc::parse(&text_after).is_ok());
        prop_assert!(there || text_after == text);
        prop_assert!(comments(&text_after) <= comments(&text));

        let mut patch = Patch::open(&text).unwrap();
        if let Some(taken) = patch.take(&names) {
            prop_assert!(jsonc::parse(patch.text()).is_ok());
            patch.put(&["moved"], &taken).unwrap();
            let moved = patch.get(&["moved"]);
            let mut value = Some(&before);
            for name in &names { value = value.and_then(|value| value.get(name)); }
            prop_assert_eq!(moved.as_ref(), value);
        }
    }
}
