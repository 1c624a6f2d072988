//! Crate tests: the Gemini client against a scripted server, and scripted replies.
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test stops at the first surprise")]

mod it {
    mod chat;
    mod contract;
    mod failures;
    mod fixture;
    mod prompt_tools;
    mod replies;
    mod requests;
    mod script;
    mod vertex;
}
