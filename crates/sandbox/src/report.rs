//! The report of what a sandbox blocks, for users and programs.

use crate::{Confinement, Level};

/// Whether an access is blocked for commands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Holding {
    Held,
    Partly,
    Open,
}

impl Holding {
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Held => "held",
            Self::Partly => "partly",
            Self::Open => "open",
        }
    }
}

/// One line of a report.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Right {
    pub name: &'static str,
    pub holding: Holding,
    /// What is not blocked, if anything.
    pub missing: &'static str,
}

const SIGNALS: &str = "your processes can be signalled";
const HARD_LINKS: &str = "a file outside that has a hard link in the workspace can be changed";
const CACHES: &str = "can be changed, and your own builds use them";
const WORKSPACE_SECRETS: &str = "files such as `.env` in the workspace can be read";
const SOCKETS: &str = "daemon sockets";
const ABSTRACT_SOCKETS: &str = "abstract sockets, such as X11's, can be reached";
const LATE_SOCKETS: &str =
    "one that is created in a readable folder while a command runs can be reached for a moment";
const NEW_SOCKETS: &str = "one that is created in a readable folder during the session can be reached";
const DEVICES: &str = "those of `tools.sandboxDevices` can be used";
const LIMITS: &str = "disk space and the limits of your user are shared with your programs";

impl Confinement {
    /// Every kind of access, and whether this sandbox blocks it.
    pub fn report(&self) -> Vec<Right> {
        let by_rules = self.level == Level::Landlock;
        let on_macos = self.level == Level::Seatbelt;
        let is_contained = matches!(self.level, Level::Container(_));
        let held = |name| Right { name, holding: Holding::Held, missing: "" };
        let unless = |name, lacks: bool, holding, missing| {
            if lacks { Right { name, holding, missing } } else { held(name) }
        };
        vec![
            held("files outside"),
            unless(
                "modes and times outside",
                by_rules,
                Holding::Open,
                "mode, times and attributes of your own files can be changed",
            ),
            unless("hidden places", by_rules, Holding::Partly, "their names can be listed"),
            unless(
                "protected files",
                !on_macos,
                Holding::Partly,
                if by_rules {
                    "changes are undone, not prevented"
                } else {
                    "new ones are renamed when they appear"
                },
            ),
            unless(
                "new repositories",
                !on_macos,
                Holding::Partly,
                "hooks and settings that run programs are disabled when the command ends",
            ),
            Right { name: "hard links", holding: Holding::Open, missing: HARD_LINKS },
            unless("package caches", !is_contained, Holding::Open, CACHES),
            Right { name: "workspace secrets", holding: Holding::Open, missing: WORKSPACE_SECRETS },
            unless("temporary files", by_rules || on_macos, Holding::Open, "shared with your other programs"),
            match (on_macos, self.given_devices) {
                (true, _) => Right { name: "devices", holding: Holding::Open, missing: "not restricted" },
                (false, true) => Right { name: "devices", holding: Holding::Partly, missing: DEVICES },
                (false, false) => held("devices"),
            },
            held("system settings"),
            unless("processes outside", self.signals_outside, Holding::Partly, SIGNALS),
            match (self.abstract_sockets, self.late_sockets && !by_rules && !on_macos) {
                (true, _) => Right { name: SOCKETS, holding: Holding::Partly, missing: ABSTRACT_SOCKETS },
                (_, true) if self.level == Level::Bubblewrap => {
                    Right { name: SOCKETS, holding: Holding::Partly, missing: NEW_SOCKETS }
                }
                (_, true) => Right { name: SOCKETS, holding: Holding::Partly, missing: LATE_SOCKETS },
                (false, false) => held(SOCKETS),
            },
            unless(
                "workspace sockets",
                !by_rules,
                Holding::Open,
                "sockets that other programs created in the workspace can be reached",
            ),
            match (self.network, self.proxied) {
                (true, _) => Right {
                    name: "network",
                    holding: Holding::Open,
                    missing: "not restricted, including services on this machine and its network",
                },
                (false, true) => Right {
                    name: "network",
                    holding: Holding::Partly,
                    missing: "hosts that a rule or you allow, through the proxy",
                },
                (false, false) => held("network"),
            },
            unless("unusual sockets", on_macos, Holding::Open, "not restricted"),
            held("kernel interfaces"),
            held("mounts and namespaces"),
            held("privileges"),
            unless("terminals", on_macos, Holding::Open, "your terminals can be opened"),
            held("descriptors"),
            held("environment"),
            Right { name: "shared limits", holding: Holding::Partly, missing: LIMITS },
            unless("leftover processes", on_macos, Holding::Partly, "daemons can outlive the session"),
        ]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn weaker_levels_report_what_they_lack() {
        let open = |level, network| {
            let confinement = Confinement {
                level,
                network,
                proxied: false,
                signals_outside: false,
                abstract_sockets: false,
                late_sockets: true,
                given_devices: false,
            };
            let report = confinement.report();
            let lacking = report.into_iter().filter(|right| right.holding != Holding::Held);
            lacking.map(|right| right.name).collect::<Vec<_>>()
        };
        let everywhere = [
            "protected files",
            "new repositories",
            "hard links",
            "package caches",
            "workspace secrets",
            "daemon sockets",
            "workspace sockets",
            "shared limits",
        ];
        assert_eq!(open(Level::Namespaces, false), everywhere);
        let only = |level, network| {
            let mut rest = open(level, network);
            rest.retain(|name| !everywhere.contains(name));
            rest
        };
        assert_eq!(only(Level::Bubblewrap, true), ["network"]);
        assert!(open(Level::Bubblewrap, true).contains(&"daemon sockets"));
        assert_eq!(
            only(Level::Landlock, false),
            ["modes and times outside", "hidden places", "temporary files"]
        );
        assert!(!open(Level::Landlock, false).contains(&"workspace sockets"), "its rules leave no sockets");
    }
}
