//! What lists do with keys.

use super::*;

fn rows(names: &[&str]) -> Vec<PickerRow> {
    let row = |name: &&str| PickerRow {
        key: (*name).to_owned(),
        columns: vec![(*name).to_owned()],
        ..PickerRow::default()
    };
    names.iter().map(row).collect()
}

fn listed(names: &[&str], options: PickerOptions) -> Dialog {
    Dialog::Picker(Box::new(Picker::new("List", &[], rows(names)).options(options)))
}

fn write(dialog: &mut Dialog, text: &str) -> Vec<Verdict> {
    text.chars().map(|character| press(dialog, KeyCode::Char(character))).collect()
}

fn picked(key: &str, with: Option<char>) -> Verdict {
    Verdict::Picked { key: key.to_owned(), with }
}

#[test]
fn a_digit_chooses_in_a_short_list_and_letters_mark() {
    let numbered = PickerOptions { numbered: true, ..PickerOptions::default() };
    let mut dialog = listed(&["yes", "no"], numbered);
    assert!(shown(&mut dialog, 40, 12).contains("● 1. yes\n  2. no\n"));
    assert_eq!(press(&mut dialog, KeyCode::Char('2')), picked("no", None));
    assert_eq!(press(&mut dialog, KeyCode::Char('7')), Verdict::Open);
    assert_eq!(press(&mut dialog, KeyCode::Char('y')), Verdict::Marked("yes".to_owned()));
    assert_eq!(press(&mut dialog, KeyCode::Enter), picked("yes", None));
}

#[test]
fn a_narrow_list_omits_optional_columns_and_keeps_names_whole() {
    let columns = |texts: [&str; 4]| texts.map(str::to_owned).to_vec();
    let row = |name: &str| PickerRow {
        key: name.to_owned(),
        columns: columns([name, "Anthropic", "1M", "3 / 15"]),
        ..PickerRow::default()
    };
    let rows = vec![row("anthropic/claude-sonnet-5-5"), row("anthropic/claude-haiku-5-5")];
    let options = PickerOptions { optional_columns: &[1, 3, 2], ..PickerOptions::default() };
    let picker = Picker::new("Models", &["Model", "Provider", "Context", "Price"], rows).options(options);
    let mut dialog = Dialog::Picker(Box::new(picker));
    assert!(
        shown(&mut dialog, 80, 12).contains("● anthropic/claude-sonnet-5-5 │ Anthropic │ 1M      │ 3 / 15\n")
    );
    let narrow = shown(&mut dialog, 40, 12);
    assert!(narrow.contains("● anthropic/claude-sonnet-5-5"), "{narrow}");
    assert!(narrow.contains("  anthropic/claude-haiku-5-5") && !narrow.contains("Anthropic"), "{narrow}");
}

#[test]
fn where_typing_searches_no_letter_does_anything_else() {
    let typed = PickerOptions { type_to_search: true, ..PickerOptions::default() };
    let mut dialog = listed(&["quiet", "loud"], typed);
    write(&mut dialog, "q");
    assert!(
        shown(&mut dialog, 40, 12).contains("/ q▏  1 found\n● quiet\n"),
        "{}",
        shown(&mut dialog, 40, 12)
    );
    assert_eq!(press(&mut dialog, KeyCode::Esc), Verdict::Open);
    assert!(shown(&mut dialog, 40, 12).contains("loud"));
    assert_eq!(press(&mut dialog, KeyCode::Esc), Verdict::Closed);
}

#[test]
fn the_program_hears_of_the_marked_row_and_of_words_that_are_nowhere() {
    let mut dialog = listed(&["one", "two"], PickerOptions::default());
    assert_eq!(press(&mut dialog, KeyCode::Down), Verdict::Marked("two".to_owned()));
    assert_eq!(press(&mut dialog, KeyCode::Down), Verdict::Open);
    write(&mut dialog, "/");
    let heard = write(&mut dialog, "nz");
    assert_eq!(heard, [Verdict::Marked("one".to_owned()), Verdict::Searched("nz".to_owned())]);
    let Dialog::Picker(picker) = &mut dialog else { unreachable!("it is a list") };
    picker.set_hits("other", vec![("two".to_owned(), "elsewhere".to_owned())]);
    assert!(picker.marked().is_none());
    picker.set_hits(
        "nz",
        vec![("two".to_owned(), "in an ounce".to_owned()), ("gone".to_owned(), String::new())],
    );
    assert_eq!(picker.marked().map(|row| row.key.as_str()), Some("two"));
    assert!(shown(&mut dialog, 40, 12).contains("│ in an ounce"));
}

