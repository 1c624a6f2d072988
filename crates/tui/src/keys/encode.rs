//! Keys as a command in a terminal reads them: the sequences of `xterm`.

use crossterm::event::{KeyCode, KeyEvent, KeyModifiers};
use pollux_domain::terminal_screen::KeyModes;

/// The bytes of a key; empty for keys that no command can read.
pub(crate) fn key_bytes(key: &KeyEvent, modes: KeyModes) -> Vec<u8> {
    let held = key.modifiers;
    let alt = held.contains(KeyModifiers::ALT);
    let plain = match key.code {
        KeyCode::Char(character) => return with_alt(character_bytes(character, held), alt),
        KeyCode::Enter => b"\r".as_slice(),
        KeyCode::Tab => b"\t",
        KeyCode::Esc => b"\x1b",
        KeyCode::Backspace if held.contains(KeyModifiers::CONTROL) => b"\x08",
        KeyCode::Backspace => b"\x7f",
        KeyCode::BackTab => b"\x1b[Z",
        _ => return special_bytes(key, modes),
    };
    with_alt(plain.to_vec(), alt)
}

/// The bytes of a pasted text. It cannot leave its marks, and line ends are those of the keyboard.
pub(crate) fn paste_bytes(text: &str, modes: KeyModes) -> Vec<u8> {
    let text = text.replace("\r\n", "\r").replace('\n', "\r").replace('\u{1b}', "");
    match modes.bracketed_paste {
        true => format!("\u{1b}[200~{text}\u{1b}[201~").into_bytes(),
        false => text.into_bytes(),
    }
}

fn with_alt(bytes: Vec<u8>, alt: bool) -> Vec<u8> {
    let escape = if alt && !bytes.is_empty() { b"\x1b".as_slice() } else { b"" };
    [escape, &bytes].concat()
}

fn character_bytes(character: char, held: KeyModifiers) -> Vec<u8> {
    if !held.contains(KeyModifiers::CONTROL) {
        let mut buffer = [0; 4];
        return character.encode_utf8(&mut buffer).as_bytes().to_vec();
    }
    let control = match character.to_ascii_lowercase() {
        letter @ 'a'..='z' => letter as u8 - b'a' + 1,
        ' ' | '2' | '@' => 0,
        '3' | '[' => 0x1b,
        '4' | '\\' => 0x1c,
        '5' | ']' => 0x1d,
        '6' | '^' => 0x1e,
        '7' | '_' | '/' => 0x1f,
        '8' | '?' => 0x7f,
        _ => return Vec::new(),
    };
    vec![control]
}

/// Keys with a sequence of their own, which tells the modifiers.
fn special_bytes(key: &KeyEvent, modes: KeyModes) -> Vec<u8> {
    let held = |modifier, weight| if key.modifiers.contains(modifier) { weight } else { 0 };
    let modifiers =
        held(KeyModifiers::SHIFT, 1) + held(KeyModifiers::ALT, 2) + held(KeyModifiers::CONTROL, 4);
    let sequence = match (final_letter(key.code), tilde_number(key.code), modifiers) {
        (Some(letter @ 'P'..='S'), _, 0) => format!("\u{1b}O{letter}"),
        (Some(letter), _, 0) if modes.application_cursor => format!("\u{1b}O{letter}"),
        (Some(letter), _, 0) => format!("\u{1b}[{letter}"),
        (Some(letter), _, held) => format!("\u{1b}[1;{}{letter}", held + 1),
        (None, Some(number), 0) => format!("\u{1b}[{number}~"),
        (None, Some(number), held) => format!("\u{1b}[{number};{}~", held + 1),
        (None, None, _) => String::new(),
    };
    sequence.into_bytes()
}

