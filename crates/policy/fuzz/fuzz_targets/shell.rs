#![no_main]

#[path = "../grammar.rs"]
mod grammar;

use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    // Any text gets a result.
    if let Ok(text) = std::str::from_utf8(bytes) {
        grammar::is_answered(text);
    }
    let command = grammar::command(bytes);
    if let Err(finding) = grammar::nothing_else_runs(&command) {
        panic!("{command:?}: {finding}");
    }
});
