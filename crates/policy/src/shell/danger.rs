//! Commands that destroy.

use super::{Part, git, names};

/// Why a command destroys what cannot be had back, if it does.
pub fn is_dangerous(part: &Part) -> Option<String> {
    let text = &part.text;
    let devices = ["/dev/sd", "/dev/nvme", "/dev/hd", "/dev/vd", "/dev/disk", "/dev/mapper", "/dev/mem"];
    if text.contains('>') && devices.iter().any(|device| text.contains(device)) {
        return Some("writes to a disk device".into());
    }
    let Some(first) = part.words.first() else {
        return text.contains('>').then(|| "empties or creates a file".to_owned());
    };
    let Some(program) = first else { return None };
    let name = names::base(program);
    let arguments: Vec<Option<&str>> = part.words.iter().skip(1).map(Option::as_deref).collect();
    let known: Vec<&str> = arguments.iter().copied().flatten().collect();
    let call = Call { known: &known, any_unknown: known.len() != arguments.len(), part };
    call.reason(name).map(str::to_owned)
}

struct Call<'a> {
    known: &'a [&'a str],
    any_unknown: bool,
    part: &'a Part,
}

impl Call<'_> {
    fn long(&self, options: &[&str]) -> bool {
        // Long options may be shortened, to three letters at least for those that matter.
        self.known.iter().any(|a| {
            let given = a.split('=').next().unwrap_or_default();
            given.len() >= 4 && given.starts_with("--") && options.iter().any(|o| o.starts_with(given))
        })
    }

    fn short(&self, letters: &[char]) -> bool {
        self.known.iter().any(|a| a.starts_with('-') && !a.starts_with("--") && a.contains(letters))
    }

    fn has(&self, word: &str) -> bool {
        self.known.contains(&word)
    }

    fn reason(&self, name: &str) -> Option<&'static str> {
        let reason = match name {
            "rm" | "unlink"
                if self.short(&['r', 'R', 'f'])
                    || self.long(&["--recursive", "--force", "--no-preserve-root"]) =>
            {
                "removes files without asking"
            }
            // `rm` with words that only run time knows may be any of the above.
            "rm" if self.any_unknown && self.part.patterns.is_empty() => {
                "removes files that are only known at run time"
            }
            "rm" if !self.part.patterns.is_empty() => "removes files by pattern",
            "rmdir" | "rd" if self.known.iter().any(|a| a.eq_ignore_ascii_case("/s")) => "removes a tree",
            "find" | "gfind"
                if self.known.iter().any(|a| {
                    matches!(*a, "-delete" | "-exec" | "-execdir" | "-ok" | "-okdir" | "-fls")
                        || a.starts_with("-fprint")
                }) =>
            {
                "acts on every file it finds"
            }
            "dd" if self.known.iter().any(|a| a.starts_with("of=")) => "overwrites a file or device",
            "shred" | "wipe" | "srm" => "destroys file contents",
            "truncate" => "truncates files",
            "mkswap" | "fdisk" | "parted" | "sfdisk" | "wipefs" | "mke2fs" | "blkdiscard" | "sgdisk" => {
                "changes a disk"
            }
            _ if name == "mkfs" || name.starts_with("mkfs.") => "formats a disk",
            "chmod" | "chown" | "chgrp" | "setfacl" if self.short(&['R']) || self.long(&["--recursive"]) => {
                "changes rights of a whole tree"
            }
            ":" | "true" if self.part.text.contains('>') => "empties a file",
            "mv" if self.short(&['f']) || self.long(&["--force"]) => "moves over existing files",
            "mv" if self.has("/dev/null") => "moves a file into nowhere",
            "kill" | "pkill" | "killall"
                if self.has("-1") && self.known.len() > 1 || self.has("--") && self.has("-1") =>
            {
                "ends every process"
            }
            "shutdown" | "reboot" | "halt" | "poweroff" | "init" | "telinit" => "stops the machine",
            "systemctl"
                if self.known.iter().any(|a| matches!(*a, "poweroff" | "reboot" | "halt" | "kexec")) =>
            {
                "stops the machine"
            }
            "crontab" if self.short(&['r']) => "removes all scheduled jobs",
            "docker" | "podman"
                if self.has("prune")
                    || self.has("rm") && self.short(&['f'])
                    || self.has("rmi") && self.short(&['f']) =>
            {
                "removes containers, images or volumes"
            }
            "kubectl" if self.has("delete") => "deletes cluster resources",
            "terraform" if self.has("destroy") => "destroys infrastructure",
            "userdel" | "groupdel" | "deluser" => "removes an account",
            "rsync"
                if self.known.iter().any(|a| a.starts_with("--del") || a.starts_with("--remove-source")) =>
            {
                "deletes files at the destination"
            }
            "cargo" | "npm" | "pnpm" | "yarn" => return self.publishes(name),
            "git" => return self.git(),
            _ => return None,
        };
        Some(reason)
    }

    /// Package managers doing more than build and test.
    fn publishes(&self, name: &str) -> Option<&'static str> {
        let verb = self.known.iter().find(|a| !a.starts_with(['-', '+']))?;
        let found = match name {
            "cargo" => matches!(
                *verb,
                "install"
                    | "uninstall"
                    | "publish"
                    | "login"
                    | "logout"
                    | "owner"
                    | "yank"
                    | "watch"
                    | "binstall"
                    | "generate"
            ),
            _ => matches!(
                *verb,
                "publish"
                    | "unpublish"
                    | "login"
                    | "adduser"
                    | "logout"
                    | "token"
                    | "owner"
                    | "deprecate"
                    | "dist-tag"
                    | "access"
                    | "config"
                    | "set"
                    | "link"
                    | "exec"
                    | "x"
                    | "init"
                    | "create"
                    | "dlx"
            ),
        };
        found.then_some("publishes, installs, or runs what is not this project's")
    }

    /// Whether `git checkout` is given files instead of a branch.
    fn overwrites(&self) -> bool {
        let operands: Vec<&&str> = self.known.iter().filter(|a| !a.starts_with('-') || **a == "-").collect();
        let creates = self.short(&['b', 't']) || self.long(&["--orphan", "--track", "--detach"]);
        let is_file = |text: &str| {
            let name = text.rsplit('/').next().unwrap_or_default();
            let end = name.rsplit_once('.').map(|(_, end)| end).unwrap_or_default();
            text == "."
                || text.ends_with('/')
                || !end.is_empty() && end.len() < 6 && end.chars().all(|c| c.is_ascii_alphabetic())
        };
        self.any_unknown && operands.is_empty()
            || self.short(&['p'])
            || self.long(&["--pathspec-from-file", "--patch"])
            || !creates && (operands.len() > 1 || operands.iter().any(|operand| is_file(operand)))
    }

    fn git(&self) -> Option<&'static str> {
        let place = git::subcommand_place(&self.part.words);
        let subcommand = self.part.words.get(place)?.as_deref()?;
        let rest: Vec<&str> = self.part.words.iter().skip(place + 1).flatten().map(String::as_str).collect();
        let call = Call { known: &rest, any_unknown: self.any_unknown, part: self.part };
        let reason = match subcommand {
            "reset" if call.long(&["--hard", "--merge", "--keep"]) => "throws away changes",
            "clean" if !call.short(&['n']) && !call.long(&["--dry-run"]) => "removes untracked files",
            "push"
                if call.short(&['f', 'd'])
                    || call.long(&["--force", "--force-with-lease", "--delete", "--mirror", "--prune"])
                    || rest.iter().skip(1).any(|a| a.starts_with(['+', ':'])) =>
            {
                "rewrites or deletes what is published"
            }
            "checkout"
                if call.short(&['f', 'B'])
                    || call.has("--")
                    || call.long(&["--force", "--ours", "--theirs"]) =>
            {
                "throws away changes"
            }
            "checkout" if call.overwrites() => "throws away changes",
            "restore"
                if !call.long(&["--staged"]) && !call.short(&['S'])
                    || call.long(&["--worktree"])
                    || call.short(&['W']) =>
            {
                "throws away changes"
            }
            "switch"
                if call.short(&['f', 'C'])
                    || call.long(&["--force", "--discard-changes", "--force-create"]) =>
            {
                "throws away changes"
            }
            "branch" if call.short(&['D', 'f', 'M', 'C']) || call.long(&["--force"]) => {
                "deletes or moves a branch"
            }
            "tag" if call.short(&['d', 'f']) || call.long(&["--delete", "--force"]) => {
                "deletes or moves a tag"
            }
            "stash" if call.has("drop") || call.has("clear") => "throws away stashed changes",
            "reflog" if call.has("expire") || call.has("delete") => "removes what allows to undo",
            "gc" | "prune" | "repack"
                if call.long(&["--prune"])
                    || subcommand == "prune"
                    || call.long(&["--aggressive"]) && subcommand == "gc"
                    || call.short(&['d']) && subcommand == "repack" =>
            {
                "removes what allows to undo"
            }
            "update-ref" => "changes a reference",
            "symbolic-ref" if call.short(&['d']) || call.long(&["--delete"]) => "deletes a reference",
            "read-tree" if call.short(&['u', 'm']) || call.long(&["--reset"]) => "throws away changes",
            "checkout-index" => "overwrites files",
            "rm" if call.short(&['f', 'r']) || call.long(&["--force"]) => "removes files",
            "mv" if call.short(&['f']) || call.long(&["--force"]) => "moves over existing files",
            "submodule" if call.has("deinit") && (call.short(&['f']) || call.long(&["--force"])) => {
                "removes files"
            }
            "replace" | "fast-import" => "rewrites history",
            "remote" if call.has("remove") || call.has("rm") => "forgets what is published",
            "notes" if call.has("remove") || call.has("prune") => "removes notes",
            "lfs" if call.has("prune") || call.has("migrate") => "removes or rewrites what is stored",
            "filter-branch" | "filter-repo" => "rewrites history",
            "worktree" if call.has("remove") => "removes a working tree",
            _ => return None,
        };
        Some(reason)
    }
}
