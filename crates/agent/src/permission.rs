//! Deciding on calls before they run: the rules, the safety checkers, and a person where the rules want one.

use pollux_domain::JsonObject;
use pollux_domain::approval::{Answer, ApprovalMode, ApprovalRequest, Offer, Outcome, Subject, Why, WhyPart};
use pollux_domain::event::{CallDecision, NoticeCode, Severity};
use pollux_domain::tool::{Effect, ToolErrorKind};
use pollux_policy::always::{self, Grant, Kept, Reach, Standing};
use pollux_policy::request::{Decision, Request, Verdict};
use tokio_util::sync::CancellationToken;

use crate::authority::{Authority, GrantReach};
use crate::call::{Call, Ready};
use crate::calls::accept;
use crate::changes::{self, keep_asked};
use crate::hooked::before_tool::{before_tool, before_tools, heed};
use crate::session::Session;

const DENIED_BY_PERSON: &str = "User denied execution.";
const QUEUED: &str = "User cancelled operation";

/// What one look at a call came to.
enum Settled {
    Done,
    /// The arguments are others now.
    Again(JsonObject),
    /// A person wants everything to stop.
    Stop,
}

/// Decides on the calls of a group, one after the other: an answer may decide on the next call too.
pub(crate) async fn permit(session: &mut Session, group: &mut [Ready], cancel: &CancellationToken) {
    let wishes = before_tools(&session.services.hooked, group, cancel).await;
    for (ready, wanted) in group.iter_mut().zip(wishes) {
        if session.stopped_by_person {
            ready.refuse_by_person(QUEUED);
            continue;
        }
        heed(session.plans_now(), ready, wanted, cancel);
        // A person may change the arguments more than once.
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
    let verdict = match &session.authority.checkers {
        _ if verdict.checks.is_empty() => verdict,
        Some(port) => {
            let history = session.conversation.history.contents();
            engine.checked(verdict, &request, &history, &**port).await
        }
        None => without_checkers(verdict),
    };
    let verdict = as_agreed(session, verdict, &request).await;
    let verdict = with_hooks_word(&session.authority, verdict, ready.marks.asks.as_deref());
    ready.reads_only = changes::reads_only(&request, &verdict);
    match verdict.decision {
        Decision::Allow => {
            ready.decision.get_or_insert(CallDecision::Accept);
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

async fn ask_person(
    session: &Session,
    ready: &mut Ready,
    request: &Request<'_>,
    verdict: &Verdict,
    cancel: &CancellationToken,
) -> Settled {
    // A hook asks anew each time, so there is no "always" to offer.
    let grants = if ready.marks.asks.is_some() {
        Grants::default()
    } else {
        grants(&session.authority.reach, request)
    };
    let question = ApprovalRequest {
        call: ready.call.id.clone(),
        tool: request.tool.to_owned(),
        display_name: ready.spec.as_ref().map_or_else(String::new, |spec| spec.display_name.clone()),
        args: request.args.clone(),
        subject: subject(ready, request).await,
        destroys: always::destruction(request),
        why: why(verdict, ready.rejected_edit.take()),
        offers: grants.offers(request),
    };
    keep_asked(&session.services, &session.emitter, &session.conversation, ready).await;
    let (answer, by) = session.authority.desk.ask_whom(question, cancel).await;
    if !matches!(answer, Answer::Edited(_) | Answer::Refuse(_) | Answer::Cancel) {
        ready.decision.get_or_insert(CallDecision::Accept);
    }
    agree(session, &answer, request).await;
    match answer {
        Answer::Once | Answer::Replies(_) => {}
        Answer::Session if grants.auto_edit => {
            let _ = session.authority.enter_mode(ApprovalMode::AutoEdit, by.as_ref()).await;
        }
        Answer::Session => {
            grants.call.iter().for_each(|grant| session.authority.approvals.allow_for_session(grant))
        }
        Answer::SessionServer => {
            grants.server.iter().for_each(|grant| session.authority.approvals.allow_for_session(grant));
        }
        Answer::Saved => save(session, grants.call.as_ref()).await,
        Answer::Edited(args) => return Settled::Again(args),
        Answer::Refuse(message) => {
            ready.decision = Some(CallDecision::Reject);
            ready.refuse_by_person(&format!("{DENIED_BY_PERSON} {message}"));
        }
        Answer::Cancel => {
            ready.decision = Some(CallDecision::Reject);
            return Settled::Stop;
        }
    }
    Settled::Done
}

/// An answer "always" is about a tool as it was then. When it has changed, a person is asked again and told so.
async fn as_agreed(session: &Session, mut verdict: Verdict, request: &Request<'_>) -> Verdict {
    let (Decision::Allow, Some(server), Some(rule)) = (verdict.decision, request.server, &verdict.rule)
    else {
        return verdict;
    };
    let saved = match always::answer_behind(rule, session.authority.reach.file.as_deref()) {
        Some(Kept::ForSession) => None,
        Some(Kept::InFile(file)) => Some(file),
        None => return verdict,
    };
    let now = session.toolbox.definitions(server).into_iter().find(|(name, _)| name == request.tool);
    let Some((tool, definition)) = now else { return verdict };
    let what = match session.authority.approvals.agreed.standing(server, &tool, &definition, saved) {
        Standing::AsAgreed => return verdict,
        Standing::Changed => "has changed since you allowed it",
        Standing::New => "is new: it did not exist when you allowed its server",
    };
    verdict.reason = format!("The tool {tool} of MCP server {server} {what}.");
    verdict.would_ask = true;
    verdict.decision = if session.authority.approvals.interactive { Decision::Ask } else { Decision::Deny };
    session.notice(Severity::Warning, NoticeCode::Policy, verdict.reason.clone()).await;
    verdict
}

/// Keeps what a person has just agreed to, where the answer is about more than this call.
async fn agree(session: &Session, answer: &Answer, request: &Request<'_>) {
    let Some(server) = request.server else { return };
    let mut tools = session.toolbox.definitions(server);
    let saved = match answer {
        Answer::SessionServer => None,
        Answer::Session | Answer::Saved => {
            tools.retain(|(name, _)| name == request.tool);
            session.authority.reach.file.as_deref().filter(|_| *answer == Answer::Saved)
        }
        _ => return,
    };
    if let Err(error) = session.authority.approvals.agreed.agree(server, &tools, saved) {
        session.notice(Severity::Warning, NoticeCode::Policy, error.to_string()).await;
    }
}

/// A hook's wish that somebody be asked counts in every mode; what the rules refuse stays refused.
fn with_hooks_word(authority: &Authority, mut verdict: Verdict, asks: Option<&str>) -> Verdict {
    let Some(message) = asks.filter(|_| verdict.decision != Decision::Deny) else { return verdict };
    verdict.would_ask = true;
    verdict.decision = if authority.approvals.interactive { Decision::Ask } else { Decision::Deny };
    verdict.reason = match message {
        "" => "A hook requires your approval.".to_owned(),
        message => format!("A hook requires your approval: {message}"),
    };
    verdict
}

/// What "always" would mean for this call, as far as it may be offered.
fn grants(reach: &GrantReach, request: &Request<'_>) -> Grants {
    if !reach.session {
        return Grants::default();
    }
    Grants {
        auto_edit: matches!(request.effect, Effect::Edit(_)) && request.mode == ApprovalMode::Default,
        call: Grant::narrow(request, Reach::Tool),
        server: request.server.and_then(|_| Grant::narrow(request, Reach::Server)),
        may_save: reach.file.is_some(),
    }
}

/// Puts arguments that a person changed in place of the model's. What cannot be used is said in the next
/// question.
async fn exchange(session: &Session, ready: &mut Ready, args: JsonObject, cancel: &CancellationToken) {
    let call = Call { args: args.clone(), ..ready.call.clone() };
    let changed = ready.tool.clone().map(|tool| accept(call, &tool, session.plans_now()));
    match changed {
        Some(Ok(changed)) => {
            let original = ready.marks.original.take();
            *ready = changed;
            ready.marks.original = original;
            ready.decision = Some(CallDecision::Modify);
            // Hooks have judged other arguments.
            let wanted = before_tool(&session.services.hooked, ready, cancel).await;
            heed(session.plans_now(), ready, wanted, cancel);
        }
        Some(Err(failure)) => ready.rejected_edit = Some(failure.message),
        None => {}
    }
}

async fn save(session: &Session, grant: Option<&Grant>) {
    let (Some(grant), Some(file)) = (grant, &session.authority.reach.file) else { return };
    match always::save(file, grant) {
        Ok(set_aside) => {
            session.authority.approvals.allow_and_saved(grant, file);
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
            // The answer holds for now, though it will be asked again in the next session.
            session.authority.approvals.allow_for_session(grant);
            session.notice(Severity::Warning, NoticeCode::Policy, error.to_string()).await;
        }
    }
}

/// What a person may say besides yes and no.
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

/// What a person is shown. A diff is computed only now that somebody will look at it.
async fn subject(ready: &Ready, request: &Request<'_>) -> Subject {
    match request.effect {
        Effect::Edit(path) => {
            let diff = ready.preview().await.map(Box::new);
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
    }
}

fn why(verdict: &Verdict, rejected_edit: Option<String>) -> Why {
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

/// A checker that has to be asked and cannot be: what it might have refused is not let through.
fn without_checkers(mut verdict: Verdict) -> Verdict {
    verdict.decision = Decision::Deny;
    verdict.would_ask = false;
    verdict.deny_message = Some("A required safety checker is not available.".to_owned());
    verdict
}
