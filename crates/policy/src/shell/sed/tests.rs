use std::process::{Command, Stdio};

use pollux_test_support::chance::Chance;

use super::is_tame;

#[test]
fn scripts_that_only_edit_and_print_are_tame() {
    for script in [
        "",
        "p",
        "1,40p",
        "$=",
        "$!d",
        "1~2p",
        "0~4{p;d}",
        "/fn main/,/^}/p",
        "/a/I,+3 !d",
        "\\|^/usr|d",
        "\\,x,Ip",
        "1 , 2 p",
        "2q;p",
        "q 5",
        "l 1",
        "s/a/b/",
        "s/a/b/gI;s,/,|,2p ; p",
        "s/a/b/ # comment",
        "s/[0-9]+/N/g",
        "s/[^^]*//",
        "/^[[:space:]]*$/d",
        "s/[^]]*]/x/",
        "s/\\[/x/",
        "s/[\\/]/x/",
        "s/x/[/",
        "y/abc/xyz/;p",
        ":a;N;$!ba;s/\\n/ /g",
        ":a;$!{N;ba};p",
        "$!{N;D;}",
        "/x/{s/a/b/;s/c/d/}",
        "1i hello; e not a command",
        "$!N;P;D",
        "s/é/e/g",
        "#n\np\n# comment",
        "t;T end;:end",
    ] {
        assert!(is_tame(script), "{script:?}");
    }
}

#[test]
fn scripts_that_run_or_write_or_may_be_read_in_two_ways_are_not_tame() {
    for script in [
        "e",
        "1e x",
        "w out",
        "r x",
        "R x",
        "W x",
        "s/a/b/e",
        "s/a/b/ie",
        "s/a/b/ ie",
        "s/a/b/ i;e x",
        "s/a/b/ iw Makefile",
        "s/a/b/ i;r .env",
        "s/a/b/\tie",
        "s/a/b/g e",
        "s/a/b/w x",
        "s/a/b/ w x",
        "s/a/b/p w x",
        "y/a/b/ e x",
        "y/a/b/e x",
        "p e x",
        "p i;e x",
        "{p}e x",
        "} e x",
        ":x e x",
        "b x e x",
        ":x}e x",
        "t\te x",
        "q 5 e x",
        "l e x",
        "= e x",
        "s/[^^][:x]/touch hit/e;s/:]]/z/",
        "s/[/]/p;/;e x;/p",
        "s/[/x/;s/]/y/",
        "/[/]/e x;/p",
        "/[/p",
        "s/[x\\]/y/e;s/]/z/",
        "s/[[:x/y/;s/:]]/z/",
        "s/[[.].]/]/x/",
        "s/a/b\\",
        "s/a/b\\\nc/e",
        "s/a",
        "s/a/b",
        "sxaxbxe",
        "s\\a\\b\\",
        "s[a[b[",
        "s a b ",
        "sé a é b é",
        "s中|x中|y|",
        "1!!p",
        "v",
        "F",
        "z",
        "\\xaxp",
        "a\\\ne x",
        "p\x0be x",
        "p\re x",
        "1,e x",
        "s/a/b/;e x",
        "s/a/b/ip e",
        "bé;e x",
    ] {
        assert!(!is_tame(script), "{script:?}");
    }
}

/// Pieces of scripts; some that run or write something, in places where they may be text.
#[rustfmt::skip]
const PIECES: &[&str] = &[
    "s/", "s/", "s,", "s|", "y/", "/", "/", "/", ",", "|", "h", "x", "e", "e", "w", "r", "i", "i", "a", "c", "g", "p", "p", "I", "M", "m", "1", "2",
    "$", "!", "~", "+", "{", "}", ";", ";", ";", " ", " ", "\t", "\n", "\\", "[", "]", "[^", "[^^]", "[:", ":]", "[[:alpha:]]", "[.", ".]", "[=", "=]", "^",
    ":x", "bx", "t", "T", "q", "l", "=", "#", "n", "d", "e o", "w o", "r o", "s/h/x/", "s/h/e o/", "/h/", "1,2", "a\\", "\\|", "\\n", "-", "*", ".", "&", "é",
];

fn script(chance: &mut Chance) -> String {
    (0..3 + chance.below(9)).map(|_| *chance.pick(PIECES)).collect()
}

/// What `sed --sandbox` objects to; `None` if there is no GNU `sed`.
fn refusal(script: &str, folder: &std::path::Path) -> Option<String> {
    let done = Command::new("sed")
        .args(["--sandbox", "-n", "-e", script])
        .current_dir(folder)
        .stdin(Stdio::null())
        .output()
        .ok()?;
    Some(String::from_utf8_lossy(&done.stderr).into_owned())
}

#[test]
fn the_sandbox_of_sed_accepts_every_tame_script() {
    let folder = tempfile::tempdir().unwrap();
    let Some(true) = refusal("1e x", folder.path()).map(|text| text.contains("sandbox")) else { return };
    let (mut tame, mut valid) = (0, 0);
    for seed in 0..60_000 {
        let script = script(&mut Chance::new(seed));
        if !is_tame(&script) {
            continue;
        }
        tame += 1;
        if tame > 800 {
            break;
        }
        let said = refusal(&script, folder.path()).unwrap();
        assert!(!said.contains("sandbox"), "{script:?}: {said}");
        valid += u32::from(said.is_empty());
    }
    assert!(valid > 100, "only {valid} of {tame} scripts are valid: the search proves little");
}