fn final_letter(code: KeyCode) -> Option<char> {
    Some(match code {
        KeyCode::Up => 'A',
        KeyCode::Down => 'B',
        KeyCode::Right => 'C',
        KeyCode::Left => 'D',
        KeyCode::End => 'F',
        KeyCode::Home => 'H',
        KeyCode::F(1) => 'P',
        KeyCode::F(2) => 'Q',
        KeyCode::F(3) => 'R',
        KeyCode::F(4) => 'S',
        _ => return None,
    })
}

fn tilde_number(code: KeyCode) -> Option<u8> {
    Some(match code {
        KeyCode::Insert => 2,
        KeyCode::Delete => 3,
        KeyCode::PageUp => 5,
        KeyCode::PageDown => 6,
        KeyCode::F(number @ 5..=5) => number + 10,
        KeyCode::F(number @ 6..=10) => number + 11,
        KeyCode::F(number @ 11..=12) => number + 12,
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const APPLICATION: KeyModes = KeyModes { application_cursor: true, bracketed_paste: false };

    fn sent(code: KeyCode, modifiers: KeyModifiers) -> String {
        String::from_utf8(key_bytes(&KeyEvent::new(code, modifiers), KeyModes::default())).unwrap()
    }

    #[test]
    fn keys_are_those_of_xterm() {
        let (none, ctrl, alt, shift) =
            (KeyModifiers::NONE, KeyModifiers::CONTROL, KeyModifiers::ALT, KeyModifiers::SHIFT);
        for (code, held, expected) in [
            (KeyCode::Char('a'), none, "a"),
            (KeyCode::Char('É'), shift, "É"),
            (KeyCode::Char('c'), ctrl, "\u{3}"),
            (KeyCode::Char('C'), ctrl | shift, "\u{3}"),
            (KeyCode::Char('\\'), ctrl, "\u{1c}"),
            (KeyCode::Char(' '), ctrl, "\0"),
            (KeyCode::Char('é'), ctrl, ""),
            (KeyCode::Char('b'), alt, "\u{1b}b"),
            (KeyCode::Char('b'), alt | ctrl, "\u{1b}\u{2}"),
            (KeyCode::Enter, none, "\r"),
            (KeyCode::Tab, none, "\t"),
            (KeyCode::BackTab, shift, "\u{1b}[Z"),
            (KeyCode::Backspace, none, "\u{7f}"),
            (KeyCode::Esc, none, "\u{1b}"),
            (KeyCode::Up, none, "\u{1b}[A"),
            (KeyCode::Left, ctrl, "\u{1b}[1;5D"),
            (KeyCode::End, shift | alt, "\u{1b}[1;4F"),
            (KeyCode::Delete, none, "\u{1b}[3~"),
            (KeyCode::PageUp, ctrl, "\u{1b}[5;5~"),
            (KeyCode::F(1), none, "\u{1b}OP"),
            (KeyCode::F(5), none, "\u{1b}[15~"),
            (KeyCode::F(6), none, "\u{1b}[17~"),
            (KeyCode::F(10), none, "\u{1b}[21~"),
            (KeyCode::F(12), shift, "\u{1b}[24;2~"),
            (KeyCode::F(20), none, ""),
            (KeyCode::CapsLock, none, ""),
        ] {
            assert_eq!(sent(code, held), expected, "{code:?} {held:?}");
        }
        let up = key_bytes(&KeyEvent::new(KeyCode::Up, none), APPLICATION);
        assert_eq!(up, b"\x1bOA");
        let ctrl_up = key_bytes(&KeyEvent::new(KeyCode::Up, ctrl), APPLICATION);
        assert_eq!(ctrl_up, b"\x1b[1;5A");
    }

    #[test]
    fn a_paste_cannot_leave_its_marks() {
        let marked = KeyModes { bracketed_paste: true, application_cursor: false };
        assert_eq!(paste_bytes("a\nb\r\nc", KeyModes::default()), b"a\rb\rc");
        assert_eq!(paste_bytes("a\u{1b}[201~; rm", marked), b"\x1b[200~a[201~; rm\x1b[201~");
    }
}
