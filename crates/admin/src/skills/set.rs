//! The skills behind `pollux skills`.

use std::cell::OnceCell;
use std::path::{Path, PathBuf};
use std::time::Duration;

use pollux_config::env::Env;
use pollux_config::paths::same_place;
use pollux_config::settings::{self, EditError, read_object};
use pollux_config::trust;
use pollux_domain::exit::ExitKind;
use pollux_domain::failure::Failure;
use pollux_domain::time::{Clock, SystemClock};
use pollux_exec::background::Background;
use pollux_extend::skills::{Skills, Warning, validate};
use pollux_host::prompter::Prompter;
use pollux_host::request::Request;
use pollux_host::skills::{self, off};
use pollux_host::{Loaded, cannot_start, helpers, load_settings};
use pollux_install::Limits;
use pollux_install::fetch::Git;
use pollux_install::skill::{self, InstallMethod, InstalledSkill, Obtained, SkillError, SkillRequest};
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;

use super::consent::{agrees, say};
use super::{Checked, SkillRow, SkillScope, SkillSource, unknown};

const SWITCHED_OFF_BY_ADMIN: &str =
    "Agent skills are disabled by administrator. Check admin settings or contact your admin.";

/// For each command of git.
const PATIENCE: Duration = Duration::from_secs(300);

/// The skills for `pollux skills`.
pub fn skill_set(options: &Request, env: &Env) -> Result<SkillSet, Failure> {
    let loaded = load_settings(options, env)?;
    if matches!(loaded.settings.get("admin.skills.enabled"), Some((Value::Bool(false), _))) {
        return Err(Failure::new(ExitKind::Config, SWITCHED_OFF_BY_ADMIN));
    }
    let mut notes = loaded.notes.clone();
    if !skills::are_on(&loaded) {
        notes.push("Skills are disabled (`skills.enabled`).".to_owned());
    }
    Ok(SkillSet { loaded, notes, found: OnceCell::new() })
}

/// The skills of a run, discovered on first use.
pub struct SkillSet {
    loaded: Loaded,
    notes: Vec<String>,
    /// Looked for at the first question.
    found: OnceCell<Skills>,
}

impl SkillSet {
    /// Lines about what was found on the way to them, for stderr.
    pub fn notes(&self) -> &[String] {
        &self.notes
    }

    /// All of them by name, and lines about what is wrong with some.
    pub fn look(&self) -> (Vec<SkillRow>, Vec<String>) {
        let found = self.found();
        let mut lines: Vec<String> = found.warnings.iter().map(ToString::to_string).collect();
        let folder = skills::folder(&self.loaded, true);
        if !self.loaded.trust.uses_project() && has_entries(&folder) && !self.at_home() {
            lines.push(format!(
                "Skills in `{}` are not used: this folder is not trusted (see `pollux trust show`).",
                folder.display()
            ));
        }
        (found.all.iter().map(skills::row).collect(), lines)
    }

    /// The instructions of one.
    pub fn body(&self, name: &str) -> Result<Option<(SkillRow, String)>, Failure> {
        let Some(skill) = self.found().get(name) else { return Ok(None) };
        let body = skill.body().map_err(|error| Failure::from_error(ExitKind::Failure, &error))?;
        Ok(Some((skills::row(skill), body)))
    }

    /// Refuses a name that neither a skill has nor a list of disabled skills.
    pub fn known_or_listed(&self, name: &str) -> Result<(), Failure> {
        if self.found().get(name).is_some() {
            return Ok(());
        }
        for scope in self.scopes() {
            if listed(&self.file(scope))?.iter().any(|known| is(known, name)) {
                return Ok(());
            }
        }
        Err(unknown(name, &self.look().0))
    }

    /// The scope nearest to this folder whose settings are used.
    pub fn heard_scope(&self) -> SkillScope {
        match self.unheard(SkillScope::Workspace) {
            Some(_) => SkillScope::User,
            None => SkillScope::Workspace,
        }
    }

    /// Switches a skill on everywhere, or off in one scope; says what was done.
    pub fn enable(&mut self, name: &str) -> Result<String, Failure> {
        let (mut changed, mut others) = (Vec::new(), Vec::new());
        for scope in self.scopes() {
            let file = self.file(scope);
            let shown = format!("{} ({})", scope.word(), file.display());
            if write_list(&file, name, true)? { changed.push(shown) } else { others.push(shown) }
        }
        if changed.is_empty() {
            return Ok(format!("Skill \"{name}\" is already enabled.\n"));
        }
        self.agreed()?;
        changed.extend(others);
        let places = changed.join(" and ");
        Ok(format!("Skill \"{name}\" enabled by removing it from the disabled list in {places} settings.\n"))
    }

