//! Limits that everything a holder starts inherits, at every level. They are only lowered.

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

use super::setup::Kind;

const MAX_FILES: u64 = 65_536;
/// Processes of one user in a user namespace; outside of one, the user's other processes would count.
const MAX_PROCESSES: u64 = 4096;
/// If memory runs out, commands are killed first.
const OUT_OF_MEMORY_SCORE: &str = "500";

pub(super) fn lower(kind: Kind) {
    limit(Resource::Core, 0);
    limit(Resource::Nofile, MAX_FILES);
    if matches!(kind, Kind::Namespaces | Kind::Inside) {
        limit(Resource::Nproc, MAX_PROCESSES);
    }
    #[expect(clippy::disallowed_methods, reason = "no file of a user")]
    // A container may forbid it; then the kernel chooses.
    let _ = std::fs::write("/proc/self/oom_score_adj", OUT_OF_MEMORY_SCORE);
}

fn limit(resource: Resource, most: u64) {
    let now = getrlimit(resource);
    let lower = |value: Option<u64>| Some(value.map_or(most, |value| value.min(most)));
    let _ = setrlimit(resource, Rlimit { current: lower(now.current), maximum: lower(now.maximum) });
}
