//! Conversion between the list keys of `front` and the letters of the picker in `tui`.

use pollux_front::choice::ListKey;
use pollux_tui::dialog::{LEFT, RESET, RIGHT, TAB};

/// The letter by which the picker knows a key.
pub(crate) fn picker_letter(key: ListKey) -> char {
    match key {
        ListKey::Char(letter) => letter,
        ListKey::Tab => TAB,
        ListKey::Reset => RESET,
        ListKey::Left => LEFT,
        ListKey::Right => RIGHT,
    }
}

/// The key that a letter of the picker stands for.
pub(crate) fn list_key(letter: char) -> ListKey {
    match letter {
        TAB => ListKey::Tab,
        RESET => ListKey::Reset,
        LEFT => ListKey::Left,
        RIGHT => ListKey::Right,
        letter => ListKey::Char(letter),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_key_survives_the_picker() {
        for key in [ListKey::Char('x'), ListKey::Tab, ListKey::Reset, ListKey::Left, ListKey::Right] {
            assert_eq!(list_key(picker_letter(key)), key);
        }
    }
}
