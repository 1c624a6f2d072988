//! `@file` imports inside context files.

use std::collections::HashSet;
use std::fs;
use std::path::{Path, PathBuf};

use pollux_config::groups::ImportFormat;

/// Imports nested deeper than this stay as written; the number is upstream's.
const MAX_DEPTH: usize = 5;

/// An imported file longer than this is refused.
const MAX_IMPORT_BYTES: u64 = 1024 * 1024;

/// Replaces every `@path` in `text` by the file it names, as long as that file is below `confine`.
pub fn expand(text: &str, file: &Path, confine: &Path, format: ImportFormat) -> String {
    let confine = fs::canonicalize(confine).unwrap_or_else(|_| confine.to_path_buf());
    let own = fs::canonicalize(file).unwrap_or_else(|_| file.to_path_buf());
    match format {
        ImportFormat::Tree => tree(text, &own, &confine, &mut vec![own.clone()]),
        ImportFormat::Flat => flat(text, &own, &confine),
    }
}

/// Puts each import where it stands.
fn tree(text: &str, file: &Path, confine: &Path, chain: &mut Vec<PathBuf>) -> String {
    if chain.len() > MAX_DEPTH {
        return text.to_owned();
    }
    let mut out = String::with_capacity(text.len());
    for piece in pieces(text) {
        match piece {
            Piece::Text(text) => out.push_str(text),
            Piece::Import(path) => out.push_str(&tree_import(path, file, confine, chain)),
        }
    }
    out
}

fn tree_import(path: &str, file: &Path, confine: &Path, chain: &mut Vec<PathBuf>) -> String {
    match read(path, file, confine) {
        Err(reason) => format!("<!-- Import failed: {path} - {reason} -->"),
        Ok((target, _)) if chain.contains(&target) => format!("<!-- File already processed: {path} -->"),
        Ok((target, text)) => {
            chain.push(target.clone());
            let inner = tree(&text, &target, confine, chain);
            chain.pop();
            format!("<!-- Imported from: {path} -->\n{}\n<!-- End of import from: {path} -->", inner.trim())
        }
    }
}

/// Puts all imported files after the text, each once.
fn flat(text: &str, file: &Path, confine: &Path) -> String {
    let mut done = HashSet::from([file.to_path_buf()]);
    let mut queue = vec![(file.to_path_buf(), text.to_owned(), 0)];
    let mut out = text.to_owned();
    while let Some((from, text, depth)) = queue.pop() {
        if depth >= MAX_DEPTH {
            continue;
        }
        for piece in pieces(&text) {
            let Piece::Import(path) = piece else { continue };
            match read(path, &from, confine) {
                Err(reason) => out.push_str(&format!("\n<!-- Import failed: {path} - {reason} -->")),
                Ok((target, inner)) if done.insert(target.clone()) => {
                    out.push_str(&format!(
                        "\n\n--- File: {path} ---\n{}\n--- End of File: {path} ---",
                        inner.trim()
                    ));
                    queue.push((target, inner, depth + 1));
                }
                Ok(_) => {}
            }
        }
    }
    out
}

fn read(path: &str, from: &Path, confine: &Path) -> Result<(PathBuf, String), String> {
    let base = from.parent().unwrap_or(confine);
    let target = fs::canonicalize(base.join(path)).map_err(|error| error.to_string())?;
    if !target.starts_with(confine) {
        return Err("outside the project".to_owned());
    }
    let meta = fs::metadata(&target).map_err(|error| error.to_string())?;
    if !meta.is_file() {
        return Err("not a regular file".to_owned());
    }
    if meta.len() > MAX_IMPORT_BYTES {
        return Err("larger than 1 MB".to_owned());
    }
    let bytes = fs::read(&target).map_err(|error| error.to_string())?;
    Ok((target, String::from_utf8_lossy(&bytes).into_owned()))
}

enum Piece<'a> {
    Text(&'a str),
    Import(&'a str),
}

/// Splits a text at its imports; what stands in backticks is left alone.
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
        expand(text, &dir.path().join("GEMINI.md"), dir.path(), format)
    }

    #[test]
    fn an_import_stands_where_it_was_named() {
        let dir = scene(&[("a.md", "inner")]);
        assert_eq!(
            expanded(&dir, "x @./a.md y", ImportFormat::Tree),
            "x <!-- Imported from: ./a.md -->\ninner\n<!-- End of import from: ./a.md --> y"
        );
    }

    #[test]
    fn cycles_missing_files_and_escapes_are_named_and_harmless() {
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
}
