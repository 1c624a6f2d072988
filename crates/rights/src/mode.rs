//! Profiles and network modes, by the names that settings and variables use.

/// How commands reach the network.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NetworkMode {
    /// Not at all.
    None,
    /// Through a proxy that asks about unknown hosts.
    Proxy,
    /// Through a proxy that allows every public host.
    Public,
    /// As without a sandbox.
    Open,
}

impl NetworkMode {
    /// The names in settings.
    pub const NAMES: [&'static str; 4] = ["none", "proxy", "public", "open"];

    pub fn named(name: &str) -> Option<Self> {
        match name {
            "none" => Some(Self::None),
            "proxy" => Some(Self::Proxy),
            "public" => Some(Self::Public),
            "open" => Some(Self::Open),
            _ => None,
        }
    }

    pub fn as_str(self) -> &'static str {
        match self {
            Self::None => "none",
            Self::Proxy => "proxy",
            Self::Public => "public",
            Self::Open => "open",
        }
    }

    pub fn is_proxied(self) -> bool {
        matches!(self, Self::Proxy | Self::Public)
    }
}

/// What commands may write and read.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Profile {
    /// Only temporary files can be written.
    ReadOnly,
    /// The workspace and caches too.
    #[default]
    Workspace,
    /// The same, in a home without anything else.
    Strict,
}

impl Profile {
    pub fn named(name: &str) -> Option<Self> {
        match name {
            "read-only" => Some(Self::ReadOnly),
            "workspace" | "workspace-open" => Some(Self::Workspace),
            "strict" => Some(Self::Strict),
            _ => None,
        }
    }

    pub fn as_str(self) -> &'static str {
        match self {
            Self::ReadOnly => "read-only",
            Self::Workspace => "workspace",
            Self::Strict => "strict",
        }
    }
}

/// The meaning of gemini-cli's `SEATBELT_PROFILE` names, on every system.
pub fn seatbelt_profile(name: &str) -> Option<(Profile, NetworkMode)> {
    let (files, network) = name.rsplit_once('-')?;
    let network = match network {
        "open" => NetworkMode::Open,
        "proxied" => NetworkMode::Proxy,
        "closed" => NetworkMode::None,
        _ => return None,
    };
    match files {
        "permissive" | "restrictive" => Some((Profile::Workspace, network)),
        "strict" => Some((Profile::Strict, network)),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_read_back_and_upstreams_are_known() {
        for name in NetworkMode::NAMES {
            assert_eq!(NetworkMode::named(name).map(NetworkMode::as_str), Some(name));
        }
        assert_eq!(seatbelt_profile("permissive-proxied"), Some((Profile::Workspace, NetworkMode::Proxy)));
        assert_eq!(seatbelt_profile("restrictive-open"), Some((Profile::Workspace, NetworkMode::Open)));
        assert_eq!(seatbelt_profile("strict-proxied"), Some((Profile::Strict, NetworkMode::Proxy)));
        assert_eq!(seatbelt_profile("my-own"), None);
        assert_eq!(seatbelt_profile("strict"), None);
    }
}
