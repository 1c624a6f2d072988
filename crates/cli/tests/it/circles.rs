//! No more than three files of a crate use each other in a circle.
//!
//! A file uses another if it names something that the other defines; re-exports are followed to the definition. What
//! the files of a module take from the module itself is not counted.

use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::path::Path;

use crate::architecture::{code, crates, is_test_file, root, sources};

/// Files that may form a circle.
const MOST: usize = 3;

/// A grammar is recursive: commands contain words, which contain commands.
const RECURSIVE: &[(&str, &str)] = &[("policy", "shell/parser")];

/// A module as its path inside the crate.
type Module = Vec<String>;

/// The modules of a crate with their code.
fn modules(krate: &str) -> BTreeMap<Module, String> {
    let folder = root().join("crates").join(krate).join("src");
    let files = sources(&folder)
        .into_iter()
        .filter(|file| !is_test_file(file) && !file.starts_with(folder.join("bin")));
    let mut found: BTreeMap<Module, String> =
        files.map(|file| (module(file.strip_prefix(&folder).unwrap()), code(&file))).collect();
    let for_tests: Vec<Module> = found.iter().flat_map(|(module, text)| tests_only(module, text)).collect();
    found.retain(|module, _| !for_tests.iter().any(|tests| module.starts_with(tests)));
    found
}

fn module(file: &Path) -> Module {
    let mut parts: Module =
        file.with_extension("").iter().map(|part| part.to_string_lossy().into_owned()).collect();
    if parts.last().is_some_and(|last| last == "mod") || parts == ["lib"] || parts == ["main"] {
        parts.pop();
    }
    parts
}

/// Modules that are compiled only for tests.
fn tests_only(parent: &Module, text: &str) -> Vec<Module> {
    let declared = text.split("#[cfg(test)]").skip(1).filter_map(|after| {
        let line = after.trim_start().lines().next()?.trim_end_matches(';');
        let name =
            line.rsplit_once("mod ").filter(|(before, _)| before.is_empty() || before.starts_with("pub"))?.1;
        Some([parent.as_slice(), &[name.to_owned()]].concat())
    });
    declared.collect()
}

/// What a file names.
#[derive(Default)]
struct Names {
    /// Paths, as written.
    used: Vec<Vec<String>>,
    /// Re-exported names, and where they come from.
    passed_on: BTreeMap<String, Vec<String>>,
}

fn names(text: &str) -> Names {
    let mut names = Names::default();
    let mut rest = String::new();
    let mut statement: Option<(bool, String)> = None;
    for line in text.lines() {
        if let Some((_, tree)) = &mut statement {
            tree.push_str(line);
        } else if let Some((visible, tree)) = import(line) {
            statement = Some((visible, tree.to_owned()));
        } else {
            rest.push_str(line);
            rest.push('\n');
        }
        if let Some((visible, tree)) = statement.take_if(|(_, tree)| tree.trim_end().ends_with(';')) {
            for path in expand(tree.trim_end().trim_end_matches(';'), &[]) {
                match (visible, path.last()) {
                    (true, Some(last)) => drop(names.passed_on.insert(last.clone(), path)),
                    _ => names.used.push(path),
                }
            }
        }
    }
    let is_part = |letter: char| letter.is_alphanumeric() || letter == '_' || letter == ':';
    let paths = rest.split(|letter: char| !is_part(letter)).filter(|path| path.contains("::"));
    names.used.extend(paths.map(|path| path.split("::").map(str::to_owned).collect()));
    names
}

/// Whether a line begins an import, whether it is visible outside, and what follows.
fn import(line: &str) -> Option<(bool, &str)> {
    let line = line.trim_start();
    if let Some(tree) = line.strip_prefix("use ") {
        return Some((false, tree));
    }
    let (visibility, tree) = line.split_once("use ")?;
    let visibility = visibility.trim_end();
    (visibility == "pub" || visibility.starts_with("pub(") && visibility.ends_with(')'))
        .then_some((true, tree))
}

/// The paths of an import with braces.
fn expand(tree: &str, before: &[String]) -> Vec<Vec<String>> {
    let tree = tree.trim();
    let (path, inner) = match tree.split_once('{') {
        Some((path, inner)) => (path, Some(inner.trim_end().trim_end_matches('}'))),
        None => (tree.split(" as ").next().unwrap_or(tree), None),
    };
    let parts = path.split("::").map(str::trim).filter(|part| !part.is_empty()).map(str::to_owned);
    let path: Vec<String> = before.iter().cloned().chain(parts).collect();
    let Some(inner) = inner else { return if path.is_empty() { Vec::new() } else { vec![path] } };
    let (mut depth, mut start, mut found) = (0, 0, Vec::new());
    for (index, letter) in inner.char_indices().chain([(inner.len(), ',')]) {
        match letter {
            '{' => depth += 1,
            '}' => depth -= 1,
            ',' if depth == 0 => {
                found.extend(expand(inner.get(start..index).unwrap_or_default(), &path));
                start = index + 1;
            }
            _ => {}
        }
    }
    found
}

