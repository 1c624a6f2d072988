//! One key with its modifiers: read from text, made from an event, and written for people.

use crossterm::event::{KeyCode, KeyEvent, KeyEventState, KeyModifiers, MediaKeyCode};

/// Names of keys that are longer than one character, as upstream spells them, and how people read them.
const NAMED: &[(&str, &str)] = &[
    ("up", "Up"),
    ("down", "Down"),
    ("left", "Left"),
    ("right", "Right"),
    ("home", "Home"),
    ("end", "End"),
    ("pageup", "PageUp"),
    ("pagedown", "PageDown"),
    ("enter", "Enter"),
    ("escape", "Esc"),
    ("tab", "Tab"),
    ("space", "Space"),
    ("backspace", "Backspace"),
    ("delete", "Delete"),
    ("clear", "Clear"),
    ("insert", "Insert"),
    ("printscreen", "PrintScreen"),
    ("capslock", "CapsLock"),
    ("numlock", "NumLock"),
    ("scrolllock", "ScrollLock"),
    ("pausebreak", "Pause"),
    ("numpad_add", "Numpad +"),
    ("numpad_subtract", "Numpad -"),
    ("numpad_multiply", "Numpad *"),
    ("numpad_divide", "Numpad /"),
    ("numpad_decimal", "Numpad ."),
    ("numpad_separator", "Numpad ,"),
];

const LAST_FUNCTION_KEY: u8 = 35;

/// The key without its modifiers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Base {
    /// Lower case.
    Char(char),
    Function(u8),
    Numpad(u8),
    /// One of `NAMED`.
    Named(&'static str),
}

/// A key with modifiers; two are equal only when all of them are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Chord {
    base: Base,
    ctrl: bool,
    alt: bool,
    shift: bool,
    cmd: bool,
}

impl Chord {
    /// Reads `ctrl+shift+z`. An upper-case letter means the letter with Shift.
    pub(crate) fn parse(text: &str) -> Option<Self> {
        let mut chord =
            Self { base: Base::Named("enter"), ctrl: false, alt: false, shift: false, cmd: false };
        let mut rest = text.trim();
        // A lone `+` at the end is the key itself: `ctrl++`.
        while let Some((word, tail)) = rest.split_once('+').filter(|(word, _)| !word.is_empty()) {
            match word.to_ascii_lowercase().as_str() {
                "ctrl" => chord.ctrl = true,
                "shift" => chord.shift = true,
                "alt" | "opt" | "option" => chord.alt = true,
                "cmd" | "meta" => chord.cmd = true,
                _ => return None,
            }
            rest = tail;
        }
        let mut chars = rest.chars();
        chord.base = match (chars.next(), chars.next()) {
            (Some(' '), None) => Base::Named("space"),
            (Some(only), None) => {
                chord.shift |= is_upper(only);
                Base::Char(lower(only))
            }
            (Some(_), Some(_)) => long(&rest.to_ascii_lowercase())?,
            (None, _) => return None,
        };
        Some(chord)
    }

    /// The chords an event can mean, most exact first: a keypad key is also the plain key, a sign that needs Shift
    /// to be typed is also the sign alone, and Ctrl+7 is also Ctrl+_.
    pub(crate) fn of(event: &KeyEvent) -> impl Iterator<Item = Self> + use<> {
        Self::readings(event).into_iter().flatten()
    }

    fn readings(event: &KeyEvent) -> [Option<Self>; 3] {
        let held = event.modifiers;
        let Some(base) = base(event.code).filter(|_| !held.contains(KeyModifiers::HYPER)) else {
            return [None; 3];
        };
        let mut chord = Self {
            base,
            ctrl: held.contains(KeyModifiers::CONTROL),
            alt: held.contains(KeyModifiers::ALT),
            shift: held.contains(KeyModifiers::SHIFT),
            cmd: held.intersects(KeyModifiers::SUPER | KeyModifiers::META),
        };
        let mut unshifted = None;
        match event.code {
            // Terminals without the kitty protocol send Ctrl+_ and Ctrl+7 as the same byte.
            KeyCode::Char('7') if chord.ctrl => unshifted = Some(Self { base: Base::Char('_'), ..chord }),
            KeyCode::BackTab => chord.shift = true,
            KeyCode::Char(c) if c.is_alphabetic() || c == ' ' => chord.shift |= is_upper(c),
            KeyCode::Char(_) if chord.shift => unshifted = Some(Self { shift: false, ..chord }),
            _ => {}
        }
        let on_pad = event.state.contains(KeyEventState::KEYPAD).then(|| keypad(base)).flatten();
        [on_pad.map(|base| Self { base, ..chord }), Some(chord), unshifted]
    }

