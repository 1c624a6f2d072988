//! The start of a conversation: choosing the front end, folder trust, acknowledging agents, credentials.

use std::io::{self, IsTerminal};

use pollux_config::env::Env;
use pollux_domain::failure::Failure;
use pollux_domain::terminal_text::one_line;
use pollux_host::prepare;
use pollux_host::request::{Request, Scope};
use pollux_host::{agents, trust};
use pollux_output::Console;

use super::choice::Choice;
use super::commands::{EDITOR_ENABLED, settle_provider};
use super::front_end::FrontEnd;
use super::lines::Lines;
use super::screen_provider::ScreenProvider;
use super::user_interface::UserInterface;
use crate::presentation::{is_on, style};
use crate::signals::Signals;

/// The connection to the editor was already suggested.
const EDITOR_SUGGESTED: &str = "ide.hasSeenNudge";

/// The screen, or plain lines if the terminal cannot draw or a screen reader is used.
pub(super) fn user_interface(
    options: &Request,
    env: &Env,
    loaded: &pollux_host::Loaded,
    screens: &dyn ScreenProvider,
) -> io::Result<UserInterface> {
    let signals = Signals::listen()?;
    let style = style(&loaded.groups.output, options, env);
    let front_end: Box<dyn FrontEnd> = if draws(env, loaded) {
        let mode = options.approval.unwrap_or(loaded.groups.general.approval_mode);
        screens.open(loaded, mode, style)?
    } else {
        Box::new(Lines::open(Console::of_process(style))?)
    };
    Ok(UserInterface::new(front_end, signals))
}

fn draws(env: &Env, loaded: &pollux_host::Loaded) -> bool {
    let dumb = env.get("TERM").is_none_or(|term| term.is_empty() || term == "dumb");
    let screen_reader = is_on(&loaded.settings, "ui.accessibility.screenReader");
    io::stdin().is_terminal() && io::stdout().is_terminal() && !dumb && !screen_reader
}

/// The settings after the question of folder trust. Nothing of the folder is used before.
pub(super) async fn settled(
    options: &Request,
    env: &Env,
    loaded: pollux_host::Loaded,
    ui: &mut UserInterface,
) -> Result<pollux_host::Loaded, Failure> {
    let loaded = if loaded.trust.is_open() {
        let trusted = trusts(&pollux_host::trust::folder(None, options, env)?, ui).await?;
        if trusted { pollux_host::load_settings(options, env)? } else { loaded }
    } else {
        loaded
    };
    acknowledge(options, env, &loaded, ui).await?;
    let mut changed = allows_project_model(&loaded, ui).await?;
    changed |= ui.is_screen() && settle_provider(options, &loaded, ui).await?;
    changed |= ui.is_screen() && suggest_editor(options, &loaded, ui).await?;
    if changed { pollux_host::load_settings(options, env) } else { Ok(loaded) }
}

/// Asks once whether to connect to the editor in whose terminal the program runs.
async fn suggest_editor(
    options: &Request,
    loaded: &pollux_host::Loaded,
    ui: &mut UserInterface,
) -> Result<bool, Failure> {
    if is_on(&loaded.settings, EDITOR_ENABLED) || is_on(&loaded.settings, EDITOR_SUGGESTED) {
        return Ok(false);
    }
    let Some(editor) = pollux_host::editor::to_suggest(loaded) else { return Ok(false) };
    let title = format!("Connect {} to Pollux?", editor.name);
    let mut choice = Choice::of(&title, [("yes", "Yes"), ("no", "No, do not ask again")]);
    choice.about = vec![
        "The model gets the list of open files and the selection, and changes open in the editor.".to_owned(),
        "This needs the editor's companion extension. To change this later, use /ide.".to_owned(),
    ];
    choice.options.unrequested = true;
    choice.marked = Some("no".to_owned());
    let connects = ui.choose(choice).await.is_some_and(|chosen| chosen.key == "yes");
    let mut settings = pollux_host::settings::settings(options, &loaded.env)?;
    settings.set(EDITOR_SUGGESTED, "true", Scope::User)?;
    if connects {
        settings.set(EDITOR_ENABLED, "true", Scope::User)?;
    }
    Ok(true)
}

/// Asks once per folder whether the project may choose another provider; returns whether it may.
async fn allows_project_model(loaded: &pollux_host::Loaded, ui: &mut UserInterface) -> Result<bool, Failure> {
    let Some(wish) = loaded.project_model.as_ref().filter(|wish| wish.is_open) else { return Ok(false) };
    let title = format!("Let this project use {}?", wish.provider_name);
    let mut choice = Choice::of(&title, [("yes", "Yes, in this folder"), ("no", "No, use my own model")]);
    choice.about = vec![
        format!("Its `{}` names {}, a model of another provider.", wish.key, one_line(&wish.model)),
        "Prompts and files would be sent there and billed to your account.".to_owned(),
    ];
    choice.options.unrequested = true;
    choice.marked = Some("no".to_owned());
    let Some(chosen) = ui.choose(choice).await else { return Ok(false) };
    let allowed = chosen.key == "yes";
    pollux_host::project_providers::decide(loaded, &wish.provider, allowed)?;
    Ok(allowed)
}

/// Asks whether to trust a folder that is new or has changed; returns the decision. Cancelling decides nothing, and the
/// question comes again the next time.
pub(super) async fn trusts(folder: &trust::TrustedFolder, ui: &mut UserInterface) -> Result<bool, Failure> {
    let asked = trust::question(folder)?;
    let mut choice = Choice::of("Do you trust the files in this folder?", asked.answers());
    choice.about = asked.lines();
    choice.options.unrequested = true;
    // Enter alone must not approve a folder that runs commands.
    choice.marked = asked.would_run().then(|| "never".to_owned());
    let chosen = ui.choose(choice).await;
    let settled = asked.answered(folder, chosen.as_ref().map(|chosen| chosen.key.as_str()))?;
    if let Some(problem) = settled.problem {
        ui.error(problem);
    }
    Ok(settled.trusted)
}

/// Asks to acknowledge agents that come with the project; they are not used before.
async fn acknowledge(
    options: &Request,
    env: &Env,
    loaded: &pollux_host::Loaded,
    ui: &mut UserInterface,
) -> Result<(), Failure> {
    if !loaded.trust.uses_project() || !loaded.project.gemini_dir().join("agents").is_dir() {
        return Ok(());
    }
    let mut agents = pollux_host::agents::agent_set(options, env)?;
    let Some((question, names)) = agents::question(&agents) else { return Ok(()) };
    let mut choice =
        Choice::of("They use your tools within your rules. Allow them?", [("yes", "Yes"), ("no", "No")]);
    choice.about = question;
    choice.options.unrequested = true;
    choice.marked = Some("no".to_owned());
    if ui.choose(choice).await.is_some_and(|chosen| chosen.key == "yes") {
        for name in &names {
            agents.acknowledge(name)?;
        }
    } else {
        ui.note("Not allowed. To allow one: pollux agents acknowledge <name>");
    }
    Ok(())
}

/// Prepares the conversation and shows the notes about it.
pub(super) async fn prepared<'a>(
    options: &'a Request,
    loaded: &'a mut pollux_host::Loaded,
    ui: &mut UserInterface,
) -> Result<pollux_host::Prepared<'a>, Failure> {
    let mut notes = Vec::new();
    let turn = prepare(options, loaded, &mut |line| notes.push(line.to_owned()));
    notes.iter().for_each(|line| ui.note(line));
    turn
}
