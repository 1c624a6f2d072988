//! The hooks behind `pollux hooks`.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use pollux_config::env::Env;
use pollux_config::paths::same_place;
use pollux_config::settings::{self};
use pollux_config::trust::{self, Binding};
use pollux_domain::JsonObject;
use pollux_domain::exit::ExitKind;
use pollux_domain::failure::Failure;
use pollux_domain::spelling::distance;
use pollux_domain::time::{Clock, SystemClock};
use pollux_exec::background::Background;
use pollux_hooks::{Decision, Event, Hook, HookRun, HookScene, HookSource, Registry, migrate, sample_input};
use pollux_host::hooks::{hooks, listed, object, project_list, refused, registry, texts};
use pollux_host::request::{Request, Scope};
use pollux_host::{Loaded, load_settings, policy};
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;

use super::{HookRow, Outcome, Trial, TrialRun};

/// The hooks for `pollux hooks`.
pub fn hook_set(options: &Request, env: &Env) -> Result<HookSet, Failure> {
    let loaded = load_settings(options, env)?;
    let mut notes = loaded.notes.clone();
    let file = loaded.project.settings_file();
    let is_home = same_place(loaded.project.root(), loaded.home.user_home());
    if !loaded.trust.uses_project() && file.exists() && !is_home {
        notes.push(format!(
            "Hooks in `{}` do not run: this folder is not trusted (see `pollux trust show`).",
            file.display()
        ));
    }
    let registry = registry(&loaded);
    Ok(HookSet { options: options.clone(), env: env.clone(), loaded, registry, notes })
}

/// The hooks of a run.
pub struct HookSet {
    options: Request,
    /// Without what `.env` files added.
    env: Env,
    loaded: Loaded,
    registry: Registry,
    notes: Vec<String>,
}

impl HookSet {
    /// Lines about what was found on the way to them, for stderr.
    pub fn notes(&self) -> &[String] {
        &self.notes
    }

    /// In the order in which they run.
    pub fn rows(&self) -> Vec<HookRow> {
        self.registry.hooks().iter().map(|hook| row(hook)).collect()
    }

    /// Whether hooks run at all.
    pub fn is_enabled(&self) -> bool {
        self.registry.is_enabled()
    }

    /// What is wrong with definitions, a line each.
    pub fn problems(&self) -> Vec<String> {
        self.registry.problems().iter().map(ToString::to_string).collect()
    }

    /// Switches a hook on or off; says what was done.
    pub fn switch(&mut self, name: &str, on: bool, scope: Scope) -> Result<String, Failure> {
        let (done, how) = if on { ("enabled", "removing it from") } else { ("disabled", "adding it to") };
        let of_project = scope == Scope::Project;
        let off = if of_project {
            project_list(&self.loaded)
        } else {
            texts(self.loaded.settings.get("hooksConfig.disabled").map(|(value, _)| value))
        };
        let is_off = off.iter().any(|known| known == name);
        let concerned = |hook: &&Arc<Hook>| !of_project || hook.source == HookSource::Project;
        if !is_off && !self.registry.hooks().iter().filter(concerned).any(|hook| hook.title() == name) {
            return Err(self.unknown(name, of_project));
        }
        if is_off != on {
            let by_project =
                on && !of_project && project_list(&self.loaded).iter().any(|known| known == name);
            return match by_project {
                true => {
                    Err(Failure::new(ExitKind::Failure, format!("the project disables the hook \"{name}\""))
                        .hint("`--scope project` changes its settings"))
                }
                false => Ok(format!("Hook \"{name}\" is already {done}.\n")),
            };
        }
        let (word, file) = match scope {
            // A project cannot switch off what may be a protection of the user's, so it is the user's file.
            Scope::User => ("user", self.loaded.home.settings_file()),
            Scope::Project => ("workspace", self.loaded.project.settings_file()),
        };
        write_list(&file, name, on)?;
        if of_project {
            // The user's own change needs no second consent.
            let (home, root) = (&self.loaded.home, self.loaded.project.root());
            trust::rebind(home, root, &self.loaded.binding, Some(SystemClock.now()))
                .map_err(|error| Failure::from_error(ExitKind::Failure, &error))?;
        }
        self.check_enabled(name, on && !of_project)?;
        let file = file.display();
        Ok(format!("Hook \"{name}\" {done} by {how} the disabled list in {word} ({file}) settings.\n"))
    }

