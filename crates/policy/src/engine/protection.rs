//! Rules for files that influence later runs (build files, hooks, plans): they need approval even where edits
//! are allowed.

use std::path::Path;

use pollux_domain::approval::ApprovalMode;
use pollux_domain::tool::Effect;
use serde_json::Value;

use super::{Engine, Plans, PolicyCall, named, tighten};
use crate::checker::place;
use crate::pattern::PatternMatch;
use crate::plan_file::WRITERS;
use crate::request::{Decision, RuleSource, Verdict};
use crate::rule::{Condition, Rule};

/// The message to the model when it tries to change another file; the same text as in `plan.toml`.
const NOT_A_PLAN: &str = "You are in Plan Mode and cannot modify source code. You may ONLY use write_file or replace to save plans to the designated plans directory as .md files.";

/// Words in the name of a tool that edits files.
const EDITING: &[&str] = &["write", "edit", "replace", "patch", "update", "create", "append", "save"];

/// Arguments that name the file to edit.
const FILE_KEYS: &[&str] = &["file_path", "path", "filePath", "file"];

impl Engine {
    /// An allowed edit of a protected file needs approval, unless the rule that allows it names the file.
    pub(super) fn protect(&self, call: &PolicyCall<'_>, verdict: &mut Verdict) {
        if verdict.decision != Decision::Allow || call.name.is_shell() {
            return;
        }
        let root = self.options.workspaces.first().map_or(Path::new("/"), std::path::PathBuf::as_path);
        let Some(path) = edited_file(call) else {
            return;
        };
        if self.allowed_by_name(call) {
            return;
        }
        if let Some(source) = self.protected(call, root, &path) {
            let source = source.clone();
            let reason = format!("`{path}` is protected by {}", named(&source));
            tighten(verdict, Decision::Ask, Some(&source), reason);
        }
    }

    /// In plan mode the shipped rules match the path as written by the model; this checks the real path.
    pub(super) fn keep_to_plan_files(&self, call: &PolicyCall<'_>, verdict: &mut Verdict) {
        let Effect::Edit(path) = call.request.effect else {
            return;
        };
        if call.request.mode != ApprovalMode::Plan || !WRITERS.contains(&call.name.canonical()) {
            return;
        }
        let path = place(path, "", self.options.resolve.as_ref());
        let folder = path.parent().unwrap_or(&path);
        let is_plan = path.extension().is_some_and(|end| end == "md")
            && self.options.plans.holds(folder, self.options.resolve.as_ref());
        match verdict.decision {
            Decision::Allow if !is_plan => {
                let reason = format!("`{}` is not a plan file", path.display());
                tighten(verdict, Decision::Deny, None, reason);
                verdict.deny_message = Some(NOT_A_PLAN.to_owned());
            }
            Decision::Deny if is_plan && matches!(self.options.plans, Plans::In(_)) => {
                verdict.decision = Decision::Allow;
                verdict.rule = None;
                verdict.deny_message = None;
                verdict.reason = format!("`{}` is a plan file", path.display());
            }
            _ => {}
        }
    }

    /// The rule that protects a file in this mode.
    pub(super) fn protected(
        &self,
        call: &PolicyCall<'_>,
        directory: &Path,
        text: &str,
    ) -> Option<&RuleSource> {
        if !self.options.protect_build_files {
            return None;
        }
        let spelt = place(directory, text, None);
        let real = place(directory, text, self.options.resolve.as_ref());
        let matches = |rule: &&Rule| {
            let Condition::Path(pattern) = &rule.condition else {
                return false;
            };
            self.applies(rule, call)
                && [&spelt, &real].iter().any(|path| {
                    !is_output(path, rule) && pattern.find(&self.relative(path)) != PatternMatch::No
                })
        };
        self.protections.iter().find(matches).map(|rule| &rule.source)
    }

    /// The path relative to its workspace, so that the location of the workspace does not matter.
    fn relative(&self, path: &Path) -> String {
        let roots = self.options.workspaces.iter();
        let inside =
            roots.filter_map(|root| path.strip_prefix(root).ok()).min_by_key(|rest| rest.as_os_str().len());
        inside.unwrap_or(path).to_string_lossy().replace('\\', "/")
    }

    fn allowed_by_name(&self, call: &PolicyCall<'_>) -> bool {
        self.first(call, None, self.candidates(call)).rule.is_some_and(|rule| !rule.condition.is_always())
    }
}

/// `BUILD` is a build file; `build` is where builds put their results.
fn is_output(path: &Path, rule: &Rule) -> bool {
    rule.source.label == "build files" && path.file_name().is_some_and(|name| name == "build")
}

fn edited_file(call: &PolicyCall<'_>) -> Option<String> {
    if let Effect::Edit(path) = call.request.effect {
        return Some(path.to_string_lossy().into_owned());
    }
    let name = call.request.tool.to_ascii_lowercase();
    if !EDITING.iter().any(|word| name.contains(word)) {
        return None;
    }
    FILE_KEYS.iter().find_map(|key| call.request.args.get(*key).and_then(Value::as_str)).map(str::to_owned)
}
