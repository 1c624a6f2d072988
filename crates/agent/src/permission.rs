//! Decides on calls before they run: rules, safety checkers, and the user where approval is required.

use std::path::Path;

use pollux_domain::JsonObject;
use pollux_domain::approval::{
    ApprovalAnswer, ApprovalMode, ApprovalRequest, Offer, Outcome, Subject, Why, WhyPart,
};
use pollux_domain::event::{CallDecision, NoticeCode, Permit, Severity};
use pollux_domain::tool::{Effect, ToolErrorKind, ToolFailure};
use pollux_policy::always::{self, DefinitionStatus, Grant, GrantOrigin, GrantScope};
use pollux_policy::request::{Decision, Request, Verdict};
use tokio_util::sync::CancellationToken;

use crate::authority::{Authority, GrantReach};
use crate::call::{Ready, RequestedCall};
use crate::calls::accept;
use crate::changes::{self, keep_asked};
use crate::denial::{DeniedBy, explanation};
use crate::hooked::before_tool::{apply_hook_results, before_tool, before_tools};
use crate::session::Session;

const DENIED_BY_PERSON: &str = "User denied execution.";
const QUEUED: &str = "User cancelled operation";

/// The result of one check of a call.
enum Settled {
    Done,
    /// The arguments changed.
    Again(JsonObject),
    /// The user stopped the turn.
    Stop,
}

/// Decides on the calls of a group one by one: an approval may cover the next call too.
pub(crate) async fn permit(session: &mut Session, group: &mut [Ready], cancel: &CancellationToken) {
    let wishes = before_tools(&session.services.hooked, group, cancel).await;
    for (ready, wanted) in group.iter_mut().zip(wishes) {
        if session.stopped_by_person {
            ready.refuse_by_person(QUEUED);
            continue;
        }
        apply_hook_results(session.plans_now(), ready, wanted, cancel);
        // The user may edit the arguments repeatedly.
        while ready.may_run() && !cancel.is_cancelled() {
            match settle(session, ready, cancel).await {
                Settled::Done => break,
                Settled::Again(args) => exchange(session, ready, args, cancel).await,
                Settled::Stop => {
                    session.stopped_by_person = true;
                    ready.refuse_by_person(DENIED_BY_PERSON);
                }
            }
        }
    }
}

async fn settle(session: &Session, ready: &mut Ready, cancel: &CancellationToken) -> Settled {
    let (Some(spec), Some(tool)) = (ready.spec.clone(), ready.tool.clone()) else { return Settled::Done };
    let (args, effect) = (ready.args.clone(), ready.effect.clone());
    let approvals = std::sync::Arc::clone(&session.authority.approvals);
    let request = approvals.request(&spec, Some(&*tool), &args, &effect);
    let engine = approvals.engine();
    let verdict = engine.decide(&request);
    let by_rules = verdict.decision;
    let verdict = match &session.authority.checkers {
        _ if verdict.checks.is_empty() => verdict,
        Some(port) => {
            let history = session.conversation.history.contents();
            engine.checked(verdict, &request, &history, &**port).await
        }
        None => without_checkers(verdict),
    };
    let checked = verdict.decision;
    let verdict = as_agreed(session, verdict, &request).await;
    let agreed = verdict.decision;
    let verdict = apply_hook_request(&session.authority, verdict, ready.marks.asks.as_deref());
    if verdict.decision == Decision::Deny {
        let by = match (by_rules, checked, agreed) {
            (Decision::Deny, ..) => DeniedBy::Rules,
            (_, Decision::Deny, _) => DeniedBy::Checker,
            (_, _, Decision::Deny) => DeniedBy::Definition,
            _ => DeniedBy::Hook,
        };
        ready.denial = explanation(&approvals, &verdict, &request, by);
    }
    ready.reads_only = changes::reads_only(&request, &verdict);
    match verdict.decision {
        Decision::Allow => {
            ready.decision.get_or_insert(CallDecision::Accept);
            ready.permit = Some(permit_of(&verdict, &request));
            Settled::Done
        }
        Decision::Deny if verdict.would_ask => {
            let message = format!(
                "Tool execution for \"{}\" requires user confirmation, which is not supported in non-interactive mode.",
                spec.display_name
            );
            ready.decision = None;
            ready.refuse(ToolErrorKind::UnhandledException, &message);
            Settled::Done
        }
        Decision::Deny => {
            let reason = verdict.deny_message.unwrap_or_default();
            let message = format!("Tool execution denied by policy. {reason}");
            ready.decision = Some(CallDecision::Reject);
            ready.refuse(ToolErrorKind::PolicyViolation, message.trim_end());
            Settled::Done
        }
        Decision::Ask if effect == Effect::Dialog => {
            ready.must_ask = true;
            ready.decision.get_or_insert(CallDecision::Accept);
            Settled::Done
        }
        Decision::Ask => ask_person(session, ready, &request, &verdict, cancel).await,
    }
}

