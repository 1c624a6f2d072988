//! `@file` imports in context files.
//!
//! Bounded in depth and size, and limited to the project; failures are noted in the text as comments.

use std::collections::HashSet;
use std::fs::{self, File};
use std::io::Read;
use std::path::{Path, PathBuf};

use pollux_config::groups::ImportFormat;

/// Imports nested deeper than this stay as written; the number is upstream's.
const MAX_DEPTH: usize = 5;

/// An imported file longer than this is refused.
const MAX_IMPORT_BYTES: u64 = 1024 * 1024;

/// Limit of imports in one context file; the rest are left unchanged. Files that import each other repeatedly
/// would otherwise multiply with every level.
const MAX_IMPORTS: usize = 1_000;

/// Size limit of all imports of one context file.
const MAX_TOTAL_BYTES: u64 = 2 * 1024 * 1024;

/// Which files may be imported.
#[derive(Clone, Copy)]
pub struct Bounds<'a> {
    /// The folder that contains them.
    pub folder: &'a Path,
    /// Why a file in it is refused, by the path asked for and the real one.
    pub refuses: &'a dyn Fn(&Path, &Path) -> Option<&'static str>,
}

/// Replaces every `@path` in `text` by the file it names, as long as that file is within the bounds.
pub fn expand(text: &str, file: &Path, bounds: &Bounds<'_>, format: ImportFormat) -> String {
    let own = fs::canonicalize(file).unwrap_or_else(|_| file.to_path_buf());
    let mut importer = Importer {
        confine: fs::canonicalize(bounds.folder).unwrap_or_else(|_| bounds.folder.to_path_buf()),
        refuses: bounds.refuses,
        imports_left: MAX_IMPORTS,
        bytes_left: MAX_TOTAL_BYTES,
    };
    match format {
        ImportFormat::Tree => importer.tree(text, &own, &mut vec![own.clone()]),
        ImportFormat::Flat => importer.flat(text, &own),
    }
}

/// The remaining limits of one context file.
struct Importer<'a> {
    confine: PathBuf,
    refuses: &'a dyn Fn(&Path, &Path) -> Option<&'static str>,
    imports_left: usize,
    bytes_left: u64,
}

