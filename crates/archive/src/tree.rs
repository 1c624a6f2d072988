//! The entries of an archive or a folder, in memory.
//!
//! Use it before writing anything: it finds entries below a link and links that leave the folder, without
//! touching the disk.

use std::collections::{BTreeMap, HashMap, VecDeque};
use std::ffi::{OsStr, OsString};
use std::path::{Component, Path, PathBuf};

use crate::unpack::Refusal;

/// Limit of nested folders.
pub(crate) const MAX_DEPTH: usize = 64;
/// More links than this in a row are a loop; Linux has the same number.
const MAX_LINKS: usize = 40;

/// The kind of an entry.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Node {
    Folder,
    File,
    /// With its target as it was written.
    Link(String),
}

/// Whether a link may lead to something that is not there.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Missing {
    Refuse,
    Allow,
}

/// Files, folders and links by their path relative to the top.
#[derive(Debug, Default)]
pub struct Tree {
    nodes: BTreeMap<PathBuf, Node>,
    /// The disk tells names apart that differ in case only.
    case_matters: bool,
    /// Names in lower case, and whether one of them is a link: where the disk ignores case, that is one name.
    folded: HashMap<String, bool>,
}

impl Tree {
    /// A tree for a disk that tells names apart that differ in case only.
    pub fn with_case() -> Self {
        Self { case_matters: true, ..Self::default() }
    }

    /// The entry of this path.
    pub fn get(&self, path: &Path) -> Option<&Node> {
        self.nodes.get(path)
    }

    /// Adds an entry and the folders above it. An entry below a link or a file is refused, and so is a second one
    /// of the same name, except a folder.
    pub fn add(&mut self, path: &Path, node: Node) -> Result<(), Refusal> {
        if path.as_os_str().is_empty() {
            return if node == Node::Folder { Ok(()) } else { Err(Refusal::Length) };
        }
        if path.components().count() > MAX_DEPTH {
            return Err(Refusal::TooDeep(MAX_DEPTH));
        }
        let mut above = PathBuf::new();
        for part in path.parent().into_iter().flatten() {
            above.push(part);
            match self.nodes.get(&above) {
                Some(Node::Folder) => {}
                Some(Node::File | Node::Link(_)) => return Err(Refusal::Below(shown(&above))),
                None if self.folded.get(&folded(&above)) == Some(&true) => {
                    return Err(Refusal::Below(shown(&above)));
                }
                None => self.insert(above.clone(), Node::Folder),
            }
        }
        let same_letters = self.folded.get(&folded(path));
        match (self.nodes.get(path), &node) {
            (Some(Node::Folder), Node::Folder) => return Ok(()),
            (Some(_), _) => return Err(Refusal::Twice),
            (None, Node::Link(_)) if same_letters.is_some() => return Err(Refusal::Twice),
            (None, _) if same_letters == Some(&true) => return Err(Refusal::Twice),
            (None, _) => {}
        }
        self.insert(path.to_owned(), node);
        Ok(())
    }

    fn insert(&mut self, path: PathBuf, node: Node) {
        let is_link = matches!(node, Node::Link(_));
        if !self.case_matters {
            *self.folded.entry(folded(&path)).or_default() |= is_link;
        }
        self.nodes.insert(path, node);
    }

    /// How many files, folders and links there are, with those that only a longer path names.
    pub fn len(&self) -> usize {
        self.nodes.len()
    }

    /// Whether there is nothing.
    pub fn is_empty(&self) -> bool {
        self.nodes.is_empty()
    }

    /// All entries, each folder before its contents.
    pub fn iter(&self) -> impl Iterator<Item = (&Path, &Node)> {
        self.nodes.iter().map(|(path, node)| (path.as_path(), node))
    }

    /// The links with their targets.
    pub fn links(&self) -> impl Iterator<Item = (&Path, &str)> {
        self.iter().filter_map(|(path, node)| match node {
            Node::Link(target) => Some((path, target.as_str())),
            Node::Folder | Node::File => None,
        })
    }

    /// The first link that leaves the tree, or that leads to nothing in it.
    pub fn stray_link(&self) -> Option<(&Path, &str)> {
        self.stray_link_above(0)
    }

    /// The same for an archive: a single top-level folder is the boundary, because such a folder is unwrapped.
    pub fn stray_link_of_archive(&self) -> Option<(&Path, &str)> {
        let mut tops = self.iter().filter(|(path, _)| path.components().count() == 1);
        let has_one_folder = matches!((tops.next(), tops.next()), (Some((_, Node::Folder)), None));
        self.stray_link_above(usize::from(has_one_folder))
    }

    fn stray_link_above(&self, border: usize) -> Option<(&Path, &str)> {
        self.links().find(|(path, target)| !self.leads_inside(path, target, border, Missing::Refuse))
    }

    /// Whether a link leaves the tree, or never ends. One that leads to nothing inside does not.
    pub fn is_leaving(&self, link: &Path, target: &str) -> bool {
        !self.leads_inside(link, target, 0, Missing::Allow)
    }