/// What a verdict that allows is based on.
fn permit_of(verdict: &Verdict, request: &Request<'_>) -> Permit {
    // Of a command line, the first part that a rule decided on speaks for it.
    let rule = verdict.rule.as_ref().or_else(|| verdict.parts.iter().find_map(|part| part.rule.as_ref()));
    match rule {
        Some(rule) => Permit::Rule {
            name: rule.label.clone(),
            tier: rule.tier.to_owned(),
            source: rule.path.as_ref().map_or_else(|| rule.source.clone(), |path| path.display().to_string()),
            line: rule.line,
        },
        None => Permit::Mode(request.mode),
    }
}

async fn ask_person(
    session: &Session,
    ready: &mut Ready,
    request: &Request<'_>,
    verdict: &Verdict,
    cancel: &CancellationToken,
) -> Settled {
    // A hook asks every time, so "always" is not offered.
    let grants = if ready.marks.asks.is_some() {
        Grants::default()
    } else {
        grants(&session.authority.reach, request)
    };
    let mut why = why(verdict, ready.rejected_edit.take());
    let subject = match (subject(ready, request).await, request.effect) {
        (Ok(subject), _) => subject,
        (Err(_), Effect::Edit(path)) if !may_tell(session, ready, request, path) => {
            why.reason =
                "The edit cannot be made; the error will show the model text of the file.".to_owned();
            Subject::Edit { path: path.clone(), diff: None }
        }
        // Nobody needs to decide on a change that cannot be made.
        (Err(failure), _) => {
            ready.fail(failure);
            return Settled::Done;
        }
    };
    let question = ApprovalRequest {
        call: ready.call.id.clone(),
        tool: request.tool.to_owned(),
        display_name: ready.spec.as_ref().map_or_else(String::new, |spec| spec.display_name.clone()),
        args: request.args.clone(),
        subject,
        destroys: always::destruction(request),
        why,
        offers: grants.offers(request),
    };
    keep_asked(&session.services, &session.emitter, &session.conversation, ready).await;
    let (answer, by) = session.authority.questions.ask_with_author(question, cancel).await;
    if !matches!(answer, ApprovalAnswer::Edited(_) | ApprovalAnswer::Refuse(_) | ApprovalAnswer::Cancel) {
        ready.decision.get_or_insert(CallDecision::Accept);
        ready.permit = Some(Permit::User(by.clone()));
    }
    agree(session, &answer, request).await;
    match answer {
        ApprovalAnswer::Once | ApprovalAnswer::Replies(_) => {}
        ApprovalAnswer::Session if grants.auto_edit => {
            let _ = session.authority.enter_mode(ApprovalMode::AutoEdit, by.as_ref()).await;
        }
        ApprovalAnswer::Session => {
            grants.call.iter().for_each(|grant| session.authority.approvals.allow_for_session(grant))
        }
        ApprovalAnswer::SessionServer => {
            grants.server.iter().for_each(|grant| session.authority.approvals.allow_for_session(grant));
        }
        // Not offered for calls.
        ApprovalAnswer::Project => {}
        ApprovalAnswer::Saved => save(session, grants.call.as_ref()).await,
        ApprovalAnswer::Edited(args) => return Settled::Again(args),
        ApprovalAnswer::Refuse(message) => {
            ready.decision = Some(CallDecision::Reject);
            ready.refuse_by_person(&format!("{DENIED_BY_PERSON} {message}"));
        }
        ApprovalAnswer::Cancel => {
            ready.decision = Some(CallDecision::Reject);
            return Settled::Stop;
        }
    }
    Settled::Done
}

