//! The five tiers of rules and their order.

use std::fmt;

/// The author of a rule. A higher tier overrides every lower one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Tier {
    Default = 1,
    Extension = 2,
    Workspace = 3,
    User = 4,
    Admin = 5,
}

impl Tier {
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Default => "default",
            Self::Extension => "extension",
            Self::Workspace => "workspace",
            Self::User => "user",
            Self::Admin => "admin",
        }
    }
}

impl fmt::Display for Tier {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// Tier and priority in one number, in thousandths: `4.95` is 4950.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Rank(u16);

impl Rank {
    /// The fraction of an "always allow" approval.
    pub(crate) const ALWAYS: u16 = 950;

    /// `priority` is 0 to 999; more is cut.
    pub(crate) fn new(tier: Tier, priority: u16) -> Self {
        Self(tier as u16 * 1000 + priority.min(999))
    }

    /// As in `4.95`.
    pub(crate) fn as_f64(self) -> f64 {
        f64::from(self.0) / 1000.0
    }

    /// Whether it is an "always allow" approval, which `security.disableAlwaysAllow` disables.
    pub(crate) fn is_always(self) -> bool {
        self.0 % 1000 == Self::ALWAYS
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tiers_beat_priorities_and_the_number_reads_as_documented() {
        assert!(Rank::new(Tier::User, 0) > Rank::new(Tier::Workspace, 999));
        assert!(Rank::new(Tier::Admin, 0) > Rank::new(Tier::User, 999));
        assert!((Rank::new(Tier::User, 950).as_f64() - 4.95).abs() < f64::EPSILON);
        assert!(Rank::new(Tier::Workspace, 950).is_always());
        assert!(!Rank::new(Tier::User, 951).is_always());
    }
}
