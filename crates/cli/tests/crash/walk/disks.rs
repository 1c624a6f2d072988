//! Disks that are full or cannot be written.

use std::fs;
use std::path::Path;

use super::super::oracle::{Kind, Ran, Verdict, census, demand};
use super::super::script::Told;
use super::super::world::may_mount;
use super::Walk;
use crate::scene::panicked;

/// Runs a command with little room for files; the first argument is the room in blocks of 512 bytes.
const LITTLE_ROOM: &str = r#"ulimit -f "$0" && exec "$@""#;
/// The same on a file system of its own that is almost full; its files are brought back afterwards.
const LITTLE_DISK: &str = r#"
chats=$0 size=$1 saved=$0.saved; shift
cp -a "$chats" "$saved" && mount -t tmpfs -o size="$size" tmpfs "$chats" || exit 99
cp -a "$saved/." "$chats/" || exit 98
"$@"; code=$?
mkdir "$saved.new" && cp -a "$chats/." "$saved.new/" && umount "$chats" || exit 97
cp -a --remove-destination "$saved.new/." "$chats/" && rm -rf "$saved" "$saved.new"; exit $code"#;
/// The same where the folder of sessions cannot be written.
const READ_ONLY: &str = r#"mount --bind "$0" "$0" && mount -o remount,bind,ro "$0" || exit 99; exec "$@""#;

impl Walk {
    /// The disk is full, or a file may not grow: what was there stays, and the run says so.
    pub(super) fn run_out_of_room(&mut self) -> Verdict {
        let is_new = self.chance.one_in(3);
        let id = if is_new {
            self.sessions += 1;
            format!("full-{}", self.sessions)
        } else {
            self.any_session()
        };
        let script = self.author.script(&mut self.chance);
        let size: usize = census(&self.chats).values().map(|bytes| bytes.len().next_multiple_of(4096)).sum();
        let flag = if is_new { "--session-id" } else { "--resume" };
        let chats = self.chats.display().to_string();
        let run = if may_mount() && self.chats.exists() && self.chance.one_in(2) {
            let size = (size + 4096 * (8 + self.chance.below(24))).to_string();
            let words = ["-m", "sh", "-c", LITTLE_DISK, &chats, &size];
            self.wrapped(Path::new("unshare"), &words, &[flag, &id], &script).run()
        } else {
            let length = self
                .sessions_by_id()?
                .get(&id)
                .map_or(0, |session| fs::metadata(&session.path).map_or(0, |metadata| metadata.len() / 512));
            let room = (length + self.chance.below(64) as u64).to_string();
            self.wrapped(Path::new("sh"), &["-c", LITTLE_ROOM, &room], &[flag, &id], &script).run()
        };
        self.tally.full_disks += 1;
        let told = Told::read(&run.stdout);
        let refused = run.code == Some(42) && !is_new;
        demand((run.code == Some(0) || refused) && !panicked(&run), Kind::Conduct, || {
            format!("without room: {run:?}")
        })?;
        self.tally.told_full += usize::from(told.stopped || refused);
        self.settle_stopped(&id, &[Ran { script: &script, told, admitted: !refused }])
    }

    /// The folder cannot be written: a new conversation goes on unrecorded, an old one is not opened.
    pub(super) fn refuse_writes(&mut self) -> Verdict {
        if !may_mount() {
            return Ok(());
        }
        let id = self.any_session();
        let is_new = self.chance.one_in(2);
        let before = census(&self.chats);
        let script = self.author.script(&mut self.chance);
        let chats = self.chats.display().to_string();
        let args: &[&str] = if is_new { &["--session-id", "nowhere"] } else { &["--resume", &id] };
        let words = ["-m", "sh", "-c", READ_ONLY, &chats];
        let run = self.wrapped(Path::new("unshare"), &words, args, &script).run();
        self.tally.read_only += 1;
        let is_fine = match run.code {
            Some(0) => is_new && Told::read(&run.stdout).stopped,
            Some(42) => !is_new,
            _ => false,
        };
        demand(is_fine && !panicked(&run), Kind::Conduct, || format!("read-only: {run:?}"))?;
        demand(census(&self.chats) == before, Kind::Deleted, || "a read-only folder changed".into())
    }
}