impl Importer<'_> {
    /// Inserts each import in place.
    fn tree(&mut self, text: &str, file: &Path, chain: &mut Vec<PathBuf>) -> String {
        if chain.len() > MAX_DEPTH {
            return text.to_owned();
        }
        let mut out = String::with_capacity(text.len());
        for piece in pieces(text) {
            match piece {
                Piece::Text(text) => out.push_str(text),
                Piece::Import(path) => match self.tree_import(path, file, chain) {
                    Some(imported) => out.push_str(&imported),
                    None => out.extend(["@", path]),
                },
            }
        }
        out
    }

    /// The replacement for an import; `None` if it is left unchanged.
    fn tree_import(&mut self, path: &str, file: &Path, chain: &mut Vec<PathBuf>) -> Option<String> {
        self.imports_left = self.imports_left.checked_sub(1)?;
        let target = match self.locate(path, file) {
            Ok(target) if chain.contains(&target) => {
                return Some(format!("<!-- File already processed: {path} -->"));
            }
            Ok(target) => target,
            Err(reason) => return Some(failed(path, &reason)),
        };
        let text = match self.read(&target) {
            Ok(text) => text,
            Err(reason) => return Some(failed(path, &reason)),
        };
        chain.push(target.clone());
        let inner = self.tree(&text, &target, chain);
        chain.pop();
        Some(format!("<!-- Imported from: {path} -->\n{}\n<!-- End of import from: {path} -->", inner.trim()))
    }

    /// Puts all imported files after the text, each once.
    fn flat(&mut self, text: &str, file: &Path) -> String {
        let mut done = HashSet::from([file.to_path_buf()]);
        let mut queue = vec![(file.to_path_buf(), text.to_owned(), 0)];
        let mut out = text.to_owned();
        while let Some((from, text, depth)) = queue.pop() {
            if depth >= MAX_DEPTH {
                continue;
            }
            for piece in pieces(&text) {
                let Piece::Import(path) = piece else { continue };
                let Some(left) = self.imports_left.checked_sub(1) else { return out };
                self.imports_left = left;
                let target = match self.locate(path, &from) {
                    Ok(target) if done.contains(&target) => continue,
                    Ok(target) => target,
                    Err(reason) => {
                        out.extend(["\n", &failed(path, &reason)]);
                        continue;
                    }
                };
                match self.read(&target) {
                    Err(reason) => out.extend(["\n", &failed(path, &reason)]),
                    Ok(inner) => {
                        out.push_str(&format!(
                            "\n\n--- File: {path} ---\n{}\n--- End of File: {path} ---",
                            inner.trim()
                        ));
                        queue.push((target.clone(), inner, depth + 1));
                    }
                }
                done.insert(target);
            }
        }
        out
    }

    /// The file of an import, links resolved.
    fn locate(&self, path: &str, from: &Path) -> Result<PathBuf, String> {
        let base = from.parent().unwrap_or(&self.confine);
        let asked = base.join(path);
        let target = fs::canonicalize(&asked).map_err(|error| error.to_string())?;
        if !target.starts_with(&self.confine) {
            return Err("outside the project".to_owned());
        }
        match (self.refuses)(&asked, &target) {
            Some(why) => Err(why.to_owned()),
            None => Ok(target),
        }
    }

    fn read(&mut self, target: &Path) -> Result<String, String> {
        let meta = fs::metadata(target).map_err(|error| error.to_string())?;
        if !meta.is_file() {
            return Err("not a regular file".to_owned());
        }
        if meta.len() > MAX_IMPORT_BYTES {
            return Err("larger than 1 MB".to_owned());
        }
        let Some(left) = self.bytes_left.checked_sub(meta.len()) else {
            return Err("more than 2 MB are already imported".to_owned());
        };
        self.bytes_left = left;
        let mut bytes = Vec::new();
        let file = File::open(target).map_err(|error| error.to_string())?;
        file.take(MAX_IMPORT_BYTES).read_to_end(&mut bytes).map_err(|error| error.to_string())?;
        Ok(String::from_utf8_lossy(&bytes).into_owned())
    }
}

fn failed(path: &str, reason: &str) -> String {
    format!("<!-- Import failed: {path} - {reason} -->")
}

enum Piece<'a> {
    Text(&'a str),
    Import(&'a str),
}

/// Splits a text at its imports, ignoring text in backticks.
fn pieces(text: &str) -> Vec<Piece<'_>> {
    let mut found = Vec::new();
    let mut rest = text;
    let mut code: Option<usize> = None;
    let mut at_start = true;
    let mut cursor = 0;
    let mut plain_from = 0;
    while let Some(c) = rest.chars().next() {
        let mut step = c.len_utf8();
        if c == '`' {
            step = rest.chars().take_while(|c| *c == '`').count();
            code = match code {
                None => Some(step),
                Some(open) if open == step => None,
                inside => inside,
            };
        } else if c == '\n' && rest.starts_with("\n\n") && code.is_some_and(|open| open < 3) {
            // A span of code ends with its paragraph: a stray backtick hides nothing further down.
            code = None;
        } else if c == '@' && at_start && code.is_none() {
            let path = import_path(rest.get(1..).unwrap_or_default());
            if let Some(path) = path {
                found.extend(text.get(plain_from..cursor).filter(|t| !t.is_empty()).map(Piece::Text));
                found.push(Piece::Import(path));
                step = 1 + path.len();
                plain_from = cursor + step;
            }
        }
        at_start = c.is_whitespace();
        cursor += step;
        rest = text.get(cursor..).unwrap_or_default();
    }
    found.extend(text.get(plain_from..).filter(|t| !t.is_empty()).map(Piece::Text));
    found
}

