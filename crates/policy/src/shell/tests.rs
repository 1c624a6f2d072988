use super::*;

fn programs(command: &str) -> Vec<String> {
    analyse(command).parts.iter().filter_map(|part| part.words.first().cloned().flatten()).collect()
}

fn words(command: &str) -> Vec<Option<String>> {
    analyse(command).parts.pop().unwrap_or_default().words
}

fn some(text: &str) -> Option<String> {
    Some(text.to_owned())
}

#[test]
fn every_command_of_a_chain_is_found() {
    assert_eq!(programs("a; b && c || d | e & f\ng"), ["a", "b", "c", "d", "e", "f", "g"]);
}

#[test]
fn quotes_are_removed_as_bash_does() {
    let cases = [
        (r#"e a"b c"d"#, some("ab cd")),
        (r"e 'a\b'", some(r"a\b")),
        (r#"e "a\b\"c""#, some(r#"a\b"c"#)),
        (r"e a\ b", some("a b")),
        (r"e $'a\x41\n\101\u00e9'", some("aA\nAé")),
        ("e a\\\nb", some("ab")),
        ("e ''", some("")),
        ("e $x", None),
        ("e \"$x\"", None),
        ("e a$(b)", None),
        ("e '$x'", some("$x")),
        ("e \"a'b\"", some("a'b")),
        ("e a=b", some("a=b")),
        ("e {}", some("{}")),
        ("e a#b", some("a#b")),
        ("e ~/x", some("~/x")),
    ];
    for (command, expected) in cases {
        assert_eq!(words(command).last(), Some(&expected), "{command:?}");
    }
}

#[test]
fn patterns_are_run_time_words_that_keep_their_text() {
    let part = analyse("ls a *.rs '*'").parts.remove(0);
    assert_eq!(part.words, [some("ls"), some("a"), None, some("*")]);
    assert_eq!(part.patterns, [Pattern { at: 2, text: "*.rs".to_owned(), relayed: false }]);
}

#[test]
fn wrappers_are_named_and_their_variables_are_kept() {
    let part = analyse("A=1 env B=2 timeout 5 nice x y").parts.remove(0);
    assert_eq!(part.words, [some("x"), some("y")]);
    assert_eq!(part.behind, ["env", "timeout", "nice"]);
    let part = analyse("A=1 env B=$c x").parts.remove(0);
    assert_eq!(part.assignments, [("A".to_owned(), some("1")), ("B".to_owned(), None)]);
    assert_eq!(program_names(&analyse("sudo /bin/rm x").parts[1]), ["sudo", "/bin/rm", "rm"]);
}

#[test]
fn redirections_name_their_files() {
    let found =
        analyse("a <in >out 2>err &>both >|force <>rw >&dup 2>&1 3<&- >/dev/null >>$x <<<text").redirections;
    let files: Vec<(bool, Option<&str>)> = found.iter().map(|r| (r.writes, r.target.as_deref())).collect();
    let expected = [
        (false, Some("in")),
        (true, Some("out")),
        (true, Some("err")),
        (true, Some("both")),
        (true, Some("force")),
        (true, Some("rw")),
        (true, Some("dup")),
        (true, None),
    ];
    assert_eq!(files, expected);
}

#[test]
fn unparsable_text_still_yields_program_names_for_deny_rules() {
    let understood = analyse("ls \"unclosed; rm -rf build");
    assert!(!understood.doubts.is_empty());
    assert!(understood.parts.iter().any(|part| program_names(part).contains(&"rm")));
}

#[test]
fn the_caller_decides_whether_reading_is_safe() {
    let part = analyse("cat /srv/project/a.txt").parts.remove(0);
    assert!(!is_known_safe(&part));
    assert!(is_known_safe_within(&part, &|path| path.starts_with("/srv/project/")));
    let home = analyse("cat ~/a.txt").parts.remove(0);
    assert!(!is_known_safe_within(&home, &|_| true));
}
