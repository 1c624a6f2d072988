use super::*;

fn history(harness: &mut ComposerHarness) {
    harness.composer.add_history(
        vec!["first".to_owned(), "second\nline".to_owned(), "third".to_owned()],
        vec!["ls".to_owned(), "pwd".to_owned()],
    );
}

#[test]
fn up_and_down_walk_through_history_at_the_edges() {
    table(
        &[
            ("|", "<Up>", "|third"),
            ("|", "<Up><Up>", "|second\nline"),
            ("|", "<Up><Up><Up><Up>", "|first"),
            ("draft|", "<Up>", "|draft"),
            ("draft|", "<Up><Up>", "|third"),
            ("draft|", "<Up><Up><Down>", "third|"),
            ("draft|", "<Up><Up><Down><Down>", "draft|"),
            ("draft|", "<C-p><C-p>", "|second\nline"),
            ("draft|", "<C-p><C-n>", "draft|"),
            ("draft|", "<C-n>", "draft|"),
            ("|", "<C-p>x<C-p><C-n>", "xthird|"),
        ],
        history,
    );
}

#[test]
fn a_submission_is_the_latest_entry() {
    let mut harness = ComposerHarness::new();
    history(&mut harness);
    harness.press("<Up>");
    harness.submit();
    harness.press("new");
    harness.submit();
    harness.press("new");
    harness.submit();
    harness.press("<Up><Up>");
    assert_eq!(harness.marked(), "|third");
}

#[test]
fn a_draft_with_a_paste_comes_back_with_it() {
    let mut harness = ComposerHarness::new();
    history(&mut harness);
    harness.paste(&"x\n".repeat(9));
    harness.press("<C-p><C-n>");
    assert_eq!(harness.composer.expanded(), "x\n".repeat(9));
    assert_eq!(harness.composer.text(), "[Pasted Text: 10 lines]");
}

#[test]
fn queued_prompts_are_pulled_back_before_history() {
    let mut harness = ComposerHarness::new();
    history(&mut harness);
    harness.composer.conditions.queued = true;
    assert_eq!(harness.press("<Up>"), Reaction::PullQueue);
    harness.composer.set_text("one\n\ntwo");
    assert_eq!(harness.marked(), "one\n\ntwo|");
    harness.composer.conditions.queued = false;
    harness.press("<C-c><Up>");
    assert_eq!(harness.marked(), "|third");
}

#[test]
fn shell_mode_has_its_own_history_and_ends_with_escape() {
    let mut harness = ComposerHarness::new();
    history(&mut harness);
    harness.press("!");
    assert!(harness.composer.shell_mode());
    harness.press("<Up>");
    assert_eq!(harness.marked(), "|pwd");
    assert_eq!(harness.press("<C-r><Tab>"), Reaction::Changed);
    let submission = harness.submit();
    assert_eq!((submission.text.as_str(), submission.shell), ("pwd", true));
    assert!(harness.composer.shell_mode());
    assert_eq!(harness.press("<Esc>"), Reaction::Changed);
    assert!(!harness.composer.shell_mode());
    harness.press("!!");
    assert!(!harness.composer.shell_mode());
    harness.press("a!");
    assert_eq!(harness.marked(), "a!|");
}

#[test]
fn search_finds_the_latest_prompt_and_escape_brings_the_draft_back() {
    table(
        &[
            ("draft|", "<C-u><C-r>IR<Tab>", "third|"),
            ("|", "<C-r>ir<C-r><Tab>", "first|"),
            ("|", "<C-r>ir<Down><Down><Tab>", "third|"),
            ("dr|aft", "<C-r>x<Esc>", "dr|aft"),
            ("dr|aft", "<C-r>x<C-c>", "dr|aft"),
            ("|", "<C-r>nothing<Tab>", "nothing|"),
            ("|", "<C-r>lineX<BS><Tab>", "second\nline|"),
        ],
        history,
    );
    let mut harness = ComposerHarness::new();
    history(&mut harness);
    harness.press("<C-r>sec");
    assert!(harness.composer.searching());
    assert_eq!(harness.submit().text, "second\nline");
    assert!(!harness.composer.searching());
    // Backspace in an empty search does not end the shell mode.
    harness.press("!<C-r><BS><BS>");
    assert!(harness.composer.searching() && harness.composer.shell_mode());
}

