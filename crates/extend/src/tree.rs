//! A bounded, breadth-first listing of a folder for the model, respecting ignore files.

use std::collections::{HashSet, VecDeque};
use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};

use ignore::WalkBuilder;
use pollux_config::groups::FileFiltering;
use pollux_domain::terminal_text;

/// The number of files and folders shown; upstream's.
const MAX_ITEMS: usize = 200;

/// A folder with more entries than this is not sorted completely; only its first ones are used.
const MAX_ENTRIES_READ: usize = 5_000;

/// Limit of entries examined for one listing, shown or not.
const MAX_ENTRIES_TOTAL: usize = 20_000;

/// An ignore file longer than this is not one.
const MAX_IGNORE_BYTES: u64 = 1024 * 1024;

/// Folders named but never opened.
const CLOSED: [&str; 4] = ["node_modules", ".git", "dist", "__pycache__"];

/// Draws the tree below `root`.
pub fn draw(root: &Path, filtering: &FileFiltering) -> String {
    let listing = gather(root, filtering);
    let mut text = format!("Showing up to {MAX_ITEMS} items (files + folders).");
    if listing.nodes.iter().any(|node| node.more) {
        text.push_str(
            " Folders or files indicated with ... contain more items not shown, were ignored, \
             or the display limit was reached.",
        );
    }
    text.push_str(&format!("\n\n{}/\n", terminal_text::name(&root.to_string_lossy())));
    let mut lines = Vec::new();
    listing.lines(0, "", &mut lines);
    text.push_str(&lines.join("\n"));
    text
}

#[derive(Default)]
struct Node {
    files: Vec<String>,
    folders: Vec<(String, Option<usize>)>,
    /// Something below is not shown.
    more: bool,
}

struct Listing {
    nodes: Vec<Node>,
}

fn gather(root: &Path, filtering: &FileFiltering) -> Listing {
    let mut listing = Listing { nodes: vec![Node::default()] };
    let mut queue: VecDeque<(PathBuf, usize)> = VecDeque::from([(root.to_path_buf(), 0)]);
    let mut items = 0;
    let mut left = MAX_ENTRIES_TOTAL;
    while let Some((dir, index)) = queue.pop_front() {
        if items >= MAX_ITEMS || left == 0 {
            listing.mark_more(index);
            continue;
        }
        let entries = entries(&dir, filtering, &mut left);
        let mut node = Node { more: entries.cut, ..Node::default() };
        for name in entries.files {
            if items >= MAX_ITEMS {
                node.more = true;
                break;
            }
            node.files.push(terminal_text::name(&name.to_string_lossy()).into_owned());
            items += 1;
        }
        for (name, open) in entries.folders {
            if items >= MAX_ITEMS {
                node.more = true;
                break;
            }
            items += 1;
            let child = open.then(|| {
                listing.nodes.push(Node::default());
                listing.nodes.len() - 1
            });
            if let Some(child) = child {
                queue.push_back((dir.join(&name), child));
            }
            node.folders.push((terminal_text::name(&name.to_string_lossy()).into_owned(), child));
        }
        if let Some(slot) = listing.nodes.get_mut(index) {
            *slot = node;
        }
    }
    listing
}

impl Listing {
    fn mark_more(&mut self, index: usize) {
        if let Some(node) = self.nodes.get_mut(index) {
            node.more = true;
        }
    }

    fn lines(&self, index: usize, indent: &str, out: &mut Vec<String>) {
        let Some(node) = self.nodes.get(index) else { return };
        let count = node.files.len() + node.folders.len() + usize::from(node.more);
        let mut shown = 0;
        let mut branch = |last_text: &mut bool| {
            shown += 1;
            *last_text = shown == count;
            if *last_text { "└───" } else { "├───" }
        };
        let mut last = false;
        for name in &node.files {
            let mark = branch(&mut last);
            out.push(format!("{indent}{mark}{name}"));
        }
        for (name, child) in &node.folders {
            let mark = branch(&mut last);
            match child {
                None => out.push(format!("{indent}{mark}{name}/...")),
                Some(child) => {
                    out.push(format!("{indent}{mark}{name}/"));
                    let deeper = if last { format!("{indent}    ") } else { format!("{indent}│   ") };
                    self.lines(*child, &deeper, out);
                }
            }
        }
        if node.more {
            let mark = branch(&mut last);
            out.push(format!("{indent}{mark}..."));
        }
    }
}

struct Entries {
    files: Vec<OsString>,
    /// The folders, and whether they are to be looked into.
    folders: Vec<(OsString, bool)>,
    cut: bool,
}

