#![no_main]

#[path = "../grammar.rs"]
mod grammar;

use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    if let Err(finding) = grammar::expression_agrees(bytes) {
        panic!("{finding}");
    }
});