fn item(insert: &str, run: bool) -> Item {
    Item { insert: insert.to_owned(), label: insert.to_owned(), run, ..Item::default() }
}

/// Types, and answers the question that results.
fn suggested(harness: &mut ComposerHarness, keys: &str, items: &[Item]) -> Wanted {
    match harness.press(keys) {
        Reaction::Complete(wanted) => {
            assert!(harness.composer.candidates(Candidates {
                id: wanted.id,
                items: items.to_vec(),
                note: ""
            }));
            wanted
        }
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_slash_command_is_completed_or_run() {
    let mut harness = ComposerHarness::new();
    let wanted = suggested(&mut harness, "/he", &[item("help", true), item("hello", false)]);
    assert_eq!((wanted.kind, wanted.text.as_str(), wanted.range), (Kind::Slash, "/he", 1..3));
    assert_eq!(harness.submit().text, "/help");

    suggested(&mut harness, "/he", &[item("help", true), item("hello", false)]);
    harness.press("<Down>");
    let Reaction::Complete(next) = harness.press("<Enter>") else { panic!("arguments are asked for") };
    assert_eq!(harness.marked(), "/hello |");
    assert_eq!((next.text.as_str(), next.range), ("/hello ", 7..7));
    assert!(harness.composer.candidates(Candidates {
        id: next.id,
        items: vec![item("world", false)],
        note: ""
    }));
    harness.press("<Tab>");
    assert_eq!(harness.marked(), "/hello world |");
    assert_eq!(harness.submit().text, "/hello world");

    suggested(&mut harness, "/help", &[item("help", false)]);
    assert_eq!(harness.submit().text, "/help", "what is complete is sent");
}

#[test]
fn a_typed_path_is_sent_as_it_stands_unless_another_was_chosen() {
    let paths = |names: [&str; 2]| names.map(|name| Item { path: true, ..item(name, false) });
    let mut harness = ComposerHarness::new();
    suggested(&mut harness, "/directory add ../p1", &paths(["../p1/", "../p10/"]));
    assert_eq!(harness.submit().text, "/directory add ../p1");
    suggested(&mut harness, "/directory add ../p1/", &paths(["../p1/a", "../p1/b"]));
    assert_eq!(harness.submit().text, "/directory add ../p1/");
    suggested(&mut harness, "/directory add ../p1", &paths(["../p1/", "../p10/"]));
    harness.press("<Down><Enter>");
    assert_eq!(harness.marked(), "/directory add ../p10/|");
    harness.press("<C-u>");
    suggested(&mut harness, "/directory add ../p", &paths(["../p1/", "../p10/"]));
    harness.press("<Tab>");
    assert_eq!(harness.marked(), "/directory add ../p1/|");
}

#[test]
fn what_is_no_slash_command_is_not_completed() {
    for text in ["//x", "/*x", "x/y", " /x"] {
        assert_eq!(ComposerHarness::new().press(text), Reaction::Changed, "{text}");
    }
    assert_eq!(ComposerHarness::with("first\n|").press("/x"), Reaction::Changed);
}

#[test]
fn an_answer_to_an_older_question_is_dropped() {
    let mut harness = ComposerHarness::new();
    let Reaction::Complete(first) = harness.press("/h") else { panic!() };
    let Reaction::Complete(second) = harness.press("e") else { panic!() };
    assert!(!harness.composer.candidates(Candidates {
        id: first.id,
        items: vec![item("hooks", true)],
        note: ""
    }));
    assert_eq!(harness.composer.popup_height(), 0);
    assert!(harness.composer.candidates(Candidates {
        id: second.id,
        items: vec![item("help", true)],
        note: ""
    }));
    assert_eq!(harness.composer.popup_height(), 1);
    harness.press("<Left>");
    assert_eq!(harness.composer.popup_height(), 0, "moving closes it");
    assert!(!harness.composer.candidates(Candidates {
        id: second.id,
        items: vec![item("help", true)],
        note: ""
    }));
}

#[test]
fn old_suggestions_stay_only_while_they_fit() {
    let mut harness = ComposerHarness::new();
    suggested(&mut harness, "/h", &[item("hooks", true), item("help", true)]);
    harness.press("e");
    assert_eq!(harness.composer.popup_height(), 1);
    assert_eq!(harness.submit().text, "/help");
}

#[test]
fn a_path_is_completed_with_escapes_and_directories_go_on() {
    let mut harness = ComposerHarness::new();
    let wanted = suggested(&mut harness, "see @sr", &[item("src/", false), item("my file.txt", false)]);
    assert_eq!((wanted.kind, wanted.text.as_str(), wanted.range), (Kind::At, "sr", 5..7));
    let Reaction::Complete(next) = harness.press("<Tab>") else { panic!() };
    assert_eq!(harness.marked(), "see @src/|");
    assert_eq!(next.text, "src/");
    harness.composer.candidates(Candidates {
        id: next.id,
        items: vec![item("src/my file.txt", false)],
        note: "",
    });
    assert_eq!(harness.press("<Enter>"), Reaction::Changed);
    assert_eq!(harness.marked(), "see @src/my\\ file.txt |");
}

#[test]
fn escape_closes_suggestions_and_tab_asks_again() {
    let mut harness = ComposerHarness::new();
    suggested(&mut harness, "@a", &[item("a.rs", false), item("b.rs", false)]);
    assert_eq!(harness.press("<Esc>"), Reaction::Changed);
    assert_eq!(harness.composer.popup_height(), 0);
    assert_eq!(harness.marked(), "@a|");
    assert!(matches!(harness.press("<Tab>"), Reaction::Complete(_)));
}

#[test]
fn shell_words_are_completed_on_tab() {
    let mut harness = ComposerHarness::new();
    assert_eq!(harness.press("!cat my"), Reaction::Changed);
    let wanted = suggested(&mut harness, "<Tab>", &[item("my file", false), item("my other", false)]);
    assert_eq!(wanted.kind, Kind::Shell { command: false });
    assert_eq!(harness.submit().text, "cat my", "Enter runs what stands there");
    harness.press("cat my");
    suggested(&mut harness, "<Tab>", &[item("my file", false), item("my other", false)]);
    harness.press("<Down><Up><Enter>");
    assert_eq!(harness.marked(), "cat my\\ file |");
    harness.press("<C-u>ls my");
    suggested(&mut harness, "<Tab>", &[item("my file", false)]);
    assert_eq!(harness.marked(), "ls my\\ file |", "the only one is taken at once");
}

#[test]
fn suggestions_scroll_and_wrap_around() {
    let mut harness = ComposerHarness::new();
    let items: Vec<Item> = (0..20).map(|number| item(&format!("c{number}"), false)).collect();
    suggested(&mut harness, "/c", &items);
    assert_eq!(harness.composer.popup_height(), 9);
    harness.press("<Up>");
    let popup = &harness.composer.completion.popup;
    assert_eq!(popup.selected().unwrap().insert, "c19");
    assert_eq!(popup.counter().unwrap(), "▲ (20/20)");
    harness.press("<C-n><C-n>");
    assert_eq!(harness.composer.completion.popup.selected().unwrap().insert, "c1");
    assert_eq!(harness.composer.completion.popup.counter().unwrap(), "▼ (2/20)");
}

#[test]
fn earlier_prompts_that_come_late_go_before_what_was_sent() {
    let mut harness = ComposerHarness::new();
    harness.press("sent");
    harness.submit();
    harness.press("<Up>");
    history(&mut harness);
    assert_eq!(harness.marked(), "|sent");
    harness.press("<Up>");
    assert_eq!(harness.marked(), "|third");
    harness.press("<Down><Down>");
    assert_eq!(harness.marked(), "sent|");
}

#[test]
fn a_choice_stays_when_more_is_known() {
    let mut harness = ComposerHarness::new();
    let wanted = suggested(&mut harness, "@", &[item("b", false), item("c", false)]);
    harness.press("<Down>");
    let more = ["a", "b", "c"].map(|name| item(name, false));
    assert!(harness.composer.candidates(Candidates { id: wanted.id, items: more.to_vec(), note: "" }));
    harness.press("<Tab>");
    assert_eq!(harness.marked(), "@c |");
    let wanted = suggested(&mut harness, "@", &[item("b", false), item("c", false)]);
    assert!(harness.composer.candidates(Candidates { id: wanted.id, items: more.to_vec(), note: "" }));
    harness.press("<Tab>");
    assert_eq!(harness.marked(), "@c @a |");
}

#[test]
fn shell_mode_is_left_with_backspace_and_stays_after_a_command() {
    let mut harness = ComposerHarness::new();
    harness.press("!ls");
    assert!(harness.submit().shell && harness.composer.shell_mode());
    harness.press("/quit");
    assert!(harness.submit().shell);
    harness.press("x<BS>");
    assert!(harness.composer.shell_mode());
    harness.press("<BS>");
    assert!(!harness.composer.shell_mode());
    // A command that is not typed letter by letter runs once.
    harness.composer.set_text("!ls");
    let sent = harness.submit();
    assert!(!sent.shell && sent.text == "!ls" && !harness.composer.shell_mode());
}

#[test]
fn a_picture_is_referred_to_apart_from_the_words_before_it() {
    let mut harness = ComposerHarness::with("look|");
    harness.composer.refer_to("/tmp/a b.png");
    assert_eq!(harness.marked(), "look @/tmp/a\\ b.png |");
}

#[test]
fn what_is_known_twice_is_recalled_once() {
    let mut harness = ComposerHarness::new();
    history(&mut harness);
    harness.composer.add_history(vec!["older".to_owned(), "third".to_owned()], Vec::new());
    harness.press("<Up><Up><Up><Up>");
    assert_eq!(harness.marked(), "|older");
}

#[test]
fn late_content_is_inserted_at_its_mark() {
    for (before, typed, after) in [
        ("see |", "and explain", "see @/tmp/a.png and explain|"),
        ("see| this", "<End>, now", "see @/tmp/a.png  this, now|"),
        ("see |", "", "see @/tmp/a.png |"),
        ("see |", "<C-a>Please ", "Please |see @/tmp/a.png "),
        ("one\n|two", "<Up><Home>zero<S-Enter>", "zero\n|one\n@/tmp/a.png two"),
        ("one|", "<BS><BS><BS>gone", "@/tmp/a.png gone|"),
        ("old |", "<C-u>new", "@/tmp/a.png new|"),
        ("one |two", "<C-k>three<C-_>", "one @/tmp/a.png |"),
    ] {
        let mut harness = ComposerHarness::with(before);
        let mark = harness.composer.mark();
        harness.press(typed);
        harness.composer.at(mark, |composer| composer.refer_to("/tmp/a.png"));
        assert_eq!(harness.marked(), after, "{before} {typed}");
    }
}

#[test]
fn late_content_goes_to_the_cursor_if_its_prompt_was_sent() {
    let mut harness = ComposerHarness::with("see |");
    let first = harness.composer.mark();
    harness.press("<Enter>next one");
    harness.composer.mark();
    harness.composer.at(first, |composer| composer.refer_to("/tmp/a.png"));
    assert_eq!(harness.marked(), "next one @/tmp/a.png |");
}
