//! Keeping the conversation within the model's window.

use std::time::Instant;

use pollux_domain::content::Body;
use pollux_domain::event::{Compressed, CompressionStatus, Event, RequestEnded, TurnEnd};
use pollux_domain::model::{ModelRequest, ReplyChunk, RequestRole};
use pollux_hooks::CompressTrigger;
use tokio_util::sync::CancellationToken;

use crate::compress;
use crate::mask;
use crate::session::Session;

impl Session {
    /// Compresses, masks and checks; the end of the turn if the request cannot fit.
    pub(crate) async fn make_room(&mut self, prompt_id: &str, cancel: &CancellationToken) -> Option<TurnEnd> {
        let window = self.window();
        if self.size() > self.threshold() {
            self.compress(prompt_id, cancel).await;
        }
        self.mask(self.model_settings.mask_protected_tokens, self.model_settings.mask_min_prunable_tokens);
        let estimated = tokio::select! {
            biased;
            () = cancel.cancelled() => return Some(TurnEnd::Cancelled),
            tokens = self.new_tokens() => tokens,
        };
        let used = self.counters.last_request.map_or(self.overhead, |(tokens, _)| tokens);
        let remaining = window.saturating_sub(used);
        if estimated <= remaining || self.forget().await {
            return None;
        }
        Some(TurnEnd::Overflow { estimated, remaining })
    }

    pub(crate) fn window(&self) -> u64 {
        self.client.resolve(&self.model_settings.name).context_window
    }

    /// From how many tokens on the conversation is compressed.
    fn threshold(&self) -> u64 {
        (self.window() as f64 * self.model_settings.compression_threshold) as u64
    }

    /// Tokens left in the window, as far as is known.
    pub(crate) fn window_left(&self) -> u64 {
        self.window().saturating_sub(self.size())
    }

    /// The size of the next request: what the model counted, else an estimate.
    pub(crate) fn size(&self) -> u64 {
        match self.counters.last_request {
            Some((tokens, turns)) => tokens + self.history.tokens_from(turns),
            None => self.history.tokens() + self.overhead,
        }
    }

    /// Tokens that the next request adds to the last one. Media are counted by the model if it will.
    async fn new_tokens(&self) -> u64 {
        let from = self.counters.last_request.map_or(0, |(_, turns)| turns);
        let estimate = self.history.tokens_from(from);
        let new = self.history.entries().get(from..).unwrap_or_default();
        let media = new.iter().flat_map(|entry| &entry.content.parts);
        let has_media =
            media.into_iter().any(|part| matches!(part.body, Body::InlineData(_) | Body::FileData { .. }));
        if !has_media {
            return estimate;
        }
        let request = ModelRequest {
            model: self.model_settings.name.clone(),
            role: RequestRole::Main,
            system: None,
            contents: new.iter().map(|entry| entry.content.clone()).collect(),
            tools: std::sync::Arc::from([]),
            settings: Default::default(),
            grounding: Default::default(),
        };
        self.client.count_tokens(request).await.unwrap_or(estimate)
    }

    /// Puts old tool outputs aside; whether any was.
    fn mask(&mut self, protected: u64, least: u64) -> bool {
        let settings = pollux_config::groups::Model {
            mask_protected_tokens: protected,
            mask_min_prunable_tokens: least,
            ..self.model_settings.clone()
        };
        let freed = mask::mask_old(&mut self.history, &settings, &self.temp_dir, &self.id) > 0;
        if freed {
            self.counters.last_request = None;
        }
        freed
    }

    /// The id of a compression that begins.
    fn next_compression(&mut self) -> String {
        self.counters.compressions += 1;
        format!("compression-{}", self.counters.compressions)
    }

    async fn compress(&mut self, prompt_id: &str, cancel: &CancellationToken) {
        let id = self.next_compression();
        let before = self.size();
        // First without any model: old tool outputs go to files. What is protected must leave room for the rest.
        let protected = self.model_settings.mask_protected_tokens.min(self.threshold() / 2);
        let freed = self.mask(protected, 1);
        let outcome = if freed && self.size() <= self.threshold() {
            Err(CompressionStatus::Nothing)
        } else {
            self.summarise(&id, prompt_id, CompressTrigger::Auto, cancel).await
        };
        let (status, summary) = match outcome {
            Ok(summary) => (CompressionStatus::Compressed, Some(summary)),
            Err(CompressionStatus::Nothing) if !freed => return,
            Err(CompressionStatus::Nothing) => (CompressionStatus::Truncated, None),
            // Stopped by the user: that says nothing about the next time.
            Err(_) if cancel.is_cancelled() => return,
            Err(status) => {
                self.counters.summary_failed = true;
                (status, None)
            }
        };
        self.tell_compressed(id, before, status, summary).await;
    }

    async fn tell_compressed(
        &self,
        id: String,
        before: u64,
        status: CompressionStatus,
        summary: Option<String>,
    ) {
        let (tokens_before, tokens_after) = (before, self.size());
        let compressed = Compressed { id, tokens_before, tokens_after, status, summary };
        self.emit(Event::Compressed(compressed)).await;
    }

