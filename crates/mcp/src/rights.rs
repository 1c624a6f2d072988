//! Handles servers that require more OAuth scopes: refreshed silently, granted by the user, or refused.

use pollux_domain::BoxFuture;
use pollux_domain::approval::{ApprovalAnswer, Person, Question, QuestionForm};
use pollux_net::oauth::{Login, OAuth, OAuthServer, WiderScopes};
use tokio_util::sync::CancellationToken;

use crate::access::AccessError;
use crate::problem::describe;

/// What came of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Rights {
    /// There are wider ones; the same request may be sent again.
    WiderScopes,
    /// The user has to sign in again.
    SignIn,
    /// It was tried before, or the user declined.
    Refused,
}

/// Whether a challenge is about scopes rather than authentication.
pub(crate) fn is_about_rights(challenge: &str) -> bool {
    challenge.contains("insufficient_scope")
}

/// Tries once to get the scopes, asking the user if possible.
pub(crate) fn widen<'a>(
    oauth: &'a OAuth,
    server: &'a OAuthServer,
    challenge: &'a str,
    person: Option<&'a dyn Person>,
    cancel: &'a CancellationToken,
) -> BoxFuture<'a, Result<Rights, AccessError>> {
    let failed = |error: &(dyn std::error::Error + 'static)| AccessError(describe(error));
    Box::pin(async move {
        let person = match oauth.widen(server, challenge).await.map_err(|error| failed(&error))? {
            WiderScopes::Granted => return Ok(Rights::WiderScopes),
            WiderScopes::Refused => return Ok(Rights::Refused),
            WiderScopes::Person => person,
        };
        let Some(person) = person else { return Ok(Rights::SignIn) };
        let mut login = oauth.begin_login(server, Some(challenge)).await.map_err(|error| failed(&error))?;
        let granted = tokio::select! {
            biased;
            () = cancel.cancelled() => return Ok(Rights::Refused),
            granted = granted(&mut login, &server.name, person, cancel) => granted?,
        };
        let Some(granted) = granted else { return Ok(Rights::Refused) };
        login.finish(granted).await.map_err(|error| failed(&error))?;
        Ok(Rights::WiderScopes)
    })
}

/// Waits for the browser and the user's reply. `None` if declined.
async fn granted(
    login: &mut Login,
    name: &str,
    person: &dyn Person,
    cancel: &CancellationToken,
) -> Result<Option<pollux_net::oauth::Granted>, AccessError> {
    let failed = |error: pollux_net::oauth::LoginError| AccessError(describe(&error));
    let question = question(name, login);
    let answered = cancel.child_token();
    let reply = tokio::select! {
        granted = login.browser() => {
            answered.cancel();
            return granted.map(Some).map_err(failed);
        }
        answer = person.ask(name, vec![question], &answered) => match answer {
            ApprovalAnswer::Replies(replies) => replies.into_iter().next().unwrap_or_default(),
            _ => return Ok(None),
        }
    };
    match reply.trim() {
        // The browser's redirect may arrive slightly later.
        "" => login.browser().await.map(Some).map_err(failed),
        word if ["n", "no"].contains(&word.to_lowercase().as_str()) => Ok(None),
        pasted => login.pasted(pasted).map(Some).map_err(failed),
    }
}

fn question(name: &str, login: &Login) -> Question {
    let rights = match login.scopes() {
        [] => "additional OAuth scopes".to_owned(),
        scopes => format!("the OAuth scopes `{}`", scopes.join("`, `")),
    };
    let text = format!(
        "The MCP server `{name}` requires {rights} for this. To grant them, open this URL in a browser:\n\n{}\n\n\
         Press Enter once the browser says that you are signed in. If the browser runs on another machine, paste the \
         URL it ends at. Type `no` to decline.",
        login.url()
    );
    Question { header: name.to_owned(), text, form: QuestionForm::Text { placeholder: String::new() } }
}
