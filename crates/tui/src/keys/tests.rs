use crossterm::event::{KeyCode, KeyEvent, KeyEventState, KeyModifiers};

use super::*;

fn key(code: KeyCode, modifiers: KeyModifiers) -> KeyEvent {
    KeyEvent::new(code, modifiers)
}

fn char(c: char, modifiers: KeyModifiers) -> KeyEvent {
    key(KeyCode::Char(c), modifiers)
}

const NONE: KeyModifiers = KeyModifiers::NONE;
const CTRL: KeyModifiers = KeyModifiers::CONTROL;
const ALT: KeyModifiers = KeyModifiers::ALT;
const SHIFT: KeyModifiers = KeyModifiers::SHIFT;

#[test]
fn every_default_key_can_be_read() {
    for command in Command::ALL {
        for key in command.defaults() {
            assert!(Chord::parse(key).is_some(), "{} {key}", command.id());
        }
        assert_eq!(Command::from_id(command.id()), Some(*command));
    }
}

#[test]
fn commands_stand_in_the_map_where_their_number_says() {
    for (index, command) in Command::ALL.iter().enumerate() {
        assert_eq!(*command as usize, index);
    }
}

#[test]
fn default_keys_mean_what_the_context_says() {
    let map = KeyMap::default();
    let enter = key(KeyCode::Enter, NONE);
    for (event, context, expected) in [
        (enter, Context::Composer, Some(Command::Submit)),
        (enter, Context::Suggestions, Some(Command::SuggestAccept)),
        (enter, Context::Search, Some(Command::SearchSubmit)),
        (enter, Context::Dialog, Some(Command::Confirm)),
        (enter, Context::BackgroundList, Some(Command::BackgroundSelect)),
        (key(KeyCode::Enter, SHIFT), Context::Composer, Some(Command::Newline)),
        (key(KeyCode::Enter, ALT), Context::Composer, Some(Command::Newline)),
        (char('j', CTRL), Context::Composer, Some(Command::Newline)),
        (char('h', CTRL), Context::Composer, Some(Command::DeleteLeft)),
        (key(KeyCode::Esc, NONE), Context::Composer, Some(Command::Cancel)),
        (char('[', CTRL), Context::Composer, Some(Command::Cancel)),
        (char('b', ALT), Context::Composer, Some(Command::WordLeft)),
        (char('B', ALT | SHIFT), Context::Composer, None),
        (char('z', CTRL), Context::Composer, None),
        (char('z', ALT), Context::Composer, Some(Command::Undo)),
        (char('_', CTRL), Context::Composer, Some(Command::Undo)),
        (char('_', CTRL | SHIFT), Context::Composer, Some(Command::Undo)),
        (char('7', CTRL), Context::Composer, Some(Command::Undo)),
        (char('Z', CTRL), Context::Composer, Some(Command::Redo)),
        (char('z', CTRL | SHIFT), Context::Composer, Some(Command::Redo)),
        (char('z', KeyModifiers::SUPER), Context::Composer, Some(Command::Undo)),
        (char('z', CTRL), Context::App, Some(Command::Suspend)),
        (char('z', CTRL | KeyModifiers::HYPER), Context::App, None),
        (key(KeyCode::BackTab, SHIFT), Context::App, Some(Command::CycleMode)),
        (key(KeyCode::BackTab, NONE), Context::App, Some(Command::CycleMode)),
        (key(KeyCode::Tab, SHIFT), Context::App, Some(Command::CycleMode)),
        (key(KeyCode::Tab, NONE), Context::App, Some(Command::FocusShell)),
        (char('k', NONE), Context::Dialog, Some(Command::DialogUp)),
        (char('k', NONE), Context::List, None),
        (char('k', CTRL), Context::Background, Some(Command::BackgroundKill)),
        (char('k', CTRL), Context::Composer, Some(Command::DeleteRightAll)),
        (key(KeyCode::F(12), NONE), Context::App, Some(Command::ShowErrors)),
        (key(KeyCode::F(12), CTRL), Context::App, None),
        (key(KeyCode::Null, NONE), Context::App, None),
    ] {
        assert_eq!(map.command(&event, context), expected, "{event:?} in {context:?}");
    }
}

#[test]
fn the_file_adds_and_removes_keys() {
    let (map, errors) = KeyMap::read(
        r#"// mine
        [
          {"command": "input.submit", "key": "ctrl+s"}, /* also */
          {"command": "-input.submit", "key": "enter"},
          {"command": "cursor.left", "key": "Opt+Meta+ö"},
          {"command": "scroll.up", "key": "ctrl++"},
          {"command": "scroll.down", "key": "numpad_add"},
          {"command": "scroll.home", "key": "?"},
          {"command": "scroll.end", "key": "G"},
        ]"#,
    );
    assert_eq!(errors, []);
    assert!(map.is(&char('s', CTRL), Command::Submit));
    assert!(!map.is(&key(KeyCode::Enter, NONE), Command::Submit));
    assert!(map.is(&char('ö', ALT | KeyModifiers::SUPER), Command::Left));
    assert!(map.is(&key(KeyCode::Left, NONE), Command::Left));
    assert!(map.is(&char('+', CTRL), Command::ScrollUp));
    let pad = KeyEvent { state: KeyEventState::KEYPAD, ..char('+', NONE) };
    assert!(map.is(&pad, Command::ScrollDown));
    assert!(!map.is(&char('+', NONE), Command::ScrollDown));
    assert!(map.is(&char('?', SHIFT), Command::ScrollHome));
    assert!(map.is(&char('?', NONE), Command::ScrollHome));
    assert!(map.is(&char('G', SHIFT), Command::ScrollEnd));
    assert!(!map.is(&char('g', NONE), Command::ScrollEnd));
    assert_eq!(map.key(Command::Submit), "Ctrl+S");
}