/// "Always allow" applies to the tool as it was approved. If it has changed, the user is asked again.
async fn as_agreed(session: &Session, mut verdict: Verdict, request: &Request<'_>) -> Verdict {
    let (Decision::Allow, Some(server), Some(rule)) = (verdict.decision, request.server, &verdict.rule)
    else {
        return verdict;
    };
    let saved = match always::grant_origin(rule, session.authority.reach.file.as_deref()) {
        Some(GrantOrigin::ForSession) => None,
        Some(GrantOrigin::InFile(file)) => Some(file),
        None => return verdict,
    };
    let now = session.toolbox.definitions(server).into_iter().find(|(name, _)| name == request.tool);
    let Some((tool, definition)) = now else { return verdict };
    let what = match session.authority.approvals.agreed.standing(server, &tool, &definition, saved) {
        DefinitionStatus::Approved => return verdict,
        DefinitionStatus::Changed => "has changed since you allowed it",
        DefinitionStatus::New => "is new: it did not exist when you allowed its server",
        DefinitionStatus::Unknown => {
            "needs your approval once more: the saved one does not say which server it is for"
        }
    };
    verdict.reason = format!("The tool {tool} of MCP server {server} {what}.");
    verdict.would_ask = true;
    verdict.decision = if session.authority.approvals.interactive { Decision::Ask } else { Decision::Deny };
    session.notice(Severity::Warning, NoticeCode::Policy, verdict.reason.clone()).await;
    verdict
}

/// Records the approved tool definitions, if the approval covers more than this call.
async fn agree(session: &Session, answer: &ApprovalAnswer, request: &Request<'_>) {
    let Some(server) = request.server else { return };
    let mut tools = session.toolbox.definitions(server);
    let saved = match answer {
        ApprovalAnswer::SessionServer => None,
        ApprovalAnswer::Session | ApprovalAnswer::Saved => {
            tools.retain(|(name, _)| name == request.tool);
            session.authority.reach.file.as_deref().filter(|_| *answer == ApprovalAnswer::Saved)
        }
        _ => return,
    };
    let problem = match session.authority.approvals.agreed.agree(server, &tools, saved) {
        Ok(None) => return,
        Ok(Some(aside)) => {
            format!("the earlier tool approvals could not be read and are now in `{}`", aside.display())
        }
        Err(error) => error.to_string(),
    };
    session.notice(Severity::Warning, NoticeCode::Policy, problem).await;
}

/// A hook can require approval in every mode; denials by rules stay.
fn apply_hook_request(authority: &Authority, mut verdict: Verdict, asks: Option<&str>) -> Verdict {
    let Some(message) = asks.filter(|_| verdict.decision != Decision::Deny) else { return verdict };
    verdict.would_ask = true;
    verdict.decision = if authority.approvals.interactive { Decision::Ask } else { Decision::Deny };
    verdict.reason = match message {
        "" => "A hook requires your approval.".to_owned(),
        message => format!("A hook requires your approval: {message}"),
    };
    verdict
}

/// The scope of "always allow" for this call, if it may be offered.
fn grants(reach: &GrantReach, request: &Request<'_>) -> Grants {
    if !reach.session {
        return Grants::default();
    }
    Grants {
        auto_edit: matches!(request.effect, Effect::Edit(_)) && request.mode == ApprovalMode::Default,
        call: Grant::narrow(request, GrantScope::Tool),
        server: request.server.and_then(|_| Grant::narrow(request, GrantScope::Server)),
        may_save: reach.file.is_some(),
    }
}

/// Replaces the arguments with those edited by the user. Invalid ones are reported in the next
/// question.
async fn exchange(session: &Session, ready: &mut Ready, args: JsonObject, cancel: &CancellationToken) {
    let call = RequestedCall { args: args.clone(), ..ready.call.clone() };
    let changed = ready.tool.clone().map(|tool| accept(call, &tool, session.plans_now()));
    // An edit that the user changed into one that cannot be made is asked about again.
    let changed = match changed {
        Some(Ok(changed)) => Some(changed.preview().await.map(|_| changed)),
        other => other,
    };
    match changed {
        Some(Ok(changed)) => {
            let original = ready.marks.original.take();
            *ready = changed;
            ready.marks.original = original;
            ready.decision = Some(CallDecision::Modify);
            // Hooks judged the previous arguments.
            let wanted = before_tool(&session.services.hooked, ready, cancel).await;
            apply_hook_results(session.plans_now(), ready, wanted, cancel);
        }
        Some(Err(failure)) => ready.rejected_edit = Some(failure.message),
        None => {}
    }
}