    /// `Ctrl+Shift+Z`.
    pub(crate) fn label(self) -> String {
        let mut label = String::new();
        for (held, name) in
            [(self.ctrl, "Ctrl+"), (self.alt, "Alt+"), (self.shift, "Shift+"), (self.cmd, "Cmd+")]
        {
            if held {
                label.push_str(name);
            }
        }
        match self.base {
            Base::Char(c) => label.extend(c.to_uppercase()),
            Base::Function(number) => label.push_str(&format!("F{number}")),
            Base::Numpad(number) => label.push_str(&format!("Numpad {number}")),
            Base::Named(name) => {
                label.push_str(
                    NAMED.iter().find(|(known, _)| *known == name).map_or(name, |(_, shown)| shown),
                );
            }
        }
        label
    }
}

fn named(name: &str) -> Option<Base> {
    NAMED.iter().find(|(known, _)| *known == name).map(|(known, _)| Base::Named(known))
}

fn long(name: &str) -> Option<Base> {
    if let Some(number) = name.strip_prefix('f').and_then(|digits| digits.parse().ok()) {
        return (1..=LAST_FUNCTION_KEY).contains(&number).then_some(Base::Function(number));
    }
    if let Some(number) = name.strip_prefix("numpad").and_then(|digits| digits.parse().ok()) {
        return (number <= 9).then_some(Base::Numpad(number));
    }
    named(name)
}

fn base(code: KeyCode) -> Option<Base> {
    let name = match code {
        KeyCode::Char(' ') => "space",
        KeyCode::Char(c) => return Some(Base::Char(lower(c))),
        KeyCode::F(number) => return Some(Base::Function(number)),
        KeyCode::Up => "up",
        KeyCode::Down => "down",
        KeyCode::Left => "left",
        KeyCode::Right => "right",
        KeyCode::Home => "home",
        KeyCode::End => "end",
        KeyCode::PageUp => "pageup",
        KeyCode::PageDown => "pagedown",
        KeyCode::Enter => "enter",
        KeyCode::Esc => "escape",
        KeyCode::Tab | KeyCode::BackTab => "tab",
        KeyCode::Backspace => "backspace",
        KeyCode::Delete => "delete",
        KeyCode::Insert => "insert",
        KeyCode::KeypadBegin => "clear",
        KeyCode::PrintScreen => "printscreen",
        KeyCode::CapsLock => "capslock",
        KeyCode::NumLock => "numlock",
        KeyCode::ScrollLock => "scrolllock",
        KeyCode::Pause | KeyCode::Media(MediaKeyCode::Pause) => "pausebreak",
        KeyCode::Null | KeyCode::Menu | KeyCode::Media(_) | KeyCode::Modifier(_) => return None,
    };
    named(name)
}

fn keypad(base: Base) -> Option<Base> {
    let Base::Char(c) = base else { return None };
    if let Some(number) = c.to_digit(10) {
        return u8::try_from(number).ok().map(Base::Numpad);
    }
    named(match c {
        '+' => "numpad_add",
        '-' => "numpad_subtract",
        '*' => "numpad_multiply",
        '/' => "numpad_divide",
        '.' => "numpad_decimal",
        ',' => "numpad_separator",
        _ => return None,
    })
}

/// Lower case where that is one character.
fn lower(c: char) -> char {
    let mut lower = c.to_lowercase();
    match (lower.next(), lower.next()) {
        (Some(one), None) => one,
        _ => c,
    }
}

fn is_upper(c: char) -> bool {
    lower(c) != c
}