    fn leads_inside(&self, link: &Path, target: &str, border: usize, missing: Missing) -> bool {
        let mut place: Vec<OsString> = link.parent().into_iter().flatten().map(OsStr::to_owned).collect();
        let Some(mut ahead) = steps(target) else { return false };
        let mut links_left = MAX_LINKS;
        while let Some(step) = ahead.pop_front() {
            let Some(name) = step else {
                if place.pop().is_none() || place.len() < border {
                    return false;
                }
                continue;
            };
            place.push(name);
            match self.nodes.get(&place.iter().collect::<PathBuf>()) {
                Some(Node::Folder) => {}
                Some(Node::File) if ahead.is_empty() => {}
                Some(Node::Link(target)) if links_left > 0 => {
                    links_left -= 1;
                    place.pop();
                    let Some(mut further) = steps(target) else { return false };
                    further.append(&mut ahead);
                    ahead = further;
                }
                Some(Node::File) | None if missing == Missing::Allow => {}
                Some(Node::File | Node::Link(_)) | None => return false,
            }
        }
        true
    }
}

/// The steps of a relative path, `None` for one upwards; nothing for a path that is absolute or empty.
fn steps(target: &str) -> Option<VecDeque<Option<OsString>>> {
    let steps =
        Path::new(target).components().filter(|part| *part != Component::CurDir).map(|part| match part {
            Component::Normal(name) => Some(Some(name.to_owned())),
            Component::ParentDir => Some(None),
            Component::CurDir | Component::RootDir | Component::Prefix(_) => None,
        });
    let steps: Option<VecDeque<_>> = steps.collect();
    steps.filter(|_| !target.is_empty())
}

fn folded(path: &Path) -> String {
    path.to_string_lossy().to_lowercase()
}

fn shown(path: &Path) -> String {
    path.to_string_lossy().into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tree(links: &[(&str, &str)]) -> Tree {
        let mut tree = Tree::default();
        for file in ["a/file", "a/b/file", "top"] {
            tree.add(Path::new(file), Node::File).unwrap();
        }
        for (path, target) in links {
            tree.add(Path::new(path), Node::Link((*target).to_owned())).unwrap();
        }
        tree
    }

    #[test]
    fn links_are_followed_through_each_other() {
        for (links, stray) in [
            (&[("l", "top")][..], None),
            (&[("l", "./a/../top")], None),
            (&[("a/b/l", "../file")], None),
            (&[("a/l", "..")], None),
            (&[("l", "a"), ("m", "l/b/file")], None),
            (&[("a/b/up", "../.."), ("l", "a/b/up/top")], None),
            (&[("l", "missing")], Some("l")),
            (&[("l", "")], Some("l")),
            (&[("l", "/etc/passwd")], Some("l")),
            (&[("l", "..")], Some("l")),
            (&[("l", "a/../../x")], Some("l")),
            (&[("l", "top/x")], Some("l")),
            (&[("l", "l")], Some("l")),
            (&[("l", "m"), ("m", "l")], Some("l")),
            (&[("a/b/up", "../.."), ("l", "a/b/up/..")], Some("l")),
            (&[("a/u0", ".."), ("a/u1", "u0/..")], Some("a/u1")),
        ] {
            let found = tree(links).stray_link().map(|(path, _)| path.to_owned());
            assert_eq!(found.as_deref(), stray.map(Path::new), "{links:?}");
        }
    }

    #[test]
    fn a_single_folder_of_an_archive_is_not_left_either() {
        for (target, stays) in
            [("../top/file", false), ("..", false), ("../..", false), ("sub/../file", true)]
        {
            let mut tree = Tree::default();
            for file in ["top/file", "top/sub/file"] {
                tree.add(Path::new(file), Node::File).unwrap();
            }
            tree.add(Path::new("top/l"), Node::Link(target.to_owned())).unwrap();
            assert_eq!(tree.stray_link_of_archive().is_none(), stays, "{target}");
            tree.add(Path::new("second"), Node::File).unwrap();
            assert_eq!(tree.stray_link_of_archive().is_some(), target == "../..", "{target}");
        }
    }

    #[test]
    fn no_entry_is_below_a_link_or_file_and_names_are_unique() {
        let link = || Node::Link("a".to_owned());
        let mut tree = tree(&[("Link", "a")]);
        for (path, node, refusal) in [
            ("Link/x", Node::File, Refusal::Below("Link".to_owned())),
            ("link/x/y", Node::Folder, Refusal::Below("link".to_owned())),
            ("Link/x", link(), Refusal::Below("Link".to_owned())),
            ("top/x", Node::File, Refusal::Below("top".to_owned())),
            ("link", Node::File, Refusal::Twice),
            ("LINK", Node::Folder, Refusal::Twice),
            ("a", link(), Refusal::Twice),
            ("A", link(), Refusal::Twice),
            ("a", Node::File, Refusal::Twice),
            ("top", Node::Folder, Refusal::Twice),
            ("top", Node::File, Refusal::Twice),
            ("", Node::File, Refusal::Length),
            ("", link(), Refusal::Length),
        ] {
            assert_eq!(tree.add(Path::new(path), node.clone()), Err(refusal), "{path} {node:?}");
        }
        tree.add(Path::new("a"), Node::Folder).unwrap();
        tree.add(Path::new("TOP"), Node::File).unwrap();
        let deep = "d/".repeat(MAX_DEPTH + 1);
        assert_eq!(tree.add(Path::new(&deep), Node::Folder), Err(Refusal::TooDeep(MAX_DEPTH)));
    }
}