/// The path after an `@`, if it looks like one.
fn import_path(rest: &str) -> Option<&str> {
    let path = rest.split(char::is_whitespace).next().filter(|path| !path.is_empty())?;
    let first = path.chars().next()?;
    let looks_like_path = matches!(first, '.' | '/') || first.is_ascii_alphabetic();
    (looks_like_path && !path.contains("://")).then_some(path)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn scene(files: &[(&str, &str)]) -> tempfile::TempDir {
        let dir = tempfile::tempdir().unwrap();
        for (name, text) in files {
            let path = dir.path().join(name);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            #[expect(clippy::disallowed_methods, reason = "a fixture needs no atomic write")]
            fs::write(path, text).unwrap();
        }
        dir
    }

    fn expanded(dir: &tempfile::TempDir, text: &str, format: ImportFormat) -> String {
        let bounds = Bounds { folder: dir.path(), refuses: &|_, _| None };
        expand(text, &dir.path().join("GEMINI.md"), &bounds, format)
    }

    #[test]
    fn an_import_is_inserted_where_it_is_named() {
        let dir = scene(&[("a.md", "inner")]);
        assert_eq!(
            expanded(&dir, "x @./a.md y", ImportFormat::Tree),
            "x <!-- Imported from: ./a.md -->\ninner\n<!-- End of import from: ./a.md --> y"
        );
    }

    #[test]
    fn cycles_missing_files_and_escapes_are_reported_and_harmless() {
        let dir = scene(&[("a.md", "@b.md"), ("b.md", "@a.md")]);
        let text = expanded(&dir, "@a.md @gone.md @../../../etc/passwd", ImportFormat::Tree);
        assert!(text.contains("<!-- File already processed: a.md -->"), "{text}");
        assert!(text.contains("<!-- Import failed: gone.md"), "{text}");
        assert!(!text.contains("root:"), "{text}");
    }

    #[test]
    fn code_mail_addresses_and_handles_are_not_imports() {
        let dir = scene(&[("a.md", "inner")]);
        let text = "`@a.md` me@a.md ```\n@a.md\n``` https://x @1";
        assert_eq!(expanded(&dir, text, ImportFormat::Tree), text);
    }

    #[test]
    fn depth_is_limited() {
        let files: Vec<(String, String)> =
            (0..9).map(|n| (format!("n{n}.md"), format!("level{n} @n{}.md", n + 1))).collect();
        let borrowed: Vec<(&str, &str)> = files.iter().map(|(a, b)| (a.as_str(), b.as_str())).collect();
        let dir = scene(&borrowed);
        let text = expanded(&dir, "@n0.md", ImportFormat::Tree);
        assert!(text.contains("level4") && !text.contains("level6"), "{text}");
    }

    #[test]
    fn the_flat_form_lists_each_file_once() {
        let dir = scene(&[("a.md", "AA @b.md"), ("b.md", "BB @a.md")]);
        let text = expanded(&dir, "see @a.md and @b.md", ImportFormat::Flat);
        assert_eq!(text.matches("--- File: b.md ---").count(), 1, "{text}");
        assert_eq!(text.matches("AA").count(), 1, "{text}");
    }

    #[test]
    fn mutually_importing_files_stay_bounded() {
        let many = |name: &str| format!("@{name} ").repeat(2_000);
        let big = "x".repeat(500_000);
        let dir = scene(&[
            ("a.md", &many("b.md")),
            ("b.md", &many("c.md")),
            ("c.md", &many("d.md")),
            ("d.md", &big),
        ]);
        for format in [ImportFormat::Tree, ImportFormat::Flat] {
            let text = expanded(&dir, &many("a.md"), format);
            assert!(text.len() < 3 * 1024 * 1024, "{} bytes", text.len());
        }
        let text = expanded(&dir, "@d.md @d.md @d.md @d.md @d.md", ImportFormat::Tree);
        assert!(text.contains("<!-- Import failed: d.md - more than 2 MB are already imported -->"));
    }

    #[test]
    fn a_stray_backtick_hides_no_import_of_a_later_paragraph() {
        let dir = scene(&[("a.md", "inner")]);
        let text = expanded(&dir, "a ` alone @a.md\n\n@a.md", ImportFormat::Tree);
        assert_eq!(text.matches("inner").count(), 1, "{text}");
    }
}
