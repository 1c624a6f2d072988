//! From what was typed to what the model gets: `@path` brings the file along.

use std::path::Path;
use std::sync::Arc;

use pollux_config::groups::FileFiltering;
use pollux_domain::content::Part;
use pollux_domain::exit::ExitKind;
use pollux_tools::{ReadManyRequest, Workspace, read_many};
use tokio_util::sync::CancellationToken;

use crate::mentions::{self, Mention};
use crate::report::Failure;

/// The parts of a prompt. A word that names no file of the workspace stays a word.
pub(super) fn expand(
    typed: &str,
    workspace: &Arc<Workspace>,
    filtering: &FileFiltering,
    cancel: &CancellationToken,
) -> Result<Vec<Part>, Failure> {
    let mentions: Vec<(Mention, String)> = mentions::find(typed)
        .into_iter()
        .filter_map(|mention| pattern(&mention, workspace).map(|pattern| (mention, pattern)))
        .collect();
    let mut parts = Vec::new();
    let mut query = typed.to_owned();
    for (mention, pattern) in &mentions {
        query = query.replace(&mention.written, &format!("@{pattern}"));
        let request = ReadManyRequest { include: vec![pattern.clone()], ..ReadManyRequest::default() };
        let read = read_many(workspace, filtering, &request, cancel).map_err(|error| {
            let what = format!("could not read `{}`, named in the prompt", mention.path);
            Failure::new(ExitKind::Input, what).because(&error)
        })?;
        if !read.files.is_empty() {
            parts.push(Part::text(format!("\nContent from @{pattern}:\n")));
            parts.extend(read.parts);
        }
    }
    if parts.is_empty() {
        return Ok(vec![Part::text(typed)]);
    }
    let mut all = vec![Part::text(query), Part::text("\n--- Content from referenced files ---")];
    all.extend(parts);
    all.push(Part::text("\n--- End of content ---"));
    Ok(all)
}

/// The pattern that reads what a mention names; `None` if there is no such file or folder.
fn pattern(mention: &Mention, workspace: &Workspace) -> Option<String> {
    let found = workspace.directories().iter().map(|root| root.join(&mention.path)).find(|path| path.exists())?;
    if found.is_dir() {
        let folder = Path::new(&mention.path);
        return Some(folder.join("**").display().to_string());
    }
    Some(mention.path.clone())
}
