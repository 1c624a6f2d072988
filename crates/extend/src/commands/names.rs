//! Maps slash-command names to commands.
//!
//! A unique name is used as it is. Where several commands share a name, each is also available with a prefix
//! that names its origin, and the bare name means the first of: the project's, the user's, an extension's, a
//! skill, a server's prompt. Built-in commands always keep their names.

use std::collections::BTreeMap;

use super::Origin;

/// A command as far as its name depends on it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Candidate {
    pub name: String,
    pub origin: Origin,
}

/// Every name, with the index of its command among the candidates.
#[derive(Debug, Clone, Default)]
pub struct Names {
    meaning: BTreeMap<String, usize>,
    /// The name of each candidate in lists: the shortest name that is unique.
    shown: Vec<String>,
    /// For each candidate, whether another one or a built-in command has its plain name too.
    contested: Vec<bool>,
}

impl Names {
    /// Assigns names to all candidates.
    pub fn resolve(candidates: &[Candidate], is_built_in: impl Fn(&str) -> bool) -> Self {
        let mut names = Self::default();
        let mut claims: BTreeMap<&str, Vec<usize>> = BTreeMap::new();
        for (at, candidate) in candidates.iter().enumerate() {
            claims.entry(&candidate.name).or_default().push(at);
        }
        for (name, claimants) in &claims {
            let first = claimants
                .iter()
                .filter(|at| takes_plain(candidates, **at))
                .min_by_key(|at| rank(candidates, **at));
            if let Some(first) = first.filter(|_| !is_built_in(name)) {
                names.meaning.insert((*name).to_owned(), *first);
            }
        }
        for (at, candidate) in candidates.iter().enumerate() {
            let contested = is_built_in(&candidate.name)
                || claims.get(candidate.name.as_str()).is_some_and(|all| all.len() > 1);
            let prefixed = names.prefix(at, candidate, contested, &is_built_in);
            let plain = names.meaning.get(&candidate.name) == Some(&at);
            names.shown.push(if plain { candidate.name.clone() } else { prefixed });
            names.contested.push(contested);
        }
        names
    }

    /// Adds the names that include the command's origin.
    fn prefix(
        &mut self,
        at: usize,
        candidate: &Candidate,
        contested: bool,
        is_built_in: impl Fn(&str) -> bool,
    ) -> String {
        let (prefix, separator) = prefix(&candidate.origin);
        let Some(prefix) = prefix else { return candidate.name.clone() };
        let base = format!("{prefix}{separator}{}", candidate.name);
        let mut name = base.clone();
        let mut number = 1;
        while self.meaning.contains_key(&name) || is_built_in(&name) {
            // A command with a unique name needs no second one.
            if !contested && takes_alone(&candidate.origin) {
                return candidate.name.clone();
            }
            name = format!("{base}{number}");
            number += 1;
        }
        self.meaning.insert(name.clone(), at);
        if let Origin::Extension(extension) = &candidate.origin {
            // As older releases wrote it.
            let older = format!("{extension}.{}", candidate.name);
            if !is_built_in(&older) {
                self.meaning.entry(older).or_insert(at);
            }
        }
        name
    }

    /// The candidate for a name without its slash.
    pub fn find(&self, word: &str) -> Option<usize> {
        self.meaning.get(word).copied()
    }

    /// The name of a candidate in lists.
    pub fn shown(&self, at: usize) -> &str {
        self.shown.get(at).map_or("", String::as_str)
    }

    /// The second name of a candidate whose name is not unique.
    pub fn full(&self, at: usize) -> Option<&str> {
        if !self.contested.get(at).copied().unwrap_or_default() {
            return None;
        }
        let plain = self.shown(at);
        self.meaning.iter().find(|(name, to)| **to == at && *name != plain).map(|(name, _)| name.as_str())
    }
}

