//! Crate tests: the Gemini client against a scripted server, and scripted replies.

mod it {
    mod failures;
    mod fixture;
    mod replies;
    mod requests;
    mod script;
}
