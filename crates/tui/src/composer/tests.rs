mod drafts;
mod editing;
mod large;
mod properties;
mod screens;
mod typing;
mod vim_keys;

use std::time::{Duration, Instant};

use crossterm::event::{KeyCode, KeyEvent, KeyModifiers};

use super::*;

/// A composer at a moment: every key is pressed a second after the one before.
struct ComposerHarness {
    composer: Composer,
    now: Instant,
}

impl ComposerHarness {
    fn new() -> Self {
        Self { composer: Composer::new(KeyMap::default()), now: Instant::now() }
    }

    /// With a text in which `|` is the cursor.
    fn with(marked: &str) -> Self {
        let mut harness = Self::new();
        let (before, after) = marked.split_once('|').unwrap();
        harness.composer.set_text(&format!("{before}{after}"));
        let lines = before.matches('\n').count();
        let col = before.rsplit('\n').next().unwrap().len();
        harness.composer.buffer.go(Pos::new(lines, col));
        harness
    }

    /// The text with `|` at the cursor.
    fn marked(&self) -> String {
        let buffer = &self.composer.buffer;
        let before = buffer.slice(Pos::default()..buffer.cursor());
        let after = buffer.slice(buffer.cursor()..buffer.end());
        buffer.folds.labelled(&format!("{before}|{after}"))
    }

    fn key(&mut self, event: KeyEvent) -> Reaction {
        self.now += Duration::from_secs(1);
        self.composer.key(event, self.now)
    }

    /// Presses keys written as `abc<C-a><Enter>`; the answer is the last reaction.
    fn press(&mut self, keys: &str) -> Reaction {
        events(keys).into_iter().map(|event| self.key(event)).last().unwrap_or(Reaction::Ignored)
    }

    fn paste(&mut self, text: &str) -> Reaction {
        self.now += Duration::from_secs(1);
        self.composer.paste(text, self.now, &|_| false)
    }

    /// All keys of one read; what they came to.
    fn keys(&mut self, keys: &[KeyEvent], now: Instant) -> Vec<Reaction> {
        self.composer.keys(keys, now).into_iter().map(|(_, reaction)| reaction).collect()
    }

    fn submit(&mut self) -> Submission {
        match self.press("<Enter>") {
            Reaction::Submit(submission) => submission,
            other => panic!("{other:?}"),
        }
    }
}

fn events(keys: &str) -> Vec<KeyEvent> {
    let mut events = Vec::new();
    let mut rest = keys;
    while let Some(c) = rest.chars().next() {
        if let Some((name, tail)) = rest.strip_prefix('<').and_then(|rest| rest.split_once('>'))
            && let Some(event) = named(name)
        {
            events.push(event);
            rest = tail;
        } else {
            events.push(KeyEvent::new(KeyCode::Char(c), KeyModifiers::NONE));
            rest = rest.get(c.len_utf8()..).unwrap();
        }
    }
    events
}

fn named(name: &str) -> Option<KeyEvent> {
    let (mut held, mut base) = (KeyModifiers::NONE, name);
    for (prefix, modifier) in
        [("C-", KeyModifiers::CONTROL), ("A-", KeyModifiers::ALT), ("S-", KeyModifiers::SHIFT)]
    {
        if let Some(rest) = base.strip_prefix(prefix) {
            (held, base) = (held | modifier, rest);
        }
    }
    let code = match base {
        "Enter" => KeyCode::Enter,
        "Esc" => KeyCode::Esc,
        "Tab" => KeyCode::Tab,
        "BS" => KeyCode::Backspace,
        "Del" => KeyCode::Delete,
        "Left" => KeyCode::Left,
        "Right" => KeyCode::Right,
        "Up" => KeyCode::Up,
        "Down" => KeyCode::Down,
        "Home" => KeyCode::Home,
        "End" => KeyCode::End,
        single => {
            let mut chars = single.chars();
            match (chars.next(), chars.next()) {
                (Some(c), None) => KeyCode::Char(c),
                _ => return None,
            }
        }
    };
    Some(KeyEvent::new(code, held))
}

/// Runs (text, keys, text) triples.
fn table(rows: &[(&str, &str, &str)], prepare: impl Fn(&mut ComposerHarness)) {
    for (before, keys, after) in rows {
        let mut harness = ComposerHarness::with(before);
        prepare(&mut harness);
        harness.press(keys);
        assert_eq!(harness.marked(), *after, "{before:?} + {keys}");
    }
}
