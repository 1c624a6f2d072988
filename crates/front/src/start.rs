//! How a conversation begins: who shows it, whether the folder is trusted, a way to the model.

use std::io::{self, IsTerminal};

use pollux_config::env::Env;
use pollux_domain::failure::Failure;
use pollux_host::prepare;
use pollux_host::request::Request;
use pollux_host::{agents, trust};
use pollux_output::Console;

use super::choice::Choice;
use super::face::Face;
use super::front_end::FrontEnd;
use super::lines::Lines;
use super::screen::{Screen, first_look, manner};
use crate::presentation::style;
use crate::signals::Signals;

/// The screen, or lines where a terminal cannot draw or a person has it read aloud.
pub(super) fn face(options: &Request, env: &Env, loaded: &pollux_host::Loaded) -> io::Result<Face> {
    let signals = Signals::listen()?;
    let style = style(&loaded.groups.output, options, env);
    let front_end: Box<dyn FrontEnd> = if draws(env, loaded) {
        let mode = options.approval.unwrap_or(loaded.groups.general.approval_mode);
        let app = first_look(loaded, mode);
        Box::new(Screen::open(app, manner(loaded), style)?)
    } else {
        Box::new(Lines::open(Console::of_process(style))?)
    };
    Ok(Face::new(front_end, signals))
}

fn draws(env: &Env, loaded: &pollux_host::Loaded) -> bool {
    let dumb = env.get("TERM").is_none_or(|term| term.is_empty() || term == "dumb");
    let read_aloud = super::screen::is_on(&loaded.settings, "ui.accessibility.screenReader");
    io::stdin().is_terminal() && io::stdout().is_terminal() && !dumb && !read_aloud
}

/// The settings, once it is settled whether the folder is trusted. Nothing of it is used before.
pub(super) async fn settled(
    options: &Request,
    env: &Env,
    loaded: pollux_host::Loaded,
    face: &mut Face,
) -> Result<pollux_host::Loaded, Failure> {
    if !loaded.trust.is_open() {
        acknowledge(options, env, &loaded, face).await?;
        return Ok(loaded);
    }
    if !trusts(&pollux_host::trust::folder(None, options, env)?, face).await? {
        return Ok(loaded);
    }
    let loaded = pollux_host::load_settings(options, env)?;
    acknowledge(options, env, &loaded, face).await?;
    Ok(loaded)
}

/// Asks about a folder that nobody decided on, or that changed; whether it is trusted now. Leaving the question
/// decides nothing, and it is asked again the next time.
pub(super) async fn trusts(folder: &trust::TrustedFolder, face: &mut Face) -> Result<bool, Failure> {
    let asked = trust::question(folder)?;
    let mut choice = Choice::of("Do you trust the files in this folder?", asked.answers());
    choice.about = asked.lines();
    choice.manner.unbidden = true;
    // What would run at once takes more than Enter.
    choice.marked = asked.would_run().then(|| "never".to_owned());
    let chosen = face.choose(choice).await;
    let settled = asked.answered(folder, chosen.as_ref().map(|chosen| chosen.key.as_str()))?;
    if let Some(problem) = settled.problem {
        face.complain(problem);
    }
    Ok(settled.trusted)
}

/// Agents that came with the project are used once somebody has agreed to them.
async fn acknowledge(
    options: &Request,
    env: &Env,
    loaded: &pollux_host::Loaded,
    face: &mut Face,
) -> Result<(), Failure> {
    if !loaded.trust.uses_project() || !loaded.project.gemini_dir().join("agents").is_dir() {
        return Ok(());
    }
    let mut agents = pollux_host::agents::agent_set(options, env)?;
    let Some((question, names)) = agents::question(&agents) else { return Ok(()) };
    let mut choice =
        Choice::of("They act with your tools, within your rules. Use them?", [("yes", "Yes"), ("no", "No")]);
    choice.about = question;
    choice.manner.unbidden = true;
    choice.marked = Some("no".to_owned());
    if face.choose(choice).await.is_some_and(|chosen| chosen.key == "yes") {
        for name in &names {
            agents.acknowledge(name)?;
        }
    } else {
        face.note("They are left out; `pollux agents acknowledge <name>` lets one in.");
    }
    Ok(())
}

/// Everything a conversation needs, checked.
pub(super) async fn prepared<'a>(
    options: &'a Request,
    loaded: &'a pollux_host::Loaded,
    face: &mut Face,
) -> Result<pollux_host::Prepared<'a>, Failure> {
    let mut notes = Vec::new();
    let turn = prepare(options, loaded, &mut |line| notes.push(line.to_owned()));
    notes.iter().for_each(|line| face.note(line));
    turn
}
