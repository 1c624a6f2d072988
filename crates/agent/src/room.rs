//! Keeps the conversation within the context window.

use std::time::Instant;

use pollux_domain::content::Body;
use pollux_domain::event::{Compressed, CompressionStatus, Event, RequestEnded, TurnEnd};
use pollux_domain::model::{ModelRequest, ReplyChunk, RequestRole};
use pollux_hooks::CompressTrigger;
use tokio_util::sync::CancellationToken;

use crate::compress;
use crate::hooked::conversation::before_compression;
use crate::mask;
use crate::session::Session;
use crate::spending;
use crate::step::announce;

/// The part of a small window that may be full where the user did not set another: a summary costs a small model long.
const COMPACT_THRESHOLD: f64 = 0.6;

/// A server that names a smaller window means something else.
const MIN_WINDOW: u64 = 1_024;

/// Compresses, masks and checks; the end of the turn if the request cannot fit.
pub(crate) async fn make_room(
    session: &mut Session,
    prompt_id: &str,
    cancel: &CancellationToken,
) -> Option<TurnEnd> {
    let window = session.window();
    if session.size() > threshold(session) {
        compress_when_full(session, prompt_id, cancel).await;
    }
    if !session.is_append_only() {
        mask_outputs(
            session,
            session.model_settings.mask_protected_tokens,
            session.model_settings.mask_min_prunable_tokens,
        );
    }
    let estimated = tokio::select! {
        biased;
        () = cancel.cancelled() => return Some(TurnEnd::Cancelled),
        tokens = new_tokens(session) => tokens,
    };
    let used = session
        .conversation
        .counters
        .last_request
        .map_or(session.conversation.overhead, |(tokens, _)| tokens);
    let remaining = window.saturating_sub(used);
    if estimated <= remaining || forget(session).await {
        return None;
    }
    Some(TurnEnd::Overflow { estimated, remaining })
}

/// From how many tokens on the conversation is compressed.
fn threshold(session: &Session) -> u64 {
    let settings = &session.model_settings;
    let usual = settings.compression_threshold == pollux_config::groups::COMPRESSION_THRESHOLD;
    let is_compact = || session.services.client.resolve(&settings.name).is_compact();
    let part = if usual && is_compact() { COMPACT_THRESHOLD } else { settings.compression_threshold };
    (session.window() as f64 * part) as u64
}

/// Tokens that the next request adds to the last one. Media are counted by the model if it will.
async fn new_tokens(session: &Session) -> u64 {
    let from = session.conversation.counters.last_request.map_or(0, |(_, turns)| turns);
    let estimate = session.conversation.history.tokens_from(from);
    let new = session.conversation.history.entries().get(from..).unwrap_or_default();
    let media = new.iter().flat_map(|entry| &entry.content.parts);
    let has_media =
        media.into_iter().any(|part| matches!(part.body, Body::InlineData(_) | Body::FileData { .. }));
    if !has_media {
        return estimate;
    }
    let request = ModelRequest {
        model: session.model().to_owned(),
        chosen_by: Default::default(),
        role: RequestRole::Main,
        system: None,
        contents: new.iter().map(|entry| entry.content.clone()).collect(),
        tools: std::sync::Arc::from([]),
        settings: Default::default(),
        grounding: Default::default(),
    };
    session.services.client.count_tokens(request).await.unwrap_or(estimate)
}

/// Masks old tool outputs; returns whether any was masked.
fn mask_outputs(session: &mut Session, protected: u64, least: u64) -> bool {
    let settings = pollux_config::groups::Model {
        mask_protected_tokens: protected,
        mask_min_prunable_tokens: least,
        ..session.model_settings.clone()
    };
    let freed =
        mask::mask_old(&mut session.conversation.history, &settings, &session.services.temp_dir, &session.id)
            > 0;
    if freed {
        session.conversation.counters.last_request = None;
    }
    freed
}