    /// Compresses because somebody wants it, whatever the size.
    pub(crate) async fn compress_now(&mut self, cancel: &CancellationToken) -> TurnEnd {
        let prompt_id = self.next_prompt_id();
        self.counters.summary_failed = false;
        let id = self.next_compression();
        let before = self.size();
        let (status, summary) = match self.summarise(&id, &prompt_id, CompressTrigger::Manual, cancel).await {
            Ok(summary) => (CompressionStatus::Compressed, Some(summary)),
            Err(_) if cancel.is_cancelled() => return TurnEnd::Cancelled,
            Err(status) => (status, None),
        };
        self.tell_compressed(id, before, status, summary).await;
        TurnEnd::Finished(None)
    }

    /// Puts a summary in the place of the older part of the conversation; the summary.
    async fn summarise(
        &mut self,
        id: &str,
        prompt_id: &str,
        trigger: CompressTrigger,
        cancel: &CancellationToken,
    ) -> Result<String, CompressionStatus> {
        if self.counters.summary_failed {
            return Err(CompressionStatus::Nothing);
        }
        let keeps = self.witness.as_ref().map(|witness| witness.keeps_from(&self.history.contents()));
        let plan = compress::plan(&self.history, keeps).ok_or(CompressionStatus::Nothing)?;
        let before = self.size();
        self.emit(Event::Compressing { id: id.to_owned() }).await;
        self.before_compression(trigger, cancel).await;
        let window = self.client.resolve(compress::ALIAS).context_window;
        let request = compress::request(&self.history, &plan, window);
        let mut snapshot = self.ask_with_notes(&request, prompt_id, cancel).await?;
        if !compress::is_whole(&snapshot) && !snapshot.trim().is_empty() {
            let again = compress::verification(&request, &snapshot);
            if let Ok(better) = self.ask(again, prompt_id, cancel).await
                && !better.trim().is_empty()
            {
                snapshot = better;
            }
        }
        if cancel.is_cancelled() {
            return Err(CompressionStatus::Failed);
        }
        let done = compress::apply(&self.history, &plan, &snapshot)?;
        if let Some(witness) = &self.witness {
            witness.compressed(&done.snapshot, before);
        }
        let summary = done.snapshot.clone();
        self.adopt(done).await;
        Ok(summary)
    }

    /// Asks for a snapshot. What else should be kept of those turns is asked at the same time, so that nobody waits
    /// longer for it.
    async fn ask_with_notes(
        &self,
        request: &ModelRequest,
        prompt_id: &str,
        cancel: &CancellationToken,
    ) -> Result<String, CompressionStatus> {
        // Whoever only plans writes nothing down.
        let witness = self.witness.as_ref().filter(|_| self.plans_now().is_none());
        let wish = witness.and_then(|witness| Some((witness, witness.before_compression()?)));
        let Some((witness, instruction)) = wish else {
            return self.ask(request.clone(), prompt_id, cancel).await;
        };
        let noting = self.ask(compress::noting(request, &instruction), prompt_id, cancel);
        let (snapshot, notes) = tokio::join!(self.ask(request.clone(), prompt_id, cancel), noting);
        if let Ok(notes) = notes {
            witness.notes(&notes);
        }
        snapshot
    }

    /// The last way out when nothing else made room: the conversation before the last prompt is left out.
    /// False if even that would not do.
    async fn forget(&mut self) -> bool {
        let Some(done) = compress::forget(&self.history) else { return false };
        let before = self.size();
        let environment = self.history.entries().first().map_or(0, |entry| entry.tokens);
        let kept: u64 = done.entries.iter().map(|entry| entry.tokens).sum();
        if self.overhead + environment + kept > self.window() {
            return false;
        }
        self.adopt(done).await;
        let id = self.next_compression();
        self.tell_compressed(id, before, CompressionStatus::Truncated, None).await;
        true
    }

    /// Goes on with a shorter conversation; the session file keeps what was there before.
    async fn adopt(&mut self, done: compress::Compressed) {
        let before = self.size();
        self.history.replace(done.entries);
        self.counters.last_request = None;
        let text = format!("Chat history compressed from {before} to {} tokens.", self.size());
        let now = self.now();
        let result = self.recorder.compressed(&text, done.keep_from.as_deref(), &done.snapshot, now);
        self.recorded(result).await;
    }

    /// A request beside the conversation; its text.
    async fn ask(
        &self,
        request: ModelRequest,
        prompt_id: &str,
        cancel: &CancellationToken,
    ) -> Result<String, CompressionStatus> {
        let started = Instant::now();
        let model = self.announce(&request, prompt_id).await;
        let role = request.role;
        let result = tokio::select! {
            biased;
            () = cancel.cancelled() => return Err(CompressionStatus::Failed),
            result = self.client.generate(request) => result,
        };
        let (chunk, error) = match result {
            Ok(chunk) => (chunk, None),
            Err(error) => (ReplyChunk::default(), Some(error)),
        };
        let text: String = chunk.parts.iter().filter_map(|part| part.spoken_text()).collect();
        let failed = error.is_some();
        self.emit(Event::RequestEnded(Box::new(RequestEnded {
            model,
            model_version: chunk.model_version,
            role,
            prompt_id: prompt_id.to_owned(),
            duration: started.elapsed(),
            usage: chunk.usage.unwrap_or_default(),
            finish: chunk.finish,
            text: text.clone(),
            error,
            invalid: None,
            context_tokens: self.size(),
            window: self.window(),
        })))
        .await;
        if failed { Err(CompressionStatus::Failed) } else { Ok(text) }
    }
}
