//! What a hook printed, read without running one, for the fuzz targets. Not part of the interface.

use crate::answer::{HookAnswer, HookOutput, read};
use crate::ending::HookEnding;

/// The answer of a hook that exited with this code; `cut` says that not all that it printed is here.
pub fn read_answer(code: i32, stdout: &str, stderr: &str, cut: bool) -> HookAnswer {
    read(&HookOutput { ending: &HookEnding::Exited(code), stdout, stderr, cut }).answer
}