#[test]
fn keys_that_are_no_letters_do_something_where_they_are_asked_for() {
    let picker = Picker::new("List", &[], rows(&["a"]));
    let picker = picker.letter(TAB, "scope", false).letter(RESET, "reset", false).letter(LEFT, "move", false);
    let mut dialog = Dialog::Picker(Box::new(picker));
    assert_eq!(press(&mut dialog, KeyCode::Tab), picked("a", Some(TAB)));
    assert_eq!(press(&mut dialog, KeyCode::Left), picked("a", Some(LEFT)));
    assert_eq!(press(&mut dialog, KeyCode::Right), Verdict::Open);
    let reset = dialog.key(KeyEvent::new(KeyCode::Char('l'), KeyModifiers::CONTROL), &KeyMap::default());
    assert_eq!(reset, picked("a", Some(RESET)));
}

#[test]
fn the_same_list_with_other_rows_keeps_its_search_and_its_place() {
    let mut before = Picker::new("List", &[], rows(&["a1", "a2", "a3", "b"]));
    for key in [KeyCode::Char('/'), KeyCode::Char('a'), KeyCode::Down] {
        before.key(KeyEvent::from(key));
    }
    let marked = |picker: &Picker| picker.marked().map(|row| row.key.clone());
    let after = Picker::new("List", &[], rows(&["a1", "a3", "b"])).after(&before);
    assert_eq!(marked(&after).as_deref(), Some("a3"));
    let meant = Picker::new("List", &[], rows(&["b", "a3", "a2", "a1"])).mark("a2").after(&before);
    assert_eq!(marked(&meant).as_deref(), Some("a2"));
    let other = Picker::new("Other", &[], rows(&["b", "a3"])).after(&before);
    assert_eq!(marked(&other).as_deref(), Some("b"));
}

#[test]
fn what_stands_above_a_list_is_read_before_it_is_agreed_to() {
    let about = (1..=60).map(|line| format!("would run {line}")).collect();
    let picker = Picker::new("Trust?", &[], rows(&["yes", "no"])).about(about);
    let mut dialog = Dialog::Picker(Box::new(
        picker.options(PickerOptions { numbered: true, ..PickerOptions::default() }),
    ));
    let mut presses = 0;
    loop {
        let text = shown(&mut dialog, 40, 12);
        assert!(text.contains("1. yes") && text.contains("2. no"), "{text}");
        presses += 1;
        if press(&mut dialog, KeyCode::Enter) != Verdict::Open {
            assert!(text.contains("would run 60"), "{text}");
            break;
        }
        assert!(presses < 40, "{text}");
    }
    assert!(presses > 3);
}

#[test]
fn a_list_of_five_thousand_is_drawn_and_searched_at_once() {
    let row = |index: usize| PickerRow {
        key: index.to_string(),
        columns: vec![format!("#{index}"), "12".to_owned(), "3 days ago".to_owned(), format!("name {index}")],
        preview: vec!["a first prompt of some length, as people write them, about this and that".to_owned()],
        sample: None,
    };
    let picker =
        Picker::new("Chat Sessions", &["Index", "Msgs", "Age", "Name"], (1..=5000).map(row).collect());
    let mut dialog = Dialog::Picker(Box::new(picker));
    let begun = std::time::Instant::now();
    write(&mut dialog, "/name 4999");
    let text = shown(&mut dialog, 80, 24);
    assert!(text.contains("● #4999"), "{text}");
    // Ten searches and a frame, in a build without optimisation and on a busy machine.
    assert!(begun.elapsed() < std::time::Duration::from_secs(120), "{:?}", begun.elapsed());
}