#[test]
fn a_wrong_entry_is_named_and_the_others_count() {
    let (map, errors) = KeyMap::read(
        r#"[{"command": "input.sumbit", "key": "x"}, {"command": "cursor.up", "key": "ctrl+nokey"}, 7,
            {"command": "-cursor.up", "key": "f5"}, {"command": "cursor.up", "key": "f36"},
            {"command": "cursor.up", "key": "ctrl+"}, {"command": "cursor.up", "key": "f35"}]"#,
    );
    let texts: Vec<String> = errors.iter().map(ToString::to_string).collect();
    assert_eq!(
        texts[0],
        "keybindings.json, entry 1: unknown command \"input.sumbit\"; did you mean \"input.submit\"?"
    );
    assert!(
        texts[1].starts_with("keybindings.json, entry 2 (cursor.up): invalid key \"ctrl+nokey\";"),
        "{texts:?}"
    );
    assert_eq!(texts[2], "keybindings.json, entry 3: \"command\" and \"key\" must be strings");
    assert_eq!(
        texts[3],
        "keybindings.json, entry 4 (cursor.up): cannot remove \"f5\": it is not bound to this command"
    );
    assert!(texts[4].contains("entry 5") && texts[5].contains("entry 6"), "{texts:?}");
    assert_eq!(errors.len(), 6);
    assert!(map.is(&key(KeyCode::F(35), NONE), Command::Up));
}

#[test]
fn a_file_that_is_no_array_leaves_the_default_keys() {
    for text in ["{", "{}", "7", "[{]"] {
        let (map, errors) = KeyMap::read(text);
        assert_eq!(errors.len(), 1, "{text}");
        assert!(map.is(&key(KeyCode::Enter, NONE), Command::Submit));
    }
    for text in ["", "// nothing yet", "[]"] {
        assert_eq!(KeyMap::read(text).1, [], "{text}");
    }
}

#[test]
fn the_listing_names_all_keys_of_a_command() {
    let (map, _) = KeyMap::read(r#"[{"command": "-app.showFullTodos", "key": "ctrl+t"}]"#);
    let listing = map.listing();
    let row = listing.iter().find(|row| row.description == "One word left").unwrap();
    assert_eq!((row.section, row.keys.as_str()), ("Cursor", "Ctrl+Left, Alt+Left, Alt+B"));
    let working = Command::ALL.iter().filter(|command| command.has_effect()).count();
    assert_eq!(listing.len(), working - 1);
}

#[test]
fn the_keys_page_lists_every_command_as_it_is() {
    let page = include_str!("../../../../docs/src/keys.md");
    for Shortcut { command, keys, description, .. } in KeyMap::default().listing() {
        let row = format!("| `{}` | {keys} | {description} |", command.id());
        assert!(page.contains(&row), "keys.md needs the row {row}");
    }
    for command in Command::ALL.iter().filter(|command| !command.has_effect()) {
        assert!(page.contains(&format!("`{}`", command.id())), "keys.md does not name {}", command.id());
        assert!(!page.contains(&format!("| `{}` |", command.id())), "{} has no effect", command.id());
    }
    assert_eq!(page.matches("\n| `").count(), KeyMap::default().listing().len() + 4);
}

/// The sources that handle keys, without tests and without the table of commands.
fn handlers(folder: &std::path::Path, text: &mut String) {
    for entry in std::fs::read_dir(folder).expect("a folder of sources").map(|entry| entry.expect("an entry"))
    {
        let path = entry.path();
        let name = entry.file_name();
        match path.is_dir() {
            true if name == "tests" || name == "keys" => {}
            true => handlers(&path, text),
            false if name == "tests.rs" || name == "keys.rs" => {}
            false => text.push_str(&std::fs::read_to_string(&path).expect("a source")),
        }
    }
}

#[test]
fn a_command_is_listed_if_and_only_if_something_handles_it() {
    let mut text = String::new();
    handlers(std::path::Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/src")), &mut text);
    for command in Command::ALL {
        let name = format!("Command::{command:?}");
        let is_end = |rest: &str| !rest.starts_with(|letter: char| letter.is_alphanumeric());
        let is_handled =
            text.match_indices(&name).any(|(at, _)| is_end(text.get(at + name.len()..).unwrap_or_default()));
        assert_eq!(command.has_effect(), is_handled, "{command:?}: see WITHOUT_EFFECT in keys/command.rs");
    }
}
