//! Whether the terminal is dark or light: the question, and its answer among the keys.
//!
//! A terminal's answer arrives as key input. While an answer is awaited, keys that look like one are held back; the
//! first that does not fit sends all of them on, so nothing that a person types is lost.

use std::time::{Duration, Instant};

use crossterm::event::{KeyCode, KeyEvent, KeyModifiers};

use crate::theme::Shade;

/// The sequence that asks.
pub const ASK: &str = "\x1b]11;?\x1b\\";
/// How long an answer is awaited.
const PATIENCE: Duration = Duration::from_secs(2);
/// No answer is longer.
const LONGEST: usize = 40;

/// Hears the answer.
#[derive(Debug, Default)]
pub struct Listener {
    until: Option<Instant>,
    held: Vec<KeyEvent>,
    text: String,
}

/// The role of a key within an answer.
enum Part {
    Text(char),
    /// The end, or the first half of one.
    End,
    Half,
    Foreign,
}

impl Listener {
    /// The question was sent.
    pub fn asked(&mut self, now: Instant) {
        self.until = Some(now + PATIENCE);
    }

    /// The typed keys, and the shade that the terminal reported.
    pub fn hear(&mut self, keys: Vec<KeyEvent>, now: Instant) -> (Vec<KeyEvent>, Option<Shade>) {
        let mut typed = Vec::new();
        let mut shade = None;
        for key in keys {
            if self.held.is_empty() {
                let begins = key.code == KeyCode::Char(']') && key.modifiers == KeyModifiers::ALT;
                match begins && self.until.is_some_and(|until| now < until) {
                    true => self.held.push(key),
                    false => typed.push(key),
                }
                continue;
            }
            self.held.push(key);
            match part(key) {
                Part::Text(character) if self.text.len() < LONGEST => self.text.push(character),
                Part::Half => {}
                Part::End => {
                    shade = read(&self.text).or(shade);
                    self.held.clear();
                    self.text.clear();
                    self.until = None;
                }
                Part::Text(_) | Part::Foreign => {
                    typed.append(&mut self.held);
                    self.text.clear();
                }
            }
        }
        (typed, shade)
    }
}

fn part(key: KeyEvent) -> Part {
    match (key.code, key.modifiers) {
        (KeyCode::Char('g'), KeyModifiers::CONTROL) | (KeyCode::Char('\\'), _) => Part::End,
        (KeyCode::Esc, _) => Part::Half,
        (KeyCode::Char(character), modifiers)
            if (modifiers - KeyModifiers::SHIFT).is_empty()
                && (character.is_ascii_hexdigit() || "rgb:;/".contains(character)) =>
        {
            Part::Text(character)
        }
        _ => Part::Foreign,
    }
}

/// `11;rgb:ffff/ffff/ffff`; the digits of a colour may be fewer.
fn read(text: &str) -> Option<Shade> {
    let colours = text.strip_prefix("11;")?.split_once(':')?.1;
    let mut lights = colours.split('/').map(|digits| {
        let most = 16_u32.checked_pow(u32::try_from(digits.len()).ok()?)?.checked_sub(1)?;
        Some(f64::from(u32::from_str_radix(digits, 16).ok()?) / f64::from(most))
    });
    let mut next = || lights.next().flatten();
    let (red, green, blue) = (next()?, next()?, next()?);
    Some(if 0.2126 * red + 0.7152 * green + 0.0722 * blue > 0.5 { Shade::Light } else { Shade::Dark })
}

/// The shade according to `COLORFGBG`, such as `15;0`.
pub fn of_variable(value: &str) -> Option<Shade> {
    let behind: u8 = value.rsplit(';').next()?.trim().parse().ok()?;
    Some(if matches!(behind, 7 | 9..=15) { Shade::Light } else { Shade::Dark })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(character: char, modifiers: KeyModifiers) -> KeyEvent {
        KeyEvent::new(KeyCode::Char(character), modifiers)
    }

    fn plain(text: &str) -> Vec<KeyEvent> {
        text.chars().map(|character| key(character, KeyModifiers::NONE)).collect()
    }

    fn answer(text: &str) -> Vec<KeyEvent> {
        let mut keys = vec![key(']', KeyModifiers::ALT)];
        keys.extend(plain(text));
        keys.push(key('\\', KeyModifiers::ALT));
        keys
    }

    #[test]
    fn an_answer_is_heard_and_not_typed() {
        let now = Instant::now();
        for (text, shade) in [("11;rgb:ffff/ffff/ee", Shade::Light), ("11;rgb:1e1e/1e1e/2e2e", Shade::Dark)] {
            let mut listener = Listener::default();
            listener.asked(now);
            let keys = [plain("a"), answer(text), plain("b")].concat();
            assert_eq!(listener.hear(keys, now), (plain("ab"), Some(shade)));
        }
    }

    #[test]
    fn an_answer_in_pieces_is_heard_too() {
        let now = Instant::now();
        let mut listener = Listener::default();
        listener.asked(now);
        let keys = answer("11;rgb:00/00/00");
        let (first, second) = keys.split_at(5);
        assert_eq!(listener.hear(first.to_vec(), now), (Vec::new(), None));
        assert_eq!(listener.hear(second.to_vec(), now), (Vec::new(), Some(Shade::Dark)));
    }

    #[test]
    fn what_a_person_types_is_never_lost() {
        let now = Instant::now();
        let keys = [vec![key(']', KeyModifiers::ALT)], plain("11 hello")].concat();
        let mut listener = Listener::default();
        assert_eq!(listener.hear(keys.clone(), now), (keys.clone(), None));
        listener.asked(now);
        assert_eq!(listener.hear(keys.clone(), now), (keys.clone(), None));
        listener.asked(now);
        let later = now + Duration::from_secs(3);
        assert_eq!(listener.hear(answer("11;rgb:0/0/0"), later).1, None);
    }

    #[test]
    fn the_variable_names_the_colour_behind() {
        assert_eq!(of_variable("15;0"), Some(Shade::Dark));
        assert_eq!(of_variable("0;default;15"), Some(Shade::Light));
        assert_eq!(of_variable("x"), None);
    }
}