    /// Takes over the hooks of Claude Code; says what was done.
    pub fn migrate(&mut self) -> Result<String, Failure> {
        let root = self.loaded.project.root();
        let Some((source, theirs)) = claude_settings(root)? else {
            return Err(Failure::new(
                ExitKind::Failure,
                "No Claude Code settings found in .claude directory. Expected settings.json or settings.local.json",
            ));
        };
        let mut text = format!("Found Claude Code settings in: {}\n", source.display());
        let migrated = theirs.get("hooks").and_then(Value::as_object).map(migrate).unwrap_or_default();
        migrated.notes.iter().for_each(|note| text.push_str(&format!("{note}\n")));
        if migrated.events.is_empty() {
            text.push_str("No hooks found in Claude Code settings to migrate.\n");
            return Ok(text);
        }
        text.push_str(&format!("Migrating {} hook event(s)...\n", migrated.events.len()));
        let file = self.loaded.project.settings_file();
        let known = object(&file)?.unwrap_or_default();
        for (event, definitions) in migrated.events {
            let present =
                known.get("hooks").and_then(|hooks| hooks.get(event.name())).and_then(Value::as_array);
            let mut all = present.cloned().unwrap_or_default();
            for definition in definitions {
                if !all.contains(&definition) {
                    all.push(definition);
                }
            }
            settings::set_path(&file, &["hooks", event.name()], &Value::Array(all))
                .map_err(|error| refused(&error))?;
        }
        text.push_str("✓ Hooks successfully migrated to .gemini/settings.json\n");
        text.push_str("Migration complete! Please review the migrated hooks in .gemini/settings.json\n");
        if !matches!(self.loaded.binding, Binding::Unbound) || !self.loaded.trust.uses_project() {
            // They are the project's commands: to write them down is not to agree to them.
            text.push_str(
                "They run once you trust this folder: run `pollux trust show`, then `pollux trust allow`.\n",
            );
        }
        Ok(text)
    }

    /// Runs the hooks of one event with a sample input, over which the given one is laid.
    pub fn run(&self, event: &str, input: JsonObject) -> Result<Trial, Failure> {
        let event = Event::parse(event).map_err(|unknown| {
            let all: Vec<&str> = Event::ALL.iter().map(|event| event.name()).collect();
            let hint = match unknown.near {
                Some(near) => format!("did you mean `{near}`?"),
                None => format!("use one of: {}", all.join(", ")),
            };
            Failure::new(ExitKind::Input, format!("unknown event `{event}`")).hint(hint)
        })?;
        let mut fields = sample_input(event);
        fields.extend(input);
        fields.shift_remove("hook_event_name");
        let runtime =
            tokio::runtime::Builder::new_current_thread().enable_all().build().map_err(|error| {
                Failure::new(ExitKind::Failure, "could not start the event loop").because(&error)
            })?;
        let background =
            Arc::new(Background::guarded(self.loaded.home.tmp_dir().join("background-processes")));
        let hooks = hooks(&self.loaded, background);
        let text = |key: &str| fields.get(key).and_then(Value::as_str).map(str::to_owned);
        let scene = HookScene {
            session_id: text("session_id").unwrap_or_else(|| "sample".to_owned()),
            transcript_path: None,
            cwd: text("cwd").map_or_else(|| self.loaded.project.root().to_path_buf(), PathBuf::from),
            plans_dir: Some(policy::plans_folder(&self.loaded)),
            budget: None,
        };
        let subject = text(subject(event)).unwrap_or_default();
        let combined = runtime.block_on(hooks.run(event, fields, &scene, &CancellationToken::new()));
        let answer = combined.answer;
        let verdict = match answer.decision {
            _ if !event.can_block() => "proceed",
            _ if answer.stop => "stop",
            Decision::Deny => "block",
            Decision::Ask if event == Event::BeforeTool => "ask",
            Decision::None | Decision::Allow | Decision::Ask => "proceed",
        };
        let reason = if answer.stop { answer.stop_reason.or(answer.reason) } else { answer.reason };
        Ok(Trial {
            event: event.name(),
            sequential: combined.sequential,
            runs: combined.runs.iter().map(trial_run).collect(),
            outcome: Outcome {
                verdict,
                reason,
                system_message: answer.system_message,
                suppress_output: answer.suppress_output,
                specific: answer.specific,
            },
            nothing: self.why_nothing(event, &subject),
        })
    }
}