/// Makes room because the server says that a request does not fit, whatever was estimated. `limit` is the window that
/// it named. False if there is nothing left to shorten.
pub(crate) async fn recover(
    session: &mut Session,
    limit: Option<u64>,
    prompt_id: &str,
    cancel: &CancellationToken,
) -> bool {
    if let Some(limit) = limit.filter(|limit| (MIN_WINDOW..session.window()).contains(limit)) {
        let model = session.model().to_owned();
        session.conversation.counters.named_window = Some((model, limit));
    }
    session.conversation.counters.summary_failed = false;
    let id = next_compression(session);
    let before = session.conversation.estimate();
    let protected = session.model_settings.mask_protected_tokens.min(threshold(session) / 2);
    let freed = mask_outputs(session, protected, 1);
    let (status, summary) = match summarise(session, &id, prompt_id, CompressTrigger::Auto, cancel).await {
        Ok(summary) => (CompressionStatus::Compressed, Some(summary)),
        Err(_) if cancel.is_cancelled() => return false,
        Err(_) if freed => (CompressionStatus::Truncated, None),
        Err(_) => return forget(session).await,
    };
    tell_compressed(session, id, before, status, summary).await;
    true
}

/// The id of a compression that begins.
fn next_compression(session: &mut Session) -> String {
    session.conversation.counters.compressions += 1;
    format!("compression-{}", session.conversation.counters.compressions)
}

async fn compress_when_full(session: &mut Session, prompt_id: &str, cancel: &CancellationToken) {
    let id = next_compression(session);
    let before = session.conversation.estimate();
    // First without any model: old tool outputs go to files. What is protected must leave room for the rest.
    let protected = session.model_settings.mask_protected_tokens.min(threshold(session) / 2);
    let freed = mask_outputs(session, protected, 1);
    let outcome = if freed && session.size() <= threshold(session) {
        Err(CompressionStatus::Nothing)
    } else {
        summarise(session, &id, prompt_id, CompressTrigger::Auto, cancel).await
    };
    let (status, summary) = match outcome {
        Ok(summary) => (CompressionStatus::Compressed, Some(summary)),
        Err(CompressionStatus::Nothing) if !freed => return,
        Err(CompressionStatus::Nothing) => (CompressionStatus::Truncated, None),
        // Stopped by the user: that says nothing about the next time.
        Err(_) if cancel.is_cancelled() => return,
        Err(status) => {
            session.conversation.counters.summary_failed = true;
            (status, None)
        }
    };
    tell_compressed(session, id, before, status, summary).await;
}

async fn tell_compressed(
    session: &Session,
    id: String,
    before: u64,
    status: CompressionStatus,
    summary: Option<String>,
) {
    let (tokens_before, tokens_after) = (before, session.conversation.estimate());
    let compressed = Compressed { id, tokens_before, tokens_after, status, summary };
    session.emit(Event::Compressed(compressed)).await;
}

/// Compresses on request, regardless of size.
pub(crate) async fn compress_now(session: &mut Session, cancel: &CancellationToken) -> TurnEnd {
    let prompt_id = session.next_prompt_id();
    session.conversation.counters.summary_failed = false;
    let id = next_compression(session);
    let before = session.conversation.estimate();
    let (status, summary) = match summarise(session, &id, &prompt_id, CompressTrigger::Manual, cancel).await {
        Ok(summary) => (CompressionStatus::Compressed, Some(summary)),
        Err(_) if cancel.is_cancelled() => return TurnEnd::Cancelled,
        Err(status) => {
            if let Some(error) = spending::exceeded(&session.services) {
                return TurnEnd::Failed(error);
            }
            (status, None)
        }
    };
    tell_compressed(session, id, before, status, summary).await;
    TurnEnd::Finished(None)
}

/// Replaces the older part of the conversation with a summary and returns it.
async fn summarise(
    session: &mut Session,
    id: &str,
    prompt_id: &str,
    trigger: CompressTrigger,
    cancel: &CancellationToken,
) -> Result<String, CompressionStatus> {
    if session.conversation.counters.summary_failed {
        return Err(CompressionStatus::Nothing);
    }
    let keeps = session
        .observer
        .as_ref()
        .map(|observer| observer.keeps_from(&session.conversation.history.contents()));
    let plan = compress::plan(&session.conversation.history, keeps).ok_or(CompressionStatus::Nothing)?;
    let before = session.size();
    session.emit(Event::Compressing { id: id.to_owned() }).await;
    before_compression(&session.services.hooked, trigger, cancel).await;
    // Never a model that the person did not choose.
    let model = session.model_settings.small.clone().unwrap_or_else(|| session.model().to_owned());
    let window = session.services.client.resolve(&model).context_window;
    let request = compress::request(&session.conversation.history, &plan, &model, window);
    let mut snapshot = ask_with_notes(session, &request, prompt_id, cancel).await?;
    if !compress::is_whole(&snapshot) && !snapshot.trim().is_empty() {
        let again = compress::verification(&request, &snapshot);
        if let Ok(better) = ask(session, again, prompt_id, cancel).await
            && !better.trim().is_empty()
        {
            snapshot = better;
        }
    }
    if cancel.is_cancelled() {
        return Err(CompressionStatus::Failed);
    }
    let done = compress::apply(&session.conversation.history, &plan, &snapshot)?;
    if let Some(observer) = &session.observer {
        observer.compressed(&done.snapshot, before);
    }
    let summary = done.snapshot.clone();
    adopt(session, done).await;
    Ok(summary)
}

