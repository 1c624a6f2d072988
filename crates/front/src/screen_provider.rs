//! The port to the full-screen front end.
//!
//! The crate `screen` implements it and the program passes it to [`crate::run`], so that this crate needs no terminal UI.
//! `/theme`, `/footer` and `/shortcuts` use it in every front end, because they change settings that the screen reads.

use std::io;

use pollux_domain::approval::ApprovalMode;
use pollux_host::Loaded;
use pollux_output::Style;

use crate::front_end::FrontEnd;

/// Opens the screen and describes what can be configured about it.
pub trait ScreenProvider {
    /// Takes over the terminal and shows the first frame.
    fn open(&self, loaded: &Loaded, mode: ApprovalMode, style: Style) -> io::Result<Box<dyn FrontEnd>>;

    fn themes(&self, loaded: &Loaded) -> ThemeList;

    /// All footer items, in their default order.
    fn footer_items(&self) -> Vec<FooterItemInfo>;

    fn shortcuts(&self, loaded: &Loaded) -> ShortcutList;
}

/// The themes a person can choose.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ThemeList {
    /// The name of the theme in use.
    pub current: String,
    pub themes: Vec<ThemeInfo>,
}

/// A theme by its name in `ui.theme`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ThemeInfo {
    pub name: String,
    /// Made for light terminals.
    pub light: bool,
}

/// An item of the footer by its name in `ui.footer.items`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FooterItemInfo {
    pub name: &'static str,
    pub label: &'static str,
    /// Shown unless the settings say otherwise.
    pub default: bool,
}

/// The keyboard shortcuts, in the order of their sections.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ShortcutList {
    pub shortcuts: Vec<ShortcutInfo>,
    /// Errors in the keybindings file.
    pub problems: Vec<String>,
}

/// The keys of one editing command.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ShortcutInfo {
    pub section: &'static str,
    pub keys: String,
    pub description: &'static str,
}