    pub fn disable(&mut self, name: &str, scope: SkillScope) -> Result<String, Failure> {
        let scope = if self.at_home() { SkillScope::User } else { scope };
        let file = self.file(scope);
        if !write_list(&file, name, false)? {
            return Ok(format!("Skill \"{name}\" is already disabled.\n"));
        }
        self.agreed()?;
        let shown = |scope: SkillScope| format!("{} ({})", scope.word(), self.file(scope).display());
        let also = self.scopes().into_iter().find(|other| *other != scope);
        match also {
            Some(other) if listed(&self.file(other))?.iter().any(|known| is(known, name)) => Ok(format!(
                "Skill \"{name}\" is now disabled in both {} and {} settings.\n",
                shown(scope),
                shown(other)
            )),
            _ => Ok(format!(
                "Skill \"{name}\" disabled by adding it to the disabled list in {} settings.\n",
                shown(scope)
            )),
        }
    }

    /// Why what is changed in a scope has no effect yet.
    pub fn unheard(&self, scope: SkillScope) -> Option<String> {
        let heard = scope == SkillScope::User || self.loaded.trust.uses_project() || self.at_home();
        let text =
            "This folder is not trusted, so its skill settings are not used yet: see `pollux trust show`.";
        (!heard).then(|| text.to_owned())
    }

    pub fn install(&mut self, source: &SkillSource, prompter: &mut Prompter<'_>) -> Result<String, Failure> {
        let loaded = &self.loaded;
        let background = Background::guarded(loaded.home.tmp_dir().join("background-processes"));
        let git = Git {
            program: helpers::git(&loaded.env),
            environment: helpers::with_safe_path(loaded.command_env(), &loaded.env),
            background: &background,
            token: loaded.env.non_empty("GITHUB_TOKEN").map(str::to_owned),
            time_limit: PATIENCE,
        };
        let request = SkillRequest {
            source: &source.source,
            cwd: loaded.env.cwd(),
            path: source.path.as_deref(),
            git: &git,
            limits: Limits::default(),
        };
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
        let runtime = runtime.map_err(|error| cannot_start(&error))?;
        let cancel = CancellationToken::new();
        let found = runtime
            .block_on(skill::obtain(&request, &mut |line: &str| say(prompter, line), &cancel))
            .map_err(|error| refused(&error))?;
        let target = self.agreed_target(&found, source, InstallMethod::Install, prompter)?;
        let placed =
            skill::install(&found, &target, &Limits::default(), &mut |line: &str| say(prompter, line));
        let placed = placed.map_err(|error| refused(&error))?;
        self.agreed()?;
        let line = |InstalledSkill { name, location }: &InstalledSkill| {
            let (scope, location) = (source.scope.word(), location.display());
            format!("Successfully installed skill: {name} (scope: {scope}, location: {location})\n")
        };
        self.unheard(source.scope)
            .iter()
            .chain(&self.conflicts(&placed))
            .for_each(|line| say(prompter, line));
        Ok(placed.iter().map(line).collect())
    }

    pub fn link(&mut self, source: &SkillSource, prompter: &mut Prompter<'_>) -> Result<String, Failure> {
        let folder = self.loaded.env.cwd().join(&source.source);
        let folder = folder.canonicalize().unwrap_or(folder);
        let found = skill::obtain_link(&folder, &mut |line: &str| say(prompter, line))
            .map_err(|error| refused(&error))?;
        let target = self.agreed_target(&found, source, InstallMethod::Link, prompter)?;
        let placed = skill::link(&found, &target, &mut |line: &str| say(prompter, line))
            .map_err(|error| refused(&error))?;
        self.agreed()?;
        self.unheard(source.scope)
            .iter()
            .chain(&self.conflicts(&placed))
            .for_each(|line| say(prompter, line));
        Ok("\nSuccessfully linked skills.\n".to_owned())
    }

    pub fn uninstall(&mut self, name: &str, scope: SkillScope) -> Result<String, Failure> {
        let target = skills::folder(&self.loaded, scope == SkillScope::Workspace);
        let word = scope.word();
        match skill::uninstall(name, &target).map_err(|error| refused(&error))? {
            None => Err(Failure::new(
                ExitKind::Failure,
                format!("Skill \"{name}\" is not installed in the {word} scope."),
            )),
            Some(location) => {
                self.agreed()?;
                let location = location.display();
                Ok(format!("Successfully uninstalled skill: {name} (scope: {word}, location: {location})\n"))
            }
        }
    }

