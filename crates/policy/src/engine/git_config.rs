//! Settings of a repository, as git reads them, and which of them start nothing.
//!
//! Reads one file; includes are not followed.

use std::iter::Peekable;
use std::str::Chars;

use crate::shell::is_tame_setting;

/// One setting.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Setting {
    /// In lower case.
    pub(super) section: String,
    pub(super) subsection: String,
    /// In lower case.
    pub(super) key: String,
    pub(super) value: String,
}

/// Settings that start nothing, besides those that users may set on a command line.
const CALM: &[&str] = &[
    "core.repositoryformatversion",
    "core.logallrefupdates",
    "core.precomposeunicode",
    "core.symlinks",
    "core.worktree",
    "core.sparsecheckout",
    "core.sparsecheckoutcone",
    "core.untrackedcache",
    "core.sharedrepository",
    "core.trustctime",
    "core.checkstat",
    "core.commentchar",
    "core.whitespace",
    "core.commitgraph",
    "core.multipackindex",
    "core.preloadindex",
    "core.fscache",
    "core.hidedotfiles",
    "index.version",
    "index.sparse",
    "rerere.autoupdate",
    "diff.colormoved",
    "diff.mnemonicprefix",
    "submodule.recurse",
    "submodule.active",
    "lfs.repositoryformatversion",
];
/// Last parts of settings of a remote, a submodule or an LFS server that start nothing.
const CALM_REMOTE: &[&str] = &[
    "url",
    "pushurl",
    "fetch",
    "push",
    "mirror",
    "tagopt",
    "prune",
    "prunetags",
    "skipdefaultupdate",
    "skipfetchall",
    "promisor",
    "partialclonefilter",
    "gh-resolved",
    "pushdefault",
];
const CALM_SUBMODULE: &[&str] = &["url", "active", "branch", "path", "ignore", "fetchrecursesubmodules"];
const CALM_EXTENSIONS: &[&str] = &[
    "worktreeconfig",
    "objectformat",
    "compatobjectformat",
    "partialclone",
    "refstorage",
    "noop",
    "preciousobjects",
    "relativeworktrees",
];

impl Setting {
    /// Section and key, without what is between them.
    pub(super) fn name(&self) -> String {
        format!("{}.{}", self.section, self.key)
    }

    /// Whether it is set to yes or to a number other than 0.
    pub(super) fn is_on(&self) -> bool {
        !matches!(self.value.to_ascii_lowercase().as_str(), "" | "false" | "no" | "off" | "0")
    }

    /// Whether git starts no program because of it, and reads no other settings.
    pub(super) fn is_calm(&self) -> bool {
        // Such a URL runs a program.
        if self.value.contains("::") {
            return false;
        }
        let key = self.key.as_str();
        match self.section.as_str() {
            "core" if key == "fsmonitor" => matches!(self.value.as_str(), "true" | "false" | ""),
            "remote" => CALM_REMOTE.contains(&key),
            "submodule" if !self.subsection.is_empty() => CALM_SUBMODULE.contains(&key),
            "lfs" if !self.subsection.is_empty() => matches!(key, "access" | "locksverify"),
            "extensions" => CALM_EXTENSIONS.contains(&key),
            "branch" => key != "mergeoptions",
            _ => {
                let name = self.name();
                CALM.contains(&name.as_str()) || is_tame_setting(&name, Some(&self.value))
            }
        }
    }

    /// Whether it names another file with settings.
    pub(super) fn includes(&self) -> bool {
        matches!(self.section.as_str(), "include" | "includeif")
    }

    /// The repository that it names, by a URL or a path.
    pub(super) fn address(&self) -> Option<&str> {
        let names = match self.section.as_str() {
            "remote" => matches!(self.key.as_str(), "url" | "pushurl" | "pushdefault"),
            "branch" => matches!(self.key.as_str(), "remote" | "pushremote"),
            "submodule" => self.key == "url",
            "url" => return Some(&self.subsection),
            _ => false,
        };
        names.then_some(self.value.as_str())
    }
}

/// The settings of a file; `None` if git may read it in another way.
pub(super) fn settings(text: &str) -> Option<Vec<Setting>> {
    let mut rest = text.strip_prefix('\u{feff}').unwrap_or(text).chars().peekable();
    let mut found = Vec::new();
    let (mut section, mut subsection) = (String::new(), String::new());
    while let Some(c) = rest.peek().copied() {
        match c {
            c if c.is_ascii_whitespace() => drop(rest.next()),
            '#' | ';' => drop(rest.find(|c| *c == '\n')),
            '[' => {
                rest.next();
                (section, subsection) = header(&mut rest)?;
            }
            c if c.is_ascii_alphabetic() && !section.is_empty() => {
                let key = word(&mut rest, |c| c.is_ascii_alphanumeric() || c == '-').to_ascii_lowercase();
                while rest.next_if(|c| matches!(c, ' ' | '\t')).is_some() {}
                let value = match rest.peek() {
                    Some('=') => {
                        rest.next();
                        value(&mut rest)?
                    }
                    None | Some('\n' | '\r' | '#' | ';') => "true".to_owned(),
                    Some(_) => return None,
                };
                found.push(Setting { section: section.clone(), subsection: subsection.clone(), key, value });
            }
            _ => return None,
        }
    }
    Some(found)
}

