//! Starts child processes and makes sure that they end.
//!
//! Owns: running a shell command or a single program in its own session with bounded output, cancelling a whole
//! process group, pseudo terminals and what they show, background processes and their logs, and the environment of
//! children.
//! Does not own: whether a command may run (policy), or what its output means (the tools).
//! Start at [`shell::run`]; [`background::Background`] holds every process that outlives its call.
//!
//! Lifetimes: a running command's group is killed when its future is dropped. Processes that a command left
//! behind, and background processes, live until [`background::Background`] is dropped or shut down. If this
//! program is itself killed, the kernel kills the direct child (Linux) and a small watcher process kills every
//! group that is still registered.

pub mod background;
mod capture;
mod child;
mod emulator;
mod ending;
pub mod environment;
mod group;
mod lifeline;
mod live;
pub mod own_process;
pub mod piped_child;
mod pipes;
mod process;
pub mod program;
mod pty;
mod screen_feed;
pub mod shell;
mod starters;
mod view;

pub use capture::Captured;
