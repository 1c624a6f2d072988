//! The built-in themes: public palettes, written as one line of hexadecimal colours each.

use ratatui::style::Color;

use super::{Shade, Theme};

/// A theme as data: text, secondary, link, accent, border, success, warning, error, added, removed; then the
/// gradient; then keyword, string, number, function, type.
pub(super) struct Palette {
    pub(super) name: &'static str,
    pub(super) shade: Shade,
    pub(super) ink: [u32; 10],
    pub(super) gradient: &'static [u32],
    pub(super) code: [u32; 5],
}

/// Stands for a colour of the terminal's own: `ANSI + index`.
const ANSI: u32 = 0x0100_0000;
/// The terminal's own ink.
const OWN: u32 = 0x0200_0000;

const fn ansi(index: u32) -> u32 {
    ANSI + index
}

pub(super) fn of_shade(shade: Shade) -> &'static Palette {
    let name = if shade == Shade::Dark { super::DEFAULT } else { "Default Light" };
    ALL.iter().find(|palette| palette.name == name).unwrap_or(&ALL[0])
}

impl Palette {
    pub(super) fn theme(&self) -> Theme {
        let [text, secondary, link, accent, border, success, warning, error, added, removed] =
            self.ink.map(colour);
        let [keyword, string, number, function, kind] = self.code.map(colour);
        Theme {
            name: self.name.to_owned(),
            shade: self.shade,
            text,
            secondary,
            link,
            accent,
            response: text,
            border,
            focused: accent,
            success,
            warning,
            error,
            comment: secondary,
            symbol: link,
            added,
            removed,
            gradient: self.gradient.iter().copied().map(colour).collect(),
            code: [keyword, string, number, function, kind],
            plain: false,
        }
    }
}

fn colour(value: u32) -> Color {
    let byte = |shift: u32| u8::try_from(value >> shift & 0xff).unwrap_or_default();
    match value {
        OWN => Color::Reset,
        value if value >= ANSI => Color::Indexed(byte(0)),
        _ => Color::Rgb(byte(16), byte(8), byte(0)),
    }
}

use Shade::{Dark, Light};

