//! What the screen needs of the machine: completions, an editor, the clipboard, earlier prompts.

use std::path::PathBuf;
use std::sync::Arc;

use pollux_tui::composer::{Item, Wanted};

use super::Loaded;
use crate::interactive::Desk;

pub(crate) fn desk(loaded: &Loaded) -> Arc<dyn Desk> {
    Arc::new(Machine { root: loaded.project.root().to_path_buf() })
}

struct Machine {
    root: PathBuf,
}

impl Desk for Machine {
    fn complete(&self, _wanted: &Wanted) -> Vec<Item> {
        Vec::new()
    }

    fn exists(&self, path: &str) -> bool {
        self.root.join(path).exists()
    }

    fn edit(&self, _text: &str, _name: &str) -> Result<String, String> {
        Err("No editor is known.".to_owned())
    }

    fn clipboard_image(&self) -> Option<String> {
        None
    }

    fn past(&self) -> (Vec<String>, Vec<String>) {
        (Vec::new(), Vec::new())
    }
}
