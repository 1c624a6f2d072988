use std::collections::BTreeMap;
use std::fs;
use std::io::Write as _;

use serde::Deserialize;

use super::*;

#[derive(Debug, Deserialize, PartialEq)]
struct Entry {
    name: String,
    description: String,
}

fn put(path: &Path, content: impl AsRef<[u8]>) {
    File::create(path).unwrap().write_all(content.as_ref()).unwrap();
}

#[test]
fn front_matter_and_body_are_split() {
    let cases = [
        ("---\nname: a\n---\nbody\n", Some(("name: a", "body\n"))),
        ("---\r\nname: a\r\n---\r\nbody", Some(("name: a", "body"))),
        ("\u{feff}---\nname: a\n---", Some(("name: a", ""))),
        ("---\na: |\n  x ---\n---\nb", Some(("a: |\n  x ---", "b"))),
        ("---\n---\n", Some(("", ""))),
        ("---\nname: a\n", None),
        (" ---\nname: a\n---\n", None),
        ("--- name: a\n---\n", None),
        ("", None),
    ];
    for (text, wanted) in cases {
        assert_eq!(split(text), wanted, "{text:?}");
    }
}

#[test]
fn yaml_is_read_in_all_its_forms() {
    let entry: Entry = parse("description: >\n  two\n  lines\nname: \"a\"\nother: [1, {x: y}]").unwrap();
    assert_eq!(entry, Entry { name: "a".into(), description: "two lines\n".into() });
}

#[test]
fn name_and_description_lines_are_read_where_yaml_fails() {
    let front = "name: log-triage\ndescription: Use when: logs\n  are pasted\n\nlicense: MIT";
    assert!(matches!(parse::<Entry>(front), Err(FrontMatterError::Invalid(_))));
    assert_eq!(line_value(front, "name").as_deref(), Some("log-triage"));
    assert_eq!(line_value(front, "description").as_deref(), Some("Use when: logs are pasted"));
    assert_eq!(line_value(front, "missing"), None);
    assert_eq!(line_value("name: 'a: b'", "name").as_deref(), Some("a: b"));
    assert_eq!(line_value("description: >-\n  one\n  two", "description").as_deref(), Some("one two"));
}

#[test]
fn an_anchor_bomb_is_refused_at_once() {
    let mut front = String::from("a0: &a0 [x, x, x, x, x, x, x, x, x, x]\n");
    for level in 1..12 {
        let before = format!("*a{}, ", level - 1).repeat(9);
        front.push_str(&format!("a{level}: &a{level} [{before}*a{}]\n", level - 1));
    }
    front.push_str("name: a\ndescription: *a11\n");
    let error = parse::<BTreeMap<String, serde_json::Value>>(&front).unwrap_err();
    assert!(matches!(error, FrontMatterError::Grows(_)), "{error}");
}

#[test]
fn deep_nesting_is_refused() {
    let front = format!("name: {}{}", "[".repeat(5_000), "]".repeat(5_000));
    assert!(parse::<serde_json::Value>(&front).is_err());
}

#[test]
fn garbage_is_an_error_and_does_not_panic() {
    for front in ["\u{0}", "&a", "*a", "? ?", "%YAML", "!!x", "- : -", "{", "\t\t", "name: !!binary %%%"] {
        let _ = parse::<Entry>(front);
        let _ = line_value(front, "name");
    }
}

#[test]
fn only_the_beginning_of_a_file_is_read() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("SKILL.md");
    put(&path, "---\nname: ä\n---\nbody");
    assert_eq!(read(&path).unwrap().as_deref(), Some("name: ä"));
    // The closing line is beyond the first chunk, and a character crosses its end.
    let long = format!("x{}", "ä".repeat(CHUNK));
    put(&path, format!("---\nname: {long}\n---\n"));
    assert_eq!(read(&path).unwrap(), Some(format!("name: {long}")));
    put(&path, [b"---\nname: a\n---\n".as_slice(), &[b'x'; 2 * CHUNK], &[0xff]].concat());
    assert_eq!(read(&path).unwrap().as_deref(), Some("name: a"));
    put(&path, "no front matter");
    assert_eq!(read(&path).unwrap(), None);
    put(&path, [0xff, 0xfe]);
    assert!(matches!(read(&path), Err(FrontMatterError::NotUtf8)));
}

#[test]
fn a_gigabyte_of_front_matter_is_refused_unread() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("SKILL.md");
    put(&path, "---\nname: ");
    let file = fs::OpenOptions::new().write(true).open(&path).unwrap();
    file.set_len(1024 * 1024 * 1024).unwrap();
    assert!(matches!(read(&path), Err(FrontMatterError::TooLong)));
    assert!(read_whole(&path, 1024).unwrap_err().to_string().contains("larger than 1 KiB"));
}

#[test]
fn special_files_are_not_opened() {
    let folder = tempfile::tempdir().unwrap();
    assert!(matches!(read(folder.path()), Err(FrontMatterError::Read(_))));
}
