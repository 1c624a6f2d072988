//! Lists of git that name files behind links: it lists what it tracks, also below a folder that was replaced by a link, and
//! what an earlier commit had there.

use std::collections::BTreeSet;
use std::ops::ControlFlow;
use std::path::Path;

use super::Engine;
use super::git_repository::Repository;
use super::git_shows::MAX_INDEX;
use super::working_dirs::WorkingDirs;
use crate::checker::place;
use crate::disk::{Disk, EntryKind};
use crate::git_index::each_path;
use crate::secrets::secret_part;
use crate::shell::{self, ANY_FOLDERS, CommandAnalysis};

impl Engine {
    /// Why the names that git lists may not be used by other commands of the line.
    pub(super) fn lists_behind_links(
        &self,
        understood: &CommandAnalysis,
        places: &WorkingDirs,
    ) -> Option<String> {
        let lists = |name: &str| understood.parts.iter().any(|part| shell::git_runs(part, name));
        let compares = lists("diff");
        let mut words = understood.parts.iter().flat_map(|part| &part.patterns).map(|pattern| &pattern.text);
        let mut files = understood.redirections.iter().filter_map(|found| found.target.as_ref());
        let is_list = |text: &String| text.contains(ANY_FOLDERS);
        if !compares && !lists("ls-files") || !words.any(is_list) && !files.any(is_list) {
            return None;
        }
        let disk = self.options.disk.as_deref()?;
        places.all.iter().find_map(|from| {
            let folder = place(from, "", self.options.resolve.as_ref());
            let found = Repository::candidates(disk, &folder);
            found.iter().find_map(|repository| self.tracked_behind_link(disk, repository, compares))
        })
    }

    fn tracked_behind_link(
        &self,
        disk: &dyn Disk,
        repository: &Repository,
        compares: bool,
    ) -> Option<String> {
        let index = repository.git.join("index");
        disk.kind(&index)?;
        let mut seen = BTreeSet::new();
        let mut link = None;
        let read = disk.bytes(&index, MAX_INDEX).and_then(|bytes| {
            each_path(&bytes, |path, kind| {
                let path = String::from_utf8_lossy(path);
                let path = Path::new(&*path);
                let mut folders = path.ancestors().skip(1).filter(|folder| !folder.as_os_str().is_empty());
                let replaced = folders
                    .find(|folder| {
                        seen.insert(folder.to_path_buf())
                            && disk.kind(&repository.top.join(folder)) == Some(EntryKind::Link)
                    })
                    .or_else(|| {
                        let leads = compares && kind == EntryKind::Link;
                        (leads && self.leads_astray(disk, &repository.top.join(path))).then_some(path)
                    });
                link = replaced.map(Path::to_owned);
                if link.is_some() { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
            })
        });
        match (link, read) {
            (Some(link), _) => Some(format!("git may list files behind the link `{}`", link.display())),
            (None, None) => Some("the files that git tracks cannot be determined".to_owned()),
            (None, Some(())) => None,
        }
    }

    /// Whether a link leads to a folder that is outside the workspace or private.
    fn leads_astray(&self, disk: &dyn Disk, link: &Path) -> bool {
        let real = place(link, "", self.options.resolve.as_ref());
        let is_private = || {
            let mut roots = self.options.workspaces.iter();
            roots.find_map(|root| real.strip_prefix(root).ok()).and_then(secret_part).is_some()
        };
        disk.kind(&real) == Some(EntryKind::Folder) && (!self.inside(&real, "") || is_private())
    }
}
