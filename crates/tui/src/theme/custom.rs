//! Themes that people write into their settings.

use std::str::FromStr;

use ratatui::style::Color;
use serde_json::Value;

use super::{Shade, Theme};

/// A theme from `ui.customThemes`.
pub type CustomTheme = Value;

/// Why a theme of one's own cannot be used.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub enum ThemeProblem {
    #[error("the theme `{name}` must be an object with `name` and `type: \"custom\"`")]
    Shape { name: String },
    #[error(
        "the theme `{name}` has an invalid colour `{value}` for `{key}`; use `#rrggbb` or a name such as `teal`"
    )]
    Colour { name: String, key: &'static str, value: String },
}

/// Which colour of a theme a key sets.
type Slot = fn(&mut Theme) -> &mut Color;

/// The keys of a theme, by section, and the fields they set.
const KEYS: &[(&str, &str, Slot)] = &[
    ("/text/primary", "text.primary", |theme| &mut theme.text),
    ("/text/secondary", "text.secondary", |theme| &mut theme.secondary),
    ("/text/link", "text.link", |theme| &mut theme.link),
    ("/text/accent", "text.accent", |theme| &mut theme.accent),
    ("/text/response", "text.response", |theme| &mut theme.response),
    ("/background/diff/added", "background.diff.added", |theme| &mut theme.added),
    ("/background/diff/removed", "background.diff.removed", |theme| &mut theme.removed),
    ("/border/default", "border.default", |theme| &mut theme.border),
    ("/border/focused", "border.focused", |theme| &mut theme.focused),
    ("/status/success", "status.success", |theme| &mut theme.success),
    ("/status/warning", "status.warning", |theme| &mut theme.warning),
    ("/status/error", "status.error", |theme| &mut theme.error),
    ("/ui/comment", "ui.comment", |theme| &mut theme.comment),
    ("/ui/symbol", "ui.symbol", |theme| &mut theme.symbol),
];

impl Theme {
    /// A custom theme. Missing colours are those of the default theme of its shade.
    pub fn custom(name: &str, written: &CustomTheme) -> Result<Self, ThemeProblem> {
        if !written.is_object() {
            return Err(ThemeProblem::Shape { name: name.to_owned() });
        }
        let background = written.pointer("/background/primary").and_then(Value::as_str).and_then(read);
        let shade = if background.is_some_and(is_light) { Shade::Light } else { Shade::Dark };
        let mut theme = Self { name: name.to_owned(), ..Self::for_shade(shade) };
        for (pointer, key, slot) in KEYS {
            if let Some(value) = written.pointer(pointer) {
                *slot(&mut theme) = colour(name, key, value)?;
            }
        }
        if let Some(gradient) = written.pointer("/ui/gradient").and_then(Value::as_array) {
            let colours = gradient.iter().map(|value| colour(name, "ui.gradient", value));
            theme.gradient = colours.collect::<Result<_, _>>()?;
        }
        Ok(theme)
    }
}

fn colour(name: &str, key: &'static str, value: &Value) -> Result<Color, ThemeProblem> {
    let unknown = || ThemeProblem::Colour { name: name.to_owned(), key, value: value.to_string() };
    value.as_str().and_then(read).ok_or_else(unknown)
}

/// A colour as people write it; an empty text is the terminal's own.
fn read(text: &str) -> Option<Color> {
    let text = text.trim().to_ascii_lowercase();
    if text.is_empty() {
        return Some(Color::Reset);
    }
    if let Some([a, b, c]) =
        text.strip_prefix('#').map(str::as_bytes).and_then(|short| short.first_chunk::<3>())
        && text.len() == 4
    {
        let digit = |byte: u8| char::from(byte).to_digit(16).and_then(|digit| u8::try_from(digit * 17).ok());
        return Some(Color::Rgb(digit(*a)?, digit(*b)?, digit(*c)?));
    }
    let css = CSS.iter().find(|(name, _)| *name == text).map(|(_, value)| *value);
    match css {
        Some(value) => Color::from_str(&format!("#{value:06x}")).ok(),
        None => Color::from_str(&text).ok(),
    }
}

/// Names of the web that a terminal's sixteen do not know or have otherwise.
const CSS: &[(&str, u32)] = &[
    ("aqua", 0x00ffff),
    ("beige", 0xf5f5dc),
    ("brown", 0xa52a2a),
    ("chocolate", 0xd2691e),
    ("coral", 0xff7f50),
    ("crimson", 0xdc143c),
    ("darkblue", 0x00008b),
    ("darkgreen", 0x006400),
    ("darkorange", 0xff8c00),
    ("darkred", 0x8b0000),
    ("deeppink", 0xff1493),
    ("deepskyblue", 0x00bfff),
    ("dodgerblue", 0x1e90ff),
    ("firebrick", 0xb22222),
    ("forestgreen", 0x228b22),
    ("fuchsia", 0xff00ff),
    ("gold", 0xffd700),
    ("goldenrod", 0xdaa520),
    ("hotpink", 0xff69b4),
    ("indianred", 0xcd5c5c),
    ("indigo", 0x4b0082),
    ("khaki", 0xf0e68c),
    ("lavender", 0xe6e6fa),
    ("lime", 0x00ff00),
    ("limegreen", 0x32cd32),
    ("maroon", 0x800000),
    ("midnightblue", 0x191970),
    ("navy", 0x000080),
    ("olive", 0x808000),
    ("orange", 0xffa500),
    ("orangered", 0xff4500),
    ("orchid", 0xda70d6),
    ("pink", 0xffc0cb),
    ("plum", 0xdda0dd),
    ("purple", 0x800080),
    ("royalblue", 0x4169e1),
    ("salmon", 0xfa8072),
    ("seagreen", 0x2e8b57),
    ("sienna", 0xa0522d),
    ("silver", 0xc0c0c0),
    ("skyblue", 0x87ceeb),
    ("slateblue", 0x6a5acd),
    ("slategray", 0x708090),
    ("steelblue", 0x4682b4),
    ("tan", 0xd2b48c),
    ("teal", 0x008080),
    ("tomato", 0xff6347),
    ("turquoise", 0x40e0d0),
    ("violet", 0xee82ee),
    ("wheat", 0xf5deb3),
    ("yellowgreen", 0x9acd32),
];

/// Whether dark text can be read on it.
fn is_light(colour: Color) -> bool {
    match colour {
        Color::Rgb(red, green, blue) => {
            u32::from(red) * 299 + u32::from(green) * 587 + u32::from(blue) * 114 > 128_000
        }
        Color::White => true,
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_theme_of_ones_own_changes_what_it_names() {
        let written = json!({"name": "Mine", "type": "custom", "text": {"primary": "#abc", "link": "teal"},
            "background": {"primary": "#fafafa"}, "ui": {"gradient": ["#ff0000", "gold"]}});
        let theme = Theme::custom("Mine", &written).expect("a theme");
        assert_eq!(theme.text, Color::Rgb(0xaa, 0xbb, 0xcc));
        assert_eq!(theme.link, Color::Rgb(0, 0x80, 0x80));
        assert_eq!(theme.shade, Shade::Light);
        assert_eq!(theme.gradient.len(), 2);
        assert_eq!(theme.warning, Theme::for_shade(Shade::Light).warning);
    }

    #[test]
    fn a_colour_that_is_none_is_named() {
        let problem = Theme::custom("Mine", &json!({"status": {"error": "reddish"}})).expect_err("no colour");
        let said = problem.to_string();
        assert!(said.contains("status.error") && said.contains("reddish"), "{said}");
        assert!(Theme::custom("Mine", &json!([])).is_err());
    }
}
