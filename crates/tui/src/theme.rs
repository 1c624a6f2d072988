//! Colours by meaning.
//!
//! A theme says what text, borders, changes and states look like; widgets ask for the meaning and never for a colour.
//! Nothing is said by colour alone: every state has a sign. Two themes use blue and orange in place of green and red.

mod custom;
mod palettes;

use ratatui::style::{Color, Modifier, Style};

pub use custom::{CustomTheme, ThemeProblem};

/// Whether a theme is made for a dark or a light terminal.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Shade {
    Dark,
    Light,
}

/// A set of colours.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Theme {
    pub name: String,
    pub shade: Shade,
    pub text: Color,
    pub secondary: Color,
    pub link: Color,
    pub accent: Color,
    pub response: Color,
    pub border: Color,
    pub focused: Color,
    pub success: Color,
    pub warning: Color,
    pub error: Color,
    pub comment: Color,
    pub symbol: Color,
    /// Behind lines that a change adds and takes away.
    pub added: Color,
    pub removed: Color,
    /// From the first to the last letter of the name at the top.
    pub gradient: Vec<Color>,
    /// The code of languages: keyword, string, number, function, type.
    pub code: [Color; 5],
    /// Without colours at all.
    pub plain: bool,
}

/// The theme when nothing is chosen and nothing is known about the terminal.
pub const DEFAULT: &str = "Default";
/// The theme that `NO_COLOR` forces.
pub const NO_COLOUR: &str = "NoColor";

impl Theme {
    /// A theme that is built in; names are compared without regard to case.
    pub fn named(name: &str) -> Option<Self> {
        palettes::ALL
            .iter()
            .find(|palette| palette.name.eq_ignore_ascii_case(name))
            .map(palettes::Palette::theme)
    }

    /// The names of all built-in themes, dark ones first.
    pub fn names() -> impl Iterator<Item = (&'static str, Shade)> {
        palettes::ALL.iter().map(|palette| (palette.name, palette.shade))
    }

    /// The default theme for a terminal of this shade.
    pub fn for_shade(shade: Shade) -> Self {
        palettes::of_shade(shade).theme()
    }

    /// Whether it is one of the two defaults.
    pub fn follows_terminal(&self) -> bool {
        [Shade::Dark, Shade::Light].iter().any(|shade| palettes::of_shade(*shade).name == self.name)
    }

    /// Without any colour.
    pub fn no_colour() -> Self {
        Self { name: NO_COLOUR.to_owned(), plain: true, ..palettes::of_shade(Shade::Dark).theme() }
    }

    fn ink(&self, colour: Color) -> Style {
        if self.plain { Style::new() } else { Style::new().fg(colour) }
    }

    pub fn text(&self) -> Style {
        self.ink(self.text)
    }

    pub fn secondary(&self) -> Style {
        if self.plain { Style::new().add_modifier(Modifier::DIM) } else { self.ink(self.secondary) }
    }

    pub fn link(&self) -> Style {
        self.ink(self.link).add_modifier(Modifier::UNDERLINED)
    }

    /// A name that leads somewhere, without a line under it.
    pub fn link_plain(&self) -> Style {
        self.ink(self.link)
    }

    pub fn accent(&self) -> Style {
        self.ink(self.accent)
    }

    pub fn response(&self) -> Style {
        self.ink(self.response)
    }

    pub fn border(&self) -> Style {
        self.ink(self.border)
    }

    pub fn focused(&self) -> Style {
        self.ink(self.focused).add_modifier(Modifier::BOLD)
    }

    pub fn success(&self) -> Style {
        self.ink(self.success)
    }

    pub fn warning(&self) -> Style {
        self.ink(self.warning)
    }

    pub fn error(&self) -> Style {
        self.ink(self.error)
    }

    pub fn added(&self) -> Style {
        if self.plain { Style::new() } else { Style::new().fg(self.text).bg(self.added) }
    }

    pub fn removed(&self) -> Style {
        if self.plain { Style::new() } else { Style::new().fg(self.text).bg(self.removed) }
    }

    /// The changed part of an added line.
    pub fn added_part(&self) -> Style {
        self.changed_part(self.added, self.success)
    }

    /// The changed part of a removed line.
    pub fn removed_part(&self) -> Style {
        self.changed_part(self.removed, self.error)
    }

    /// A stronger shade of the line's background where colours can be mixed, and a line under the text elsewhere.
    fn changed_part(&self, behind: Color, ink: Color) -> Style {
        match (behind, ink) {
            (Color::Rgb(red, green, blue), Color::Rgb(to_red, to_green, to_blue)) if !self.plain => {
                let mix = |from: u8, to: u8| {
                    u8::try_from((u16::from(from) * 13 + u16::from(to) * 7) / 20).unwrap_or(from)
                };
                let colour = Color::Rgb(mix(red, to_red), mix(green, to_green), mix(blue, to_blue));
                Style::new().fg(self.text).bg(colour)
            }
            _ => Style::new().add_modifier(Modifier::BOLD | Modifier::UNDERLINED),
        }
    }