#[rustfmt::skip]
pub(super) static ALL: &[Palette] = &[
    Palette { name: "Default", shade: Dark,
        ink: [OWN, 0x9399a8, 0x5aa9f8, 0xc5a3ff, 0x4c5262, 0x6fcf8a, 0xf2b25c, 0xff7b72, 0x12331f, 0x451d22],
        gradient: &[0x4796e4, 0x847ace, 0xc3677f],
        code: [0x5aa9f8, 0xf2c879, 0xf5a97f, 0xc5a3ff, 0x7fd6d0] },
    Palette { name: "ANSI", shade: Dark,
        ink: [OWN, ansi(8), ansi(12), ansi(13), ansi(8), ansi(10), ansi(11), ansi(9), ansi(22), ansi(52)],
        gradient: &[ansi(12), ansi(13)],
        code: [ansi(12), ansi(10), ansi(11), ansi(13), ansi(14)] },
    Palette { name: "Atom One", shade: Dark,
        ink: [0xabb2bf, 0x5c6370, 0x61afef, 0xc678dd, 0x3e4451, 0x98c379, 0xe5c07b, 0xe06c75, 0x2b3b2c, 0x452a2f],
        gradient: &[0x61afef, 0x98c379],
        code: [0xc678dd, 0x98c379, 0xd19a66, 0x61afef, 0xe5c07b] },
    Palette { name: "Ayu", shade: Dark,
        ink: [0xbfbdb6, 0x646a71, 0x39bae6, 0xd2a6ff, 0x3d4149, 0xaad94c, 0xffb454, 0xf26d78, 0x253a1c, 0x42202a],
        gradient: &[0xffb454, 0xf26d78],
        code: [0xff8f40, 0xaad94c, 0xd2a6ff, 0xffb454, 0x59c2ff] },
    Palette { name: "Dracula", shade: Dark,
        ink: [0xf8f8f2, 0x6272a4, 0x8be9fd, 0xff79c6, 0x44475a, 0x50fa7b, 0xf1fa8c, 0xff5555, 0x11431d, 0x6e1818],
        gradient: &[0xff79c6, 0x8be9fd],
        code: [0xff79c6, 0xf1fa8c, 0xbd93f9, 0x50fa7b, 0x8be9fd] },
    Palette { name: "GitHub", shade: Dark,
        ink: [0xc9d1d9, 0x8b949e, 0x79c0ff, 0xd2a8ff, 0x30363d, 0x7ee787, 0xd29922, 0xff7b72, 0x12361f, 0x4b1a1f],
        gradient: &[0x79c0ff, 0x7ee787],
        code: [0xff7b72, 0xa5d6ff, 0x79c0ff, 0xd2a8ff, 0xffa657] },
    Palette { name: "GitHub Dark Colorblind", shade: Dark,
        ink: [0xe6edf3, 0x8b949e, 0x79c0ff, 0xd2a8ff, 0x30363d, 0x58a6ff, 0xd29922, 0xf0883e, 0x0d2f57, 0x4d2a12],
        gradient: &[0x79c0ff, 0xf0883e],
        code: [0xf0883e, 0xa5d6ff, 0x79c0ff, 0xd2a8ff, 0xffa657] },
    Palette { name: "Holiday", shade: Dark,
        ink: [0xd6e2d8, 0x7d9484, 0x8cc8ff, 0xe8b4c0, 0x3d5547, 0x5fd38d, 0xffd866, 0xff6b6b, 0x1b4030, 0x5b2222],
        gradient: &[0xff6b6b, 0xd6e2d8, 0x5fd38d],
        code: [0xff8a8a, 0xa9dc76, 0xffd866, 0x8cc8ff, 0xe8b4c0] },
    Palette { name: "Shades Of Purple", shade: Dark,
        ink: [0xe3dfff, 0xa599e9, 0x9effff, 0xfad000, 0x4d21fc, 0x3ad900, 0xfad000, 0xec3a37, 0x2a4a3a, 0x5c2140],
        gradient: &[0x4d21fc, 0x847ace, 0xff628c],
        code: [0xff9d00, 0xa5ff90, 0xff628c, 0xfad000, 0x9effff] },
    Palette { name: "Solarized Dark", shade: Dark,
        ink: [0x93a1a1, 0x657b83, 0x268bd2, 0x6c71c4, 0x2f4f57, 0x859900, 0xb58900, 0xdc322f, 0x0c4030, 0x4a2428],
        gradient: &[0x268bd2, 0x2aa198],
        code: [0x859900, 0x2aa198, 0xd33682, 0x268bd2, 0xb58900] },
    Palette { name: "Tokyo Night", shade: Dark,
        ink: [0xc0caf5, 0x565f89, 0x7aa2f7, 0xbb9af7, 0x3b4261, 0x9ece6a, 0xe0af68, 0xf7768e, 0x20303b, 0x37222c],
        gradient: &[0x7aa2f7, 0xbb9af7],
        code: [0xbb9af7, 0x9ece6a, 0xff9e64, 0x7aa2f7, 0x2ac3de] },
    Palette { name: "Default Light", shade: Light,
        ink: [OWN, 0x63687a, 0x1b5fb8, 0x7a3fb5, 0xc3c7d1, 0x1a7a35, 0x9a6200, 0xc5221f, 0xdcf5e2, 0xffecea],
        gradient: &[0x1b5fb8, 0x7a3fb5, 0xb23a5e],
        code: [0x1b5fb8, 0x8a5a00, 0xb84a14, 0x7a3fb5, 0x13756f] },
    Palette { name: "ANSI Light", shade: Light,
        ink: [OWN, ansi(8), ansi(4), ansi(5), ansi(7), ansi(2), ansi(3), ansi(1), ansi(194), ansi(224)],
        gradient: &[ansi(4), ansi(5)],
        code: [ansi(4), ansi(2), ansi(3), ansi(5), ansi(6)] },
    Palette { name: "Ayu Light", shade: Light,
        ink: [0x5c6166, 0x8a9199, 0x399ee6, 0xa37acc, 0xd8d8d7, 0x86b300, 0xf2ae49, 0xf07171, 0xe2efc5, 0xfbdfdf],
        gradient: &[0x399ee6, 0x86b300],
        code: [0xfa8d3e, 0x86b300, 0xa37acc, 0xf2ae49, 0x399ee6] },
    Palette { name: "GitHub Light", shade: Light,
        ink: [0x24292e, 0x6a737d, 0x0366d6, 0x6f42c1, 0xd1d5da, 0x22863a, 0xb08800, 0xd73a49, 0xdcffe4, 0xffdce0],
        gradient: &[0x0366d6, 0x6f42c1],
        code: [0xd73a49, 0x032f62, 0x005cc5, 0x6f42c1, 0xe36209] },
    Palette { name: "GitHub Light Colorblind", shade: Light,
        ink: [0x24292f, 0x57606a, 0x0969da, 0x8250df, 0xd0d7de, 0x0969da, 0x9a6700, 0xbc4c00, 0xddf4ff, 0xfff1e5],
        gradient: &[0x0969da, 0xbc4c00],
        code: [0xbc4c00, 0x0a3069, 0x0550ae, 0x8250df, 0x953800] },
    Palette { name: "Google Code", shade: Light,
        ink: [0x222222, 0x5f6368, 0x000088, 0x660066, 0xdadce0, 0x008800, 0x8a6d00, 0xbb1111, 0xdff5df, 0xfbdede],
        gradient: &[0x000088, 0x660066],
        code: [0x000088, 0x008800, 0x006666, 0x660066, 0x666600] },
    Palette { name: "Solarized Light", shade: Light,
        ink: [0x586e75, 0x93a1a1, 0x268bd2, 0x6c71c4, 0xd9d2be, 0x859900, 0xb58900, 0xdc322f, 0xe6edc8, 0xf8dcd3],
        gradient: &[0x268bd2, 0x2aa198],
        code: [0x859900, 0x2aa198, 0xd33682, 0x268bd2, 0xb58900] },
    Palette { name: "Xcode", shade: Light,
        ink: [0x262626, 0x5d6c79, 0x0f68a0, 0x9b2393, 0xd0d0d0, 0x326d74, 0x78492a, 0xc41a16, 0xdff3e0, 0xfbdcdb],
        gradient: &[0x0f68a0, 0x9b2393],
        code: [0x9b2393, 0xc41a16, 0x1c00cf, 0x326d74, 0x3900a0] },
];
