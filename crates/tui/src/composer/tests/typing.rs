use super::*;

fn history(desk: &mut Desk) {
    desk.composer.add_history(
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
    let mut desk = Desk::new();
    history(&mut desk);
    desk.press("<Up>");
    desk.submit();
    desk.press("new");
    desk.submit();
    desk.press("new");
    desk.submit();
    desk.press("<Up><Up>");
    assert_eq!(desk.marked(), "|third");
}

#[test]
fn a_draft_with_a_paste_comes_back_with_it() {
    let mut desk = Desk::new();
    history(&mut desk);
    desk.paste(&"x\n".repeat(9));
    desk.press("<C-p><C-n>");
    assert_eq!(desk.composer.expanded(), "x\n".repeat(9));
    assert_eq!(desk.composer.text(), "[Pasted Text: 10 lines]");
}

#[test]
fn queued_prompts_are_pulled_back_before_history() {
    let mut desk = Desk::new();
    history(&mut desk);
    desk.composer.conditions.queued = true;
    assert_eq!(desk.press("<Up>"), Reaction::PullQueue);
    desk.composer.set_text("one\n\ntwo");
    assert_eq!(desk.marked(), "one\n\ntwo|");
    desk.composer.conditions.queued = false;
    desk.press("<C-c><Up>");
    assert_eq!(desk.marked(), "|third");
}

#[test]
fn shell_mode_has_its_own_history_and_ends_with_escape() {
    let mut desk = Desk::new();
    history(&mut desk);
    desk.press("!");
    assert!(desk.composer.shell_mode());
    desk.press("<Up>");
    assert_eq!(desk.marked(), "|pwd");
    assert_eq!(desk.press("<C-r><Tab>"), Reaction::Changed);
    let submission = desk.submit();
    assert_eq!((submission.text.as_str(), submission.shell), ("pwd", true));
    assert!(desk.composer.shell_mode());
    assert_eq!(desk.press("<Esc>"), Reaction::Changed);
    assert!(!desk.composer.shell_mode());
    desk.press("!!");
    assert!(!desk.composer.shell_mode());
    desk.press("a!");
    assert_eq!(desk.marked(), "a!|");
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
    let mut desk = Desk::new();
    history(&mut desk);
    desk.press("<C-r>sec");
    assert!(desk.composer.searching());
    assert_eq!(desk.submit().text, "second\nline");
    assert!(!desk.composer.searching());
}

fn item(insert: &str, run: bool) -> Item {
    Item { insert: insert.to_owned(), label: insert.to_owned(), description: String::new(), run }
}

/// Types, and answers the question that results.
fn suggested(desk: &mut Desk, keys: &str, items: &[Item]) -> Wanted {
    match desk.press(keys) {
        Reaction::Complete(wanted) => {
            assert!(desk.composer.candidates(Candidates { id: wanted.id, items: items.to_vec() }));
            wanted
        }
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_slash_command_is_completed_or_run() {
    let mut desk = Desk::new();
    let wanted = suggested(&mut desk, "/he", &[item("help", true), item("hello", false)]);
    assert_eq!((wanted.kind, wanted.text.as_str(), wanted.range), (Kind::Slash, "/he", 1..3));
    assert_eq!(desk.submit().text, "/help");

    suggested(&mut desk, "/he", &[item("help", true), item("hello", false)]);
    desk.press("<Down>");
    let Reaction::Complete(next) = desk.press("<Enter>") else { panic!("arguments are asked for") };
    assert_eq!(desk.marked(), "/hello |");
    assert_eq!((next.text.as_str(), next.range), ("/hello ", 7..7));
    assert!(desk.composer.candidates(Candidates { id: next.id, items: vec![item("world", false)] }));
    desk.press("<Tab>");
    assert_eq!(desk.marked(), "/hello world |");
    assert_eq!(desk.submit().text, "/hello world");

    suggested(&mut desk, "/help", &[item("help", false)]);
    assert_eq!(desk.submit().text, "/help", "what is complete is sent");
}

#[test]
fn what_is_no_slash_command_is_not_completed() {
    for text in ["//x", "/*x", "x/y", " /x"] {
        assert_eq!(Desk::new().press(text), Reaction::Changed, "{text}");
    }
    assert_eq!(Desk::with("first\n|").press("/x"), Reaction::Changed);
}

#[test]
fn an_answer_to_an_older_question_is_dropped() {
    let mut desk = Desk::new();
    let Reaction::Complete(first) = desk.press("/h") else { panic!() };
    let Reaction::Complete(second) = desk.press("e") else { panic!() };
    assert!(!desk.composer.candidates(Candidates { id: first.id, items: vec![item("hooks", true)] }));
    assert_eq!(desk.composer.popup_height(), 0);
    assert!(desk.composer.candidates(Candidates { id: second.id, items: vec![item("help", true)] }));
    assert_eq!(desk.composer.popup_height(), 1);
    desk.press("<Left>");
    assert_eq!(desk.composer.popup_height(), 0, "moving closes it");
    assert!(!desk.composer.candidates(Candidates { id: second.id, items: vec![item("help", true)] }));
}

#[test]
fn old_suggestions_stay_only_while_they_fit() {
    let mut desk = Desk::new();
    suggested(&mut desk, "/h", &[item("hooks", true), item("help", true)]);
    desk.press("e");
    assert_eq!(desk.composer.popup_height(), 1);
    assert_eq!(desk.submit().text, "/help");
}

#[test]
fn a_path_is_completed_with_escapes_and_directories_go_on() {
    let mut desk = Desk::new();
    let wanted = suggested(&mut desk, "see @sr", &[item("src/", false), item("my file.txt", false)]);
    assert_eq!((wanted.kind, wanted.text.as_str(), wanted.range), (Kind::At, "sr", 5..7));
    let Reaction::Complete(next) = desk.press("<Tab>") else { panic!() };
    assert_eq!(desk.marked(), "see @src/|");
    assert_eq!(next.text, "src/");
    desk.composer.candidates(Candidates { id: next.id, items: vec![item("src/my file.txt", false)] });
    assert_eq!(desk.press("<Enter>"), Reaction::Changed);
    assert_eq!(desk.marked(), "see @src/my\\ file.txt |");
}

#[test]
fn escape_closes_suggestions_and_tab_asks_again() {
    let mut desk = Desk::new();
    suggested(&mut desk, "@a", &[item("a.rs", false), item("b.rs", false)]);
    assert_eq!(desk.press("<Esc>"), Reaction::Changed);
    assert_eq!(desk.composer.popup_height(), 0);
    assert_eq!(desk.marked(), "@a|");
    assert!(matches!(desk.press("<Tab>"), Reaction::Complete(_)));
}

#[test]
fn shell_words_are_completed_on_tab() {
    let mut desk = Desk::new();
    assert_eq!(desk.press("!cat my"), Reaction::Changed);
    let wanted = suggested(&mut desk, "<Tab>", &[item("my file", false), item("my other", false)]);
    assert_eq!(wanted.kind, Kind::Shell { command: false });
    assert_eq!(desk.submit().text, "cat my", "Enter runs what stands there");
    desk.press("cat my");
    suggested(&mut desk, "<Tab>", &[item("my file", false), item("my other", false)]);
    desk.press("<Down><Up><Enter>");
    assert_eq!(desk.marked(), "cat my\\ file |");
    desk.press("<C-u>ls my");
    suggested(&mut desk, "<Tab>", &[item("my file", false)]);
    assert_eq!(desk.marked(), "ls my\\ file |", "the only one is taken at once");
}

#[test]
fn suggestions_scroll_and_wrap_around() {
    let mut desk = Desk::new();
    let items: Vec<Item> = (0..20).map(|number| item(&format!("c{number}"), false)).collect();
    suggested(&mut desk, "/c", &items);
    assert_eq!(desk.composer.popup_height(), 9);
    desk.press("<Up>");
    let popup = &desk.composer.completion.popup;
    assert_eq!(popup.selected().unwrap().insert, "c19");
    assert_eq!(popup.counter().unwrap(), "▲ (20/20)");
    desk.press("<C-n><C-n>");
    assert_eq!(desk.composer.completion.popup.selected().unwrap().insert, "c1");
    assert_eq!(desk.composer.completion.popup.counter().unwrap(), "▼ (2/20)");
}

#[test]
fn earlier_prompts_that_come_late_go_before_what_was_sent() {
    let mut desk = Desk::new();
    desk.press("sent");
    desk.submit();
    desk.press("<Up>");
    history(&mut desk);
    assert_eq!(desk.marked(), "|sent");
    desk.press("<Up>");
    assert_eq!(desk.marked(), "|third");
    desk.press("<Down><Down>");
    assert_eq!(desk.marked(), "sent|");
}

#[test]
fn a_choice_stays_when_more_is_known() {
    let mut desk = Desk::new();
    let wanted = suggested(&mut desk, "@", &[item("b", false), item("c", false)]);
    desk.press("<Down>");
    let more = ["a", "b", "c"].map(|name| item(name, false));
    assert!(desk.composer.candidates(Candidates { id: wanted.id, items: more.to_vec() }));
    desk.press("<Tab>");
    assert_eq!(desk.marked(), "@c |");
    let wanted = suggested(&mut desk, "@", &[item("b", false), item("c", false)]);
    assert!(desk.composer.candidates(Candidates { id: wanted.id, items: more.to_vec() }));
    desk.press("<Tab>");
    assert_eq!(desk.marked(), "@c @a |");
}

#[test]
fn shell_mode_is_left_with_backspace_and_stays_after_a_command() {
    let mut desk = Desk::new();
    desk.press("!ls");
    assert!(desk.submit().shell && desk.composer.shell_mode());
    desk.press("/quit");
    assert!(desk.submit().shell);
    desk.press("x<BS>");
    assert!(desk.composer.shell_mode());
    desk.press("<BS>");
    assert!(!desk.composer.shell_mode());
    // A command that is not typed letter by letter runs once.
    desk.composer.set_text("!ls");
    let sent = desk.submit();
    assert!(!sent.shell && sent.text == "!ls" && !desk.composer.shell_mode());
}

#[test]
fn a_picture_is_referred_to_apart_from_the_words_before_it() {
    let mut desk = Desk::with("look|");
    desk.composer.refer_to("/tmp/a b.png");
    assert_eq!(desk.marked(), "look @/tmp/a\\ b.png |");
}

#[test]
fn what_is_known_twice_is_recalled_once() {
    let mut desk = Desk::new();
    history(&mut desk);
    desk.composer.add_history(vec!["older".to_owned(), "third".to_owned()], Vec::new());
    desk.press("<Up><Up><Up><Up>");
    assert_eq!(desk.marked(), "|older");
}