/// Requests a snapshot, and notes for the memory at the same time, so that this does not take
/// longer.
async fn ask_with_notes(
    session: &Session,
    request: &ModelRequest,
    prompt_id: &str,
    cancel: &CancellationToken,
) -> Result<String, CompressionStatus> {
    // In plan mode nothing is written.
    let observer = session.observer.as_ref().filter(|_| session.plans_now().is_none());
    let wish = observer.and_then(|observer| Some((observer, observer.before_compression()?)));
    let Some((observer, instruction)) = wish else {
        return ask(session, request.clone(), prompt_id, cancel).await;
    };
    let noting = ask(session, compress::noting(request, &instruction), prompt_id, cancel);
    let (snapshot, notes) = tokio::join!(ask(session, request.clone(), prompt_id, cancel), noting);
    if let Ok(notes) = notes {
        observer.notes(&notes);
    }
    snapshot
}

/// The last resort: drops the conversation before the last prompt.
/// False if even that would not do.
async fn forget(session: &mut Session) -> bool {
    let Some(done) = compress::forget(&session.conversation.history) else { return false };
    let before = session.conversation.estimate();
    let environment = session.conversation.history.entries().first().map_or(0, |entry| entry.tokens);
    let kept: u64 = done.entries.iter().map(|entry| entry.tokens).sum();
    if session.conversation.overhead + environment + kept > session.window() {
        return false;
    }
    adopt(session, done).await;
    let id = next_compression(session);
    tell_compressed(session, id, before, CompressionStatus::Truncated, None).await;
    true
}

/// Adopts a shorter conversation; the session file keeps the earlier messages.
async fn adopt(session: &mut Session, done: compress::Compressed) {
    let before = session.conversation.estimate();
    session.conversation.history.replace(done.entries);
    session.forget_editor();
    session.conversation.counters.last_request = None;
    let after = session.conversation.estimate();
    let text = format!("Chat history compressed from {before} to {after} tokens.");
    let now = session.now();
    let result = session.recorder.compressed(&text, done.keep_from.as_deref(), &done.snapshot, now);
    session.recorded(result).await;
}

/// A model request outside the conversation; returns its text.
async fn ask(
    session: &Session,
    request: ModelRequest,
    prompt_id: &str,
    cancel: &CancellationToken,
) -> Result<String, CompressionStatus> {
    let started = Instant::now();
    let model = announce(&session.services, &session.emitter, &request, prompt_id).await;
    let role = request.role;
    let result = tokio::select! {
        biased;
        () = cancel.cancelled() => return Err(CompressionStatus::Failed),
        result = session.services.client.generate(request) => result,
    };
    let (chunk, error) = match result {
        Ok(chunk) => (chunk, None),
        Err(error) => (ReplyChunk::default(), Some(error)),
    };
    let text: String = chunk.parts.iter().filter_map(|part| part.spoken_text()).collect();
    let failed = error.is_some();
    session
        .emit(Event::RequestEnded(Box::new(RequestEnded {
            model,
            model_version: chunk.gemini_version().map(str::to_owned),
            role,
            prompt_id: prompt_id.to_owned(),
            duration: started.elapsed(),
            usage: chunk.usage.unwrap_or_default(),
            finish: chunk.finish,
            text: text.clone(),
            error,
            invalid: None,
            context_tokens: session.size(),
            window: session.window(),
        })))
        .await;
    if failed { Err(CompressionStatus::Failed) } else { Ok(text) }
}
