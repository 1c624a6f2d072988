//! The loop against a scripted model, fake tools and a real session file.

#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test may panic: that is how it fails")]

mod it {
    mod approval;
    mod calls;
    mod changes;
    mod control;
    mod editor;
    mod fallback;
    mod providers;
    mod room;
    mod scene;
    mod steering;
    mod steps;
    mod stream;
    mod subagents;
}