fn rank(candidates: &[Candidate], at: usize) -> (u8, usize) {
    let rank = match candidates.get(at).map(|candidate| &candidate.origin) {
        Some(Origin::Project) => 0,
        Some(Origin::User) => 1,
        Some(Origin::Extension(_)) => 2,
        Some(Origin::Skill(_)) => 3,
        Some(Origin::Server(_)) | None => 4,
    };
    (rank, at)
}

/// A skill of an extension is always called with the extension's name.
fn takes_plain(candidates: &[Candidate], at: usize) -> bool {
    candidates.get(at).is_some_and(|candidate| takes_alone(&candidate.origin))
}

fn takes_alone(origin: &Origin) -> bool {
    !matches!(origin, Origin::Skill(Some(_)))
}

fn prefix(origin: &Origin) -> (Option<&str>, &'static str) {
    match origin {
        Origin::Project => (Some("workspace"), "."),
        Origin::User => (Some("user"), "."),
        Origin::Extension(name) | Origin::Skill(Some(name)) => (Some(name), ":"),
        Origin::Skill(None) => (None, ""),
        Origin::Server(name) => (Some(name), "."),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(candidates: &[(&str, Origin)]) -> Names {
        let candidates: Vec<Candidate> = candidates
            .iter()
            .map(|(name, origin)| Candidate { name: (*name).into(), origin: origin.clone() })
            .collect();
        Names::resolve(&candidates, |name| name == "help")
    }

    fn extension(name: &str) -> Origin {
        Origin::Extension(name.into())
    }

    #[test]
    fn a_unique_name_is_used_unprefixed() {
        let names = names(&[("fix", Origin::User), ("git:fix", extension("gcp"))]);
        assert_eq!((names.find("fix"), names.find("git:fix"), names.find("nope")), (Some(0), Some(1), None));
        assert_eq!((names.shown(0), names.full(0)), ("fix", None));
        assert_eq!(names.find("gcp:git:fix"), Some(1));
    }

    #[test]
    fn commands_with_the_same_name_get_prefixes_and_the_projects_keeps_it() {
        let all = [
            ("dup", Origin::User),
            ("dup", Origin::Project),
            ("dup", extension("gcp")),
            ("dup", Origin::Server("srv".into())),
        ];
        let names = names(&all);
        for (word, at) in [
            ("dup", 1),
            ("user.dup", 0),
            ("workspace.dup", 1),
            ("gcp:dup", 2),
            ("gcp.dup", 2),
            ("srv.dup", 3),
        ] {
            assert_eq!(names.find(word), Some(at), "{word}");
        }
        let shown: Vec<&str> = (0..4).map(|at| names.shown(at)).collect();
        assert_eq!(shown, ["user.dup", "dup", "gcp:dup", "srv.dup"]);
        assert_eq!(names.full(1), Some("workspace.dup"));
        let without_project = self::names(&[("dup", extension("gcp")), ("dup", Origin::User)]);
        assert_eq!(without_project.find("dup"), Some(1));
    }

    #[test]
    fn built_in_commands_keep_their_names() {
        let names = names(&[("help", Origin::Project), ("help", Origin::Skill(None))]);
        assert_eq!(names.find("help"), None);
        assert_eq!(names.find("workspace.help"), Some(0));
        assert_eq!(names.shown(0), "workspace.help");
    }

    #[test]
    fn a_prefixed_name_that_is_taken_gets_a_number() {
        let names = names(&[("dup", Origin::User), ("dup", Origin::Project), ("user.dup", Origin::User)]);
        assert_eq!((names.find("user.dup"), names.find("user.dup1")), (Some(2), Some(0)));
        assert_eq!(names.shown(0), "user.dup1");
    }

    #[test]
    fn a_skill_of_an_extension_is_always_called_with_its_name() {
        let names = names(&[("triage", Origin::Skill(Some("ops".into()))), ("plan", Origin::Skill(None))]);
        assert_eq!(
            (names.find("triage"), names.find("ops:triage"), names.find("plan")),
            (None, Some(0), Some(1))
        );
        assert_eq!(names.shown(0), "ops:triage");
    }
}