fn entries(dir: &Path, filtering: &FileFiltering, left: &mut usize) -> Entries {
    let mut found = Entries { files: Vec::new(), folders: Vec::new(), cut: false };
    if has_odd_ignore_file(dir) {
        found.cut = true;
        return found;
    }
    let limit = MAX_ENTRIES_READ.min(*left);
    let allowed = allowed(dir, filtering, limit);
    let Ok(reader) = fs::read_dir(dir) else { return found };
    for (count, entry) in reader.flatten().enumerate() {
        if count >= limit {
            found.cut = true;
            break;
        }
        *left = left.saturating_sub(1);
        found.add(&entry, &allowed);
    }
    found.files.sort();
    found.folders.sort();
    found
}

impl Entries {
    fn add(&mut self, entry: &fs::DirEntry, allowed: &HashSet<PathBuf>) {
        let name = entry.file_name();
        let visible = allowed.contains(&entry.path());
        // A link is shown as a file: following it could leave the workspace.
        if entry.file_type().is_ok_and(|kind| kind.is_dir()) {
            let open = visible && !CLOSED.iter().any(|closed| name == *closed);
            self.folders.push((name, open));
        } else if visible {
            self.files.push(name);
        } else {
            self.cut = true;
        }
    }
}

/// Reading a pipe would block forever, and a huge file is not a list of rules: such a folder is not opened.
fn has_odd_ignore_file(dir: &Path) -> bool {
    [".gitignore", ".geminiignore"].iter().any(|name| {
        fs::metadata(dir.join(name)).is_ok_and(|meta| !meta.is_file() || meta.len() > MAX_IGNORE_BYTES)
    })
}

/// The direct entries of a folder that are not ignored.
fn allowed(dir: &Path, filtering: &FileFiltering, limit: usize) -> HashSet<PathBuf> {
    let git = filtering.respect_git_ignore;
    let mut walk = WalkBuilder::new(dir);
    walk.max_depth(Some(1))
        .hidden(false)
        .parents(git || filtering.respect_gemini_ignore)
        .ignore(false)
        .git_ignore(git)
        .git_exclude(git)
        .git_global(false)
        .follow_links(false);
    if filtering.respect_gemini_ignore {
        walk.add_custom_ignore_filename(".geminiignore");
    }
    // The first one is the folder itself.
    walk.build().take(limit + 1).flatten().map(ignore::DirEntry::into_path).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn filtering() -> FileFiltering {
        FileFiltering { respect_git_ignore: true, respect_gemini_ignore: true, ..Default::default() }
    }

    fn touch(root: &Path, name: &str) {
        let path = root.join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::File::create(path).unwrap();
    }

    #[test]
    fn files_come_before_folders_and_closed_folders_are_named_only() {
        let dir = tempfile::tempdir().unwrap();
        for name in ["b.txt", "a.txt", "src/main.rs", "node_modules/x/y", "out/z"] {
            touch(dir.path(), name);
        }
        fs::create_dir(dir.path().join(".git")).unwrap();
        #[expect(clippy::disallowed_methods, reason = "a fixture needs no atomic write")]
        fs::write(dir.path().join(".gitignore"), "out/\n").unwrap();
        let text = draw(dir.path(), &filtering());
        let tree = text.split_once("/\n").unwrap().1;
        assert_eq!(
            tree,
            "├───.gitignore\n├───a.txt\n├───b.txt\n├───.git/...\n├───node_modules/...\n├───out/...\n└───src/\n    └───main.rs"
        );
    }

    #[test]
    fn a_large_folder_is_bounded_and_says_so() {
        let dir = tempfile::tempdir().unwrap();
        for n in 0..300 {
            touch(dir.path(), &format!("f{n:03}"));
        }
        let text = draw(dir.path(), &filtering());
        assert_eq!(text.matches("───f").count(), MAX_ITEMS);
        assert!(text.contains("contain more items") && text.ends_with("└───..."), "{text}");
    }

    #[cfg(unix)]
    #[test]
    fn hostile_names_and_ignore_files_do_no_harm() {
        let dir = tempfile::tempdir().unwrap();
        touch(dir.path(), "a\nb\u{1b}[31m/c.txt");
        fs::create_dir_all(dir.path().join("odd/.gitignore")).unwrap();
        touch(dir.path(), "odd/x.txt");
        let text = draw(dir.path(), &filtering());
        let tree = text.split_once("/\n").unwrap().1;
        assert_eq!(tree, "├───a<U+000A>b<U+001B>[31m/\n│   └───c.txt\n└───odd/\n    └───...");
    }
}
