//! Crate tests: the clients against scripted servers, and scripted replies.
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test stops at the first surprise")]

mod it {
    mod chaos;
    mod chat;
    mod contract;
    mod failures;
    mod fixture;
    mod messages;
    mod metered;
    mod prompt_tools;
    mod real_server;
    mod replies;
    mod requests;
    mod responses;
    mod script;
    mod sdk_types;
    mod vertex;
}
