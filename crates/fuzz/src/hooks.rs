//! What hooks print.

use pollux_hooks::fuzzing::read_answer;
use pollux_hooks::{Decision, HookAnswer};
use serde_json::Value;

use crate::pieces::{control, steering};

/// The longest message with its note that it was cut.
const MAX_MESSAGE: usize = (16 << 10) + 64;

/// Exit code 2 forbids whatever is printed, texts for people are plain and short, and an answer that is printed
/// again means the same.
pub(crate) fn answers(bytes: &[u8]) {
    let ([code, split, cut], output) = steering(bytes);
    let text = String::from_utf8_lossy(output);
    let at = text.floor_char_boundary(text.len() * usize::from(split) / 255);
    let (stdout, stderr) = text.split_at(at);
    let code = i32::from(code % 4);
    let answer = read_answer(code, stdout, stderr, cut % 2 == 1);
    assert!(code != 2 || answer.decision == Decision::Deny, "exit code 2 gave {:?}", answer.decision);
    for text in [&answer.stop_reason, &answer.reason, &answer.system_message].into_iter().flatten() {
        assert!(text.len() <= MAX_MESSAGE, "{} bytes", text.len());
        assert_eq!(control(text), None, "in {text:?}");
    }
    let printed = Value::Object(answer.to_json()).to_string();
    let again = HookAnswer { chose_foreign_model: false, ..read_answer(0, &printed, "", false) };
    assert_eq!(again, answer, "read from {printed}");
}