    pub fn code(&self) -> Style {
        self.ink(self.accent)
    }

    /// The colour of one of `count` letters of the name at the top.
    pub fn letter(&self, index: usize, count: usize) -> Style {
        let last = self.gradient.len().saturating_sub(1);
        let place = (index * last).checked_div(count.saturating_sub(1)).unwrap_or_default();
        self.gradient.get(place.min(last)).map_or_else(|| self.accent(), |colour| self.ink(*colour))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_name_that_people_have_in_their_settings_is_a_theme() {
        for name in [
            "ANSI",
            "Atom One",
            "Ayu",
            "Default",
            "Dracula",
            "GitHub",
            "GitHub Dark Colorblind",
            "Holiday",
            "Shades Of Purple",
            "Solarized Dark",
            "Tokyo Night",
            "ANSI Light",
            "Ayu Light",
            "Default Light",
            "GitHub Light",
            "GitHub Light Colorblind",
            "Google Code",
            "Solarized Light",
            "Xcode",
        ] {
            assert!(Theme::named(name).is_some(), "{name}");
            assert!(Theme::named(&name.to_lowercase()).is_some(), "{name}");
        }
        assert_eq!(Theme::names().count(), 19);
    }

    /// How bright a colour is, from 0 to 1.
    fn brightness(colour: Color) -> f64 {
        let Color::Rgb(red, green, blue) = colour else { panic!("{colour:?} is the terminal's own") };
        let linear = |part: u8| match f64::from(part) / 255.0 {
            part if part <= 0.03928 => part / 12.92,
            part => ((part + 0.055) / 1.055).powf(2.4),
        };
        0.2126 * linear(red) + 0.7152 * linear(green) + 0.0722 * linear(blue)
    }

    #[test]
    fn what_nobody_chose_can_be_read_by_everybody() {
        for (shade, behind) in [(Shade::Dark, 0.0), (Shade::Light, 1.0)] {
            let theme = Theme::for_shade(shade);
            let states = [theme.success, theme.warning, theme.error];
            let others = [theme.secondary, theme.link, theme.accent];
            for colour in states.iter().chain(&others).chain(&theme.code) {
                let ink = brightness(*colour);
                let contrast = (f64::max(ink, behind) + 0.05) / (f64::min(ink, behind) + 0.05);
                assert!(contrast >= 4.5, "{shade:?} {colour:?} {contrast}");
            }
            let ratio = |one: f64, other: f64| (f64::max(one, other) + 0.05) / (f64::min(one, other) + 0.05);
            for line in [theme.added, theme.removed] {
                for colour in &theme.code {
                    let contrast = ratio(brightness(*colour), brightness(line));
                    assert!(contrast >= 4.5, "{shade:?} {colour:?} on {line:?}: {contrast}");
                }
            }
            // The text is the terminal's own: white on dark, black on light.
            for part in [theme.added_part(), theme.removed_part()] {
                let colour = part.bg.expect("mixed");
                let contrast = ratio(1.0 - behind, brightness(colour));
                assert!(contrast >= 4.5, "{shade:?} {colour:?} {contrast}");
            }
        }
    }

    /// Whether a colour is rather red than green, and how much blue it has.
    fn redness(colour: Color) -> (i32, i32) {
        let Color::Rgb(red, green, blue) = colour else { panic!("{colour:?} is the terminal's own") };
        (i32::from(red) - i32::from(green), i32::from(blue))
    }

    #[test]
    fn changes_are_red_and_green_unless_somebody_cannot_see_that() {
        for shade in [Shade::Dark, Shade::Light] {
            let theme = Theme::for_shade(shade);
            assert!(redness(theme.added).0 < -15 && redness(theme.success).0 < -40, "{shade:?}");
            assert!(redness(theme.removed).0 > 15 && redness(theme.error).0 > 40, "{shade:?}");
        }
        for name in ["GitHub Dark Colorblind", "GitHub Light Colorblind"] {
            let theme = Theme::named(name).expect("built in");
            assert!((redness(theme.success).1 - redness(theme.error).1).abs() > 90, "{name}");
            assert!((redness(theme.added).1 - redness(theme.removed).1).abs() > 20, "{name}");
        }
    }

    #[test]
    fn without_colour_no_style_has_one() {
        let theme = Theme::no_colour();
        for style in
            [theme.text(), theme.added(), theme.added_part(), theme.error(), theme.letter(0, 3), theme.link()]
        {
            assert_eq!((style.fg, style.bg), (None, None));
        }
    }

    #[test]
    fn letters_run_through_the_whole_gradient() {
        let theme = Theme::named("Default").expect("built in");
        assert_eq!(theme.letter(0, 6).fg, theme.gradient.first().copied());
        assert_eq!(theme.letter(5, 6).fg, theme.gradient.last().copied());
        assert_eq!(theme.letter(0, 1).fg, theme.gradient.first().copied());
    }
}