impl HookSet {
    /// Whether an enabled hook is in effect: another settings file may still disable it.
    fn check_enabled(&self, name: &str, wanted: bool) -> Result<(), Failure> {
        let after = load_settings(&self.options, &self.env)?;
        match after.settings.get("hooksConfig.disabled") {
            Some((value, origin)) if wanted && texts(Some(value)).iter().any(|known| known == name) => {
                let text = format!("the hook \"{name}\" is still disabled by {origin}");
                Err(Failure::new(ExitKind::Failure, text).hint("enable it in that file"))
            }
            _ => Ok(()),
        }
    }

    fn unknown(&self, name: &str, of_project: bool) -> Failure {
        let known =
            self.registry.hooks().iter().filter(|hook| !of_project || hook.source == HookSource::Project);
        let titles = known.map(|hook| hook.title());
        // A command of hostile length is near to nothing.
        let near = titles
            .filter(|title| title.len() <= 200)
            .map(|title| (distance(title, name), title))
            .min_by_key(|(distance, _)| *distance)
            .filter(|(distance, _)| *distance <= 1 + name.chars().count() / 3);
        let whose = if of_project { "no hook of the project is named" } else { "no hook named" };
        let failure = Failure::new(ExitKind::Failure, format!("{whose} \"{name}\""));
        match near {
            Some((_, title)) => failure.hint(format!("did you mean \"{title}\"?")),
            None => failure.hint("run `pollux hooks list`"),
        }
    }

    fn why_nothing(&self, event: Event, subject: &str) -> String {
        let of_event: Vec<&Arc<Hook>> =
            self.registry.hooks().iter().filter(|hook| hook.event == event).collect();
        if !self.registry.is_enabled() {
            return "hooks are disabled (`hooksConfig.enabled`)".to_owned();
        }
        if of_event.is_empty() {
            return "no hook is configured for this event".to_owned();
        }
        let named: Vec<String> = of_event
            .iter()
            .map(|hook| match (hook.enabled, &hook.matcher) {
                (false, _) => format!("{} is disabled", hook.title()),
                (true, Some(matcher)) => format!("{} is for {matcher}", hook.title()),
                (true, None) => hook.title().to_owned(),
            })
            .collect();
        format!("no hook matches `{subject}`: {}", named.join(", "))
    }
}

fn subject(event: Event) -> &'static str {
    match event {
        Event::BeforeTool | Event::AfterTool => "tool_name",
        Event::SessionStart => "source",
        Event::SessionEnd => "reason",
        _ => "trigger",
    }
}

fn row(hook: &Hook) -> HookRow {
    HookRow {
        event: hook.event.name(),
        name: hook.name.clone(),
        command: hook.command.clone(),
        source: hook.source.to_string(),
        matcher: hook.matcher.clone(),
        sequential: hook.sequential,
        timeout_ms: hook.timeout.as_millis(),
        description: hook.description.clone(),
        required: hook.required,
        enabled: hook.enabled,
        file: hook.file.clone(),
        key: hook.key.clone(),
    }
}

fn trial_run(run: &HookRun) -> TrialRun {
    TrialRun {
        name: run.hook.name.clone(),
        command: run.hook.command.clone(),
        source: run.hook.source.to_string(),
        ending: run.ending.to_string(),
        exit_code: run.exit_code(),
        duration_ms: run.duration.as_millis(),
        stdout: run.stdout.clone(),
        stderr: run.stderr.clone(),
        decision: if run.answer.stop { "stop" } else { run.answer.decision.word() },
        warning: run.warning.clone(),
        again: run.again,
    }
}

/// Claude Code's settings of a project, its private ones first.
fn claude_settings(root: &Path) -> Result<Option<(PathBuf, JsonObject)>, Failure> {
    for name in ["settings.local.json", "settings.json"] {
        let file = root.join(".claude").join(name);
        if let Some(object) = object(&file)? {
            return Ok(Some((file, object)));
        }
    }
    Ok(None)
}

/// Adds a name to the list of a settings file, or takes it off.
fn write_list(file: &Path, name: &str, on: bool) -> Result<(), Failure> {
    let mut listed = listed(file)?;
    listed.retain(|known| known != name);
    if !on {
        listed.push(name.to_owned());
    }
    settings::set_value(file, "hooksConfig.disabled", &json!(listed)).map_err(|error| refused(&error))?;
    // The list under its old name counts as well; its names are in the new one now.
    settings::remove_value(file, "hooks.disabled").map(|_| ()).map_err(|error| refused(&error))
}