/// The file that defines what a path names.
fn defining(all: &BTreeMap<Module, Names>, here: &Module, path: &[String]) -> Option<Module> {
    let (mut at, mut path) = (here.clone(), path.to_vec());
    for _ in 0..8 {
        match path.first().map(String::as_str)? {
            "crate" => (at, path) = (Module::new(), path[1..].to_vec()),
            "self" => drop(path.remove(0)),
            "super" => {
                while path.first().is_some_and(|part| part == "super") {
                    at.pop();
                    path.remove(0);
                }
            }
            child if !all.contains_key(&[at.as_slice(), &[child.to_owned()]].concat()) => return None,
            _ => {}
        }
        while let Some(part) = path.first() {
            let child = [at.as_slice(), std::slice::from_ref(part)].concat();
            if !all.contains_key(&child) {
                break;
            }
            (at, path) = (child, path[1..].to_vec());
        }
        let Some(passed_on) = path.first().and_then(|name| all.get(&at)?.passed_on.get(name)) else { break };
        path = passed_on.iter().cloned().chain(path.into_iter().skip(1)).collect();
        if !matches!(path.first().map(String::as_str), Some("crate" | "self" | "super"))
            && !all.contains_key(&[at.as_slice(), &path[..1]].concat())
        {
            break;
        }
    }
    Some(at)
}

/// Which files each file uses.
fn edges(files: &BTreeMap<Module, String>) -> BTreeMap<Module, BTreeSet<Module>> {
    let all: BTreeMap<Module, Names> =
        files.iter().map(|(module, text)| (module.clone(), names(text))).collect();
    let uses = |module: &Module, names: &Names| {
        let found = names.used.iter().filter_map(|path| defining(&all, module, path));
        found.filter(|other| !module.starts_with(other)).collect()
    };
    all.iter().map(|(module, names)| (module.clone(), uses(module, names))).collect()
}

fn reached(edges: &BTreeMap<Module, BTreeSet<Module>>, from: &Module) -> HashSet<Module> {
    let (mut found, mut waiting) = (HashSet::new(), vec![from]);
    while let Some(module) = waiting.pop() {
        for next in edges.get(module).into_iter().flatten() {
            if found.insert(next.clone()) {
                waiting.push(next);
            }
        }
    }
    found
}

/// Circles of more than so many files.
fn circles(edges: &BTreeMap<Module, BTreeSet<Module>>, most: usize) -> BTreeSet<Vec<String>> {
    let reach: BTreeMap<&Module, HashSet<Module>> =
        edges.keys().map(|module| (module, reached(edges, module))).collect();
    let circle = |module: &Module| -> Vec<String> {
        let others =
            reach[module].iter().filter(|other| reach.get(other).is_some_and(|reach| reach.contains(module)));
        let mut names: Vec<String> = others.map(|other| other.join("/")).collect();
        names.sort();
        names
    };
    edges.keys().map(circle).filter(|circle| circle.len() > most).collect()
}

#[test]
fn no_more_than_three_files_use_each_other_in_a_circle() {
    let mut found = Vec::new();
    for krate in crates() {
        for circle in circles(&edges(&modules(&krate)), MOST) {
            if !RECURSIVE.iter().any(|(of, file)| *of == krate && circle.iter().any(|other| other == file)) {
                found.push(format!("{krate}: {}", circle.join(", ")));
            }
        }
    }
    assert!(found.is_empty(), "move what these files share into a file of its own:\n{}", found.join("\n"));
}

#[test]
fn circles_are_seen_through_imports_paths_and_re_exports() {
    let files = [
        ("", "mod a;\nmod b;\nmod c;\n"),
        ("a", "pub(crate) mod part;\npub(crate) use part::Part;\nuse crate::b::{self, One as Other};\n"),
        ("a/part", "use super::Own;\nuse super::super::c::{\n    Deep,\n    inner::{X, Y},\n};\n"),
        ("b", "fn run() { crate::c::call(); std::mem::drop(1) }\n"),
        ("c", "use super::a::Part;\n"),
    ];
    let path =
        |text: &str| text.split('/').filter(|part| !part.is_empty()).map(str::to_owned).collect::<Module>();
    let files: BTreeMap<Module, String> =
        files.iter().map(|(name, text)| (path(name), (*text).to_owned())).collect();
    let edges = edges(&files);
    let used = |name: &str| edges[&path(name)].iter().map(|module| module.join("/")).collect::<Vec<_>>();
    assert_eq!(used("a"), ["b"], "a re-export alone is no use");
    assert_eq!(used("a/part"), ["c"], "what a module defines for its parts is not counted");
    assert_eq!(used("b"), ["c"]);
    assert_eq!(used("c"), ["a/part"], "a re-export leads to the definition");
    assert_eq!(circles(&edges, 1), [vec!["a/part".to_owned(), "c".to_owned()]].into());
    assert_eq!(circles(&edges, 2), BTreeSet::new());
}