async fn save(session: &Session, grant: Option<&Grant>) {
    let (Some(grant), Some(file)) = (grant, &session.authority.reach.file) else { return };
    match always::save(file, grant) {
        Ok(set_aside) => {
            session.authority.approvals.allow_saved(grant, file);
            if let Some(old) = set_aside {
                let text = format!(
                    "`{}` was not a valid policy file; it was renamed to `{}`",
                    file.display(),
                    old.display()
                );
                session.notice(Severity::Warning, NoticeCode::Policy, text).await;
            }
        }
        Err(error) => {
            // The approval applies now but is not saved for the next session.
            session.authority.approvals.allow_for_session(grant);
            session.notice(Severity::Warning, NoticeCode::Policy, error.to_string()).await;
        }
    }
}

/// The answers to offer next tos yes and no.
#[derive(Default)]
struct Grants {
    /// "For this session" means the mode that edits without asking.
    auto_edit: bool,
    call: Option<Grant>,
    server: Option<Grant>,
    may_save: bool,
}

impl Grants {
    fn offers(&self, request: &Request<'_>) -> Vec<Offer> {
        let plain = |outcome| Offer { outcome, covers: String::new() };
        let mut offers = vec![plain(Outcome::Once)];
        if self.auto_edit {
            let covers = "every edit inside the workspace (auto_edit mode)".to_owned();
            offers.push(Offer { outcome: Outcome::Session, covers });
        } else if let Some(grant) = &self.call {
            offers.push(Offer { outcome: Outcome::Session, covers: grant.shown.clone() });
        }
        if let Some(grant) = &self.server {
            offers.push(Offer { outcome: Outcome::SessionServer, covers: grant.shown.clone() });
        }
        if let Some(grant) = self.call.as_ref().filter(|_| self.may_save) {
            offers.push(Offer { outcome: Outcome::Saved, covers: grant.shown.clone() });
        }
        if matches!(request.effect, Effect::Edit(_) | Effect::Execute { .. }) {
            offers.push(plain(Outcome::Edit));
        }
        offers.push(plain(Outcome::Refuse));
        offers
    }
}

/// What to show. The diff is computed only now that it is needed.
/// Whether the error of an edit, which tells what the file contains, may reach the model without approval: only if the
/// model may read the file.
fn may_tell(session: &Session, ready: &Ready, request: &Request<'_>, path: &Path) -> bool {
    let mut args = JsonObject::new();
    args.insert("file_path".to_owned(), path.to_string_lossy().into());
    let effect = Effect::Read(vec![path.to_owned()]);
    let read = Request {
        tool: "read_file",
        server: None,
        read_only: true,
        annotations: None,
        args: &args,
        effect: &effect,
        ..request.clone()
    };
    let engine = session.authority.approvals.engine();
    ready.marks.asks.is_none() && engine.decide(&read).decision == Decision::Allow
}

async fn subject(ready: &Ready, request: &Request<'_>) -> Result<Subject, ToolFailure> {
    Ok(match request.effect {
        Effect::Edit(path) => {
            let diff = ready.preview().await?.map(Box::new);
            Subject::Edit { path: path.clone(), diff }
        }
        Effect::Execute { command, directory } => {
            Subject::Command { command: command.clone(), directory: directory.clone() }
        }
        Effect::Fetch(urls) => Subject::Fetch(urls.clone()),
        Effect::Read(_) | Effect::Dialog | Effect::None => match request.server {
            Some(server) => Subject::Server { server: server.to_owned(), tool: request.tool.to_owned() },
            None => Subject::Other(ready.consent().unwrap_or_else(|| ready.description.clone())),
        },
    })
}

/// Why the rules decide as they do.
pub(crate) fn why(verdict: &Verdict, rejected_edit: Option<String>) -> Why {
    let rule = verdict.rule.as_ref().map(|rule| match rule.line {
        Some(line) => format!("{} ({}:{line})", rule.label, rule.source),
        None => format!("{} ({})", rule.label, rule.source),
    });
    let parts = verdict.parts.iter().map(|part| WhyPart {
        text: part.text.clone(),
        decision: part.decision.as_str().to_owned(),
        reason: part.reason.clone(),
    });
    let reason = match rejected_edit {
        Some(problem) => format!("The modified arguments are invalid: {problem}"),
        None => verdict.reason.clone(),
    };
    Why { reason, rule, parts: parts.collect() }
}

/// Denies a call whose required checker is not available.
fn without_checkers(mut verdict: Verdict) -> Verdict {
    verdict.decision = Decision::Deny;
    verdict.would_ask = false;
    verdict.deny_message = Some("A required safety checker is not available.".to_owned());
    verdict
}
