//! The screen as `front` asks for it.

use std::io;

use pollux_domain::approval::ApprovalMode;
use pollux_front::front_end::FrontEnd;
use pollux_front::screen_provider::{
    FooterItemInfo, ScreenProvider, ShortcutInfo, ShortcutList, ThemeInfo, ThemeList,
};
use pollux_host::Loaded;
use pollux_output::Style;
use pollux_tui::app::FooterItem;
use pollux_tui::theme::Shade;

use crate::appearance::{initial_app, keys, screen_options};
use crate::front_end::Screen;
use crate::themes::{chosen_theme, themes};

/// Opens screens on the terminal of this process.
#[derive(Debug, Clone, Copy, Default)]
pub struct Screens;

impl ScreenProvider for Screens {
    fn open(&self, loaded: &Loaded, mode: ApprovalMode, style: Style) -> io::Result<Box<dyn FrontEnd>> {
        let app = initial_app(loaded, mode);
        Ok(Box::new(Screen::open(app, screen_options(loaded), style)?))
    }

    fn themes(&self, loaded: &Loaded) -> ThemeList {
        let theme = |(name, theme): (String, pollux_tui::theme::Theme)| ThemeInfo {
            name,
            light: theme.shade == Shade::Light,
        };
        let themes = themes(loaded).into_iter().map(theme).collect();
        ThemeList { current: chosen_theme(loaded).name, themes }
    }

    fn footer_items(&self) -> Vec<FooterItemInfo> {
        let info = |(item, name, label): &(FooterItem, &'static str, &'static str)| FooterItemInfo {
            name,
            label,
            default: FooterItem::DEFAULT.contains(item),
        };
        FooterItem::ALL.iter().map(info).collect()
    }

    fn shortcuts(&self, loaded: &Loaded) -> ShortcutList {
        let (keys, problems) = keys(loaded);
        let shortcuts = keys.listing().into_iter().map(|shortcut| ShortcutInfo {
            section: shortcut.section,
            keys: shortcut.keys,
            description: shortcut.description,
        });
        ShortcutList { shortcuts: shortcuts.collect(), problems }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn default_footer_items_keep_their_order() {
        let items = Screens.footer_items();
        let names: Vec<&str> = items.iter().filter(|item| item.default).map(|item| item.name).collect();
        let expected =
            ["workspace", "git-branch", "sandbox", "model-name", "quota", "budget", "background", "ide"];
        assert_eq!(names, expected);
    }
}