    pub fn validate(&self, path: &Path) -> Checked {
        let found = validate(path);
        Checked { errors: found.errors, advice: found.advice }
    }
}

impl SkillSet {
    fn found(&self) -> &Skills {
        self.found.get_or_init(|| skills::find(&self.loaded))
    }

    fn at_home(&self) -> bool {
        same_place(self.loaded.project.root(), self.loaded.home.user_home())
    }

    /// At home both scopes are one file.
    fn scopes(&self) -> Vec<SkillScope> {
        if self.at_home() { vec![SkillScope::User] } else { vec![SkillScope::User, SkillScope::Workspace] }
    }

    fn file(&self, scope: SkillScope) -> PathBuf {
        match scope {
            SkillScope::User => self.loaded.home.settings_file(),
            SkillScope::Workspace => self.loaded.project.settings_file(),
        }
    }

    /// The folder that the skills go to, once a person agreed to them.
    fn agreed_target(
        &self,
        found: &Obtained,
        source: &SkillSource,
        manner: InstallMethod,
        prompter: &mut Prompter<'_>,
    ) -> Result<PathBuf, Failure> {
        found.warnings.iter().for_each(|line| say(prompter, line));
        let target = skills::folder(&self.loaded, source.scope == SkillScope::Workspace);
        let text = skill::consent(found, &source.source, &target, manner);
        let agreed = agrees(source.consent, &text, prompter);
        if agreed == Some(true) {
            return Ok(target);
        }
        let what = match manner {
            InstallMethod::Install => "Skill installation cancelled by user.",
            InstallMethod::Link => "Skill linking cancelled by user.",
        };
        let failure = Failure::new(ExitKind::Failure, what);
        Err(match agreed {
            None => failure.hint("cannot ask without a terminal; use `--consent` to approve"),
            Some(_) => failure,
        })
    }

    /// Which of several skills of one name is used, for the installed ones.
    fn conflicts(&self, placed: &[InstalledSkill]) -> Vec<String> {
        let concerns = |warning: &Warning| match warning {
            Warning::Conflict { name, .. } => placed.iter().any(|skill| skill.name == *name),
            Warning::LeftOut { .. } | Warning::TooMany { .. } => false,
        };
        let warnings = skills::find(&self.loaded).warnings;
        warnings.iter().filter(|warning| concerns(warning)).map(ToString::to_string).collect()
    }

    /// The user's own change of a trusted folder needs no second consent.
    fn agreed(&self) -> Result<(), Failure> {
        let (home, root) = (&self.loaded.home, self.loaded.project.root());
        trust::rebind(home, root, &self.loaded.binding, Some(SystemClock.now()))
            .map_err(|error| Failure::from_error(ExitKind::Failure, &error))
    }
}

fn has_entries(folder: &Path) -> bool {
    std::fs::read_dir(folder).is_ok_and(|mut entries| entries.next().is_some())
}

/// Adds a name to the list of a settings file, or takes it off; whether that changed anything.
fn write_list(file: &Path, name: &str, on: bool) -> Result<bool, Failure> {
    let mut names = listed(file)?;
    if names.iter().any(|known| is(known, name)) != on {
        return Ok(false);
    }
    if on {
        names.retain(|known| !is(known, name));
    } else {
        names.push(name.to_owned());
    }
    settings::set_value(file, "skills.disabled", &json!(names)).map_err(|error| not_written(&error))?;
    Ok(true)
}

/// What a settings file itself switches off.
fn listed(file: &Path) -> Result<Vec<String>, Failure> {
    let values = read_object(file).map_err(|error| Failure::from_error(ExitKind::Config, &error))?;
    let list = values.as_ref().and_then(|values| values.get("skills")?.get("disabled"));
    Ok(off(list))
}

fn is(known: &str, name: &str) -> bool {
    known.to_lowercase() == name.to_lowercase()
}

fn not_written(error: &EditError) -> Failure {
    let failure = Failure::from_error(ExitKind::Failure, error);
    match error.hint() {
        Some(hint) => failure.hint(hint),
        None => failure,
    }
}

fn refused(error: &SkillError) -> Failure {
    let failure = Failure::from_error(ExitKind::Failure, error);
    match error.hint() {
        Some(hint) => failure.hint(hint),
        None => failure,
    }
}