fn word(rest: &mut Peekable<Chars<'_>>, is_part: impl Fn(char) -> bool) -> String {
    std::iter::from_fn(|| rest.next_if(|c| is_part(*c))).collect()
}

/// `section]`, `section "subsection"]` or `section.subsection]`.
fn header(rest: &mut Peekable<Chars<'_>>) -> Option<(String, String)> {
    let name = word(rest, |c| c.is_ascii_alphanumeric() || matches!(c, '-' | '.')).to_ascii_lowercase();
    let (section, mut subsection) = match name.split_once('.') {
        Some((section, rest)) => (section.to_owned(), rest.to_owned()),
        None => (name, String::new()),
    };
    if rest.peek() == Some(&']') {
        rest.next();
        return Some((section, subsection));
    }
    while rest.next_if(|c| matches!(c, ' ' | '\t')).is_some() {}
    (rest.next()? == '"').then_some(())?;
    loop {
        match rest.next()? {
            '"' => break,
            '\\' => subsection.push(rest.next()?),
            '\n' => return None,
            c => subsection.push(c),
        }
    }
    (rest.next()? == ']').then_some((section, subsection))
}

/// What follows `=`, up to the end of the line.
fn value(rest: &mut Peekable<Chars<'_>>) -> Option<String> {
    let (mut text, mut quoted, mut kept) = (String::new(), false, 0);
    loop {
        match rest.next() {
            None | Some('\n') if quoted => return None,
            None | Some('\n') => break,
            Some('#' | ';') if !quoted => {
                rest.find(|c| *c == '\n');
                break;
            }
            Some('"') => {
                quoted = !quoted;
                kept = text.len();
            }
            Some('\\') => match rest.next()? {
                '\n' => {}
                '\r' if rest.peek() == Some(&'\n') => drop(rest.next()),
                escaped => {
                    text.push(match escaped {
                        'n' => '\n',
                        't' => '\t',
                        'b' => '\u{8}',
                        '\\' | '"' => escaped,
                        _ => return None,
                    });
                    kept = text.len();
                }
            },
            Some(c) if c.is_ascii_whitespace() && !quoted => {
                if !text.is_empty() {
                    text.push(c);
                }
            }
            Some(c) => {
                text.push(c);
                kept = text.len();
            }
        }
    }
    text.truncate(kept);
    Some(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn settings_are_read_as_git_reads_them() {
        let text = "# x\n[Core]\n\tBare = false ; y\n\tfsMonitor\n[remote \"a\\\"b\"] url = \"h \" t\\\n u \n[branch.x]\nremote=o\n";
        let found: Vec<String> = settings(text)
            .unwrap()
            .into_iter()
            .map(|one| format!("{}|{}|{}|{}", one.section, one.subsection, one.key, one.value))
            .collect();
        assert_eq!(
            found,
            ["core||bare|false", "core||fsmonitor|true", "remote|a\"b|url|h  t u", "branch|x|remote|o"]
        );
        for unclear in ["x = y\n", "[core\n", "[a \"b]\n", "[a]\nb c\n", "[a]\nb = \"c\n", "[a]\nb = \\q\n"] {
            assert_eq!(settings(unclear), None, "{unclear:?}");
        }
    }

    #[test]
    fn settings_that_start_programs_are_not_calm() {
        let is_calm = |text: &str| settings(text).unwrap().iter().all(Setting::is_calm);
        for calm in [
            "[core]\n\trepositoryformatversion = 0\n\tfilemode = true\n\tbare = false\n\tlogallrefupdates = true\n\tworktree = ../x\n",
            "[remote \"origin\"]\n\turl = https://h/x\n\tfetch = +refs/heads/*:refs/remotes/origin/*\n",
            "[branch \"main\"]\n\tremote = origin\n\tmerge = refs/heads/main\n",
            "[submodule \"x\"]\n\turl = https://h/x\n\tactive = true\n[user]\n\tname = x\n[core]\nfsmonitor = true\n",
        ] {
            assert!(is_calm(calm), "{calm}");
        }
        for started in [
            "[core]\n\tfsmonitor = t1\n",
            "[core]\n\tsshCommand = t1\n",
            "[core]\n\thooksPath = hooks\n",
            "[diff \"x\"]\n\ttextconv = t1\n",
            "[filter \"x\"]\n\tclean = t1\n",
            "[alias]\n\tst = !t1\n",
            "[include]\n\tpath = x\n",
            "[remote \"o\"]\n\turl = ext::t1\n",
            "[remote \"o\"]\n\tuploadpack = t1\n",
            "[submodule \"x\"]\n\tupdate = !t1\n",
            "[gpg]\n\tprogram = t1\n",
        ] {
            assert!(!is_calm(started), "{started}");
        }
    }
}
