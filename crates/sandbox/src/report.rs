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

impl Confinement {
    /// Every kind of access, and whether this sandbox blocks it.
    pub fn report(&self) -> Vec<Right> {
        let by_rules = self.level == Level::Landlock;
        let on_macos = self.level == Level::Seatbelt;
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
                by_rules,
                Holding::Partly,
                "existing ones can be changed, new ones are renamed",
            ),
            unless("temporary files", by_rules || on_macos, Holding::Open, "shared with your other programs"),
            unless("devices", on_macos, Holding::Open, "not restricted"),
            held("system settings"),
            unless("processes outside", self.signals_outside, Holding::Partly, SIGNALS),
            unless(
                "daemon sockets",
                self.abstract_sockets,
                Holding::Partly,
                "abstract sockets, such as X11's, can be reached",
            ),
            unless(
                "network",
                self.network,
                Holding::Open,
                "not restricted, including services on this machine and its network",
            ),
            unless("unusual sockets", on_macos, Holding::Open, "not restricted"),
            held("kernel interfaces"),
            held("mounts and namespaces"),
            held("privileges"),
            unless("terminals", on_macos, Holding::Open, "your terminals can be opened"),
            held("descriptors"),
            held("environment"),
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
            let confinement = Confinement { level, network, signals_outside: false, abstract_sockets: false };
            let report = confinement.report();
            let lacking = report.into_iter().filter(|right| right.holding != Holding::Held);
            lacking.map(|right| right.name).collect::<Vec<_>>()
        };
        assert_eq!(open(Level::Namespaces, false), Vec::<&str>::new());
        assert_eq!(open(Level::Bubblewrap, true), ["network"]);
        assert_eq!(
            open(Level::Landlock, false),
            ["modes and times outside", "hidden places", "protected files", "temporary files"]
        );
    }
}
