//! Patterns of hosts and ports, as they stand in rules.

use std::fmt;

use pollux_domain::address::{self, AddressKind};

use crate::host::{Host, HostError, parse_port, split_port};

/// The ports of a pattern that names none.
pub const DEFAULT_PORTS: [u16; 2] = [80, 443];

/// A set of hosts and ports.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct HostPattern {
    hosts: Hosts,
    ports: Ports,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash)]
enum Hosts {
    /// `example.com`: that host.
    One(Host),
    /// `*.example.com`: one or more labels below.
    Below(String),
    /// `**.example.com`: the name and everything below.
    Zone(String),
}

/// The ports of a pattern.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Ports {
    /// No port was named: [`DEFAULT_PORTS`] in an allow rule, every port in a deny rule.
    Default,
    /// `host:*`.
    Any,
    /// `host:8443`.
    One(u16),
}

/// Why a text is not a pattern.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum PatternError {
    #[error("`{0}` would match every host")]
    Everything(String),
    #[error("invalid host pattern `{text}`: {source}")]
    Host { text: String, source: HostError },
    #[error("invalid host pattern `{0}`: wildcards need a host name")]
    Wildcard(String),
}

impl HostPattern {
    /// Reads `host`, `*.host` or `**.host`, each optionally with `:port` or `:*`.
    pub fn parse(text: &str) -> Result<Self, PatternError> {
        let wrong = |source| PatternError::Host { text: text.to_owned(), source };
        let (host, port) = split_port(text.trim()).map_err(wrong)?;
        if !host.is_empty() && host.bytes().all(|byte| matches!(byte, b'*' | b'.')) {
            return Err(PatternError::Everything(text.to_owned()));
        }
        let ports = match port {
            None => Ports::Default,
            Some("*") => Ports::Any,
            Some(digits) => Ports::One(parse_port(digits).map_err(wrong)?),
        };
        let zone = |rest: &str| match Host::parse(rest).map_err(wrong)? {
            Host::Name(name) => Ok(name),
            Host::Address(_) => Err(PatternError::Wildcard(text.to_owned())),
        };
        let hosts = if let Some(rest) = host.strip_prefix("**.") {
            Hosts::Zone(zone(rest)?)
        } else if let Some(rest) = host.strip_prefix("*.") {
            Hosts::Below(zone(rest)?)
        } else {
            Hosts::One(Host::parse(host).map_err(wrong)?)
        };
        Ok(Self { hosts, ports })
    }

    /// The pattern of exactly one host and port.
    pub fn exact(host: Host, port: u16) -> Self {
        Self { hosts: Hosts::One(host), ports: Ports::One(port) }
    }

    /// The host, if the pattern names a single one.
    pub fn single_host(&self) -> Option<&Host> {
        match &self.hosts {
            Hosts::One(host) => Some(host),
            Hosts::Below(_) | Hosts::Zone(_) => None,
        }
    }

    /// Whether an allow rule with this pattern covers the target. An address outside the internet needs a rule
    /// with its port, and some addresses are not covered by any.
    pub(crate) fn allows(&self, host: &Host, port: u16) -> bool {
        let ports = match self.ports {
            Ports::Default => DEFAULT_PORTS.contains(&port),
            Ports::Any => true,
            Ports::One(one) => one == port,
        };
        let literal = match host {
            Host::Name(_) => true,
            Host::Address(ip) => match address::kind(*ip) {
                AddressKind::Public => true,
                AddressKind::Special => false,
                AddressKind::Private
                | AddressKind::Loopback
                | AddressKind::LinkLocal
                | AddressKind::Metadata => matches!(self.ports, Ports::One(_)),
            },
        };
        ports && literal && self.hosts.contains(host)
    }

    /// Whether a deny rule with this pattern covers the target.
    pub(crate) fn denies(&self, host: &Host, port: u16) -> bool {
        let ports = match self.ports {
            Ports::Default | Ports::Any => true,
            Ports::One(one) => one == port,
        };
        ports && self.hosts.contains(host)
    }
}

impl Hosts {
    fn contains(&self, host: &Host) -> bool {
        let below = |zone: &str| {
            let rest = host.name().and_then(|name| name.strip_suffix(zone));
            rest.is_some_and(|rest| rest.len() > 1 && rest.ends_with('.'))
        };
        match self {
            Self::One(one) => one == host,
            Self::Below(zone) => below(zone),
            Self::Zone(zone) => host.name() == Some(zone) || below(zone),
        }
    }
}

impl fmt::Display for HostPattern {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.hosts {
            Hosts::One(host) => write!(f, "{host}")?,
            Hosts::Below(zone) => write!(f, "*.{zone}")?,
            Hosts::Zone(zone) => write!(f, "**.{zone}")?,
        }
        match self.ports {
            Ports::Default => Ok(()),
            Ports::Any => f.write_str(":*"),
            Ports::One(port) => write!(f, ":{port}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn allows(pattern: &str, host: &str, port: u16) -> bool {
        HostPattern::parse(pattern).unwrap().allows(&Host::parse(host).unwrap(), port)
    }

    #[test]
    fn wildcards_cover_labels_and_not_endings() {
        let table = [
            ("example.com", "example.com", true),
            ("example.com", "a.example.com", false),
            ("example.com", "EXAMPLE.com.", true),
            ("*.example.com", "example.com", false),
            ("*.example.com", "a.example.com", true),
            ("*.example.com", "a.b.example.com", true),
            ("*.example.com", "badexample.com", false),
            ("*.example.com", "example.com.evil", false),
            ("**.example.com", "example.com", true),
            ("**.example.com", "a.example.com", true),
            ("**.example.com", "badexample.com", false),
        ];
        for (pattern, host, expected) in table {
            assert_eq!(allows(pattern, host, 443), expected, "{pattern} {host}");
        }
    }

    #[test]
    fn ports_default_to_web_ports_in_allow_rules_and_to_all_in_deny_rules() {
        assert!(allows("a.example", "a.example", 80) && allows("a.example", "a.example", 443));
        assert!(!allows("a.example", "a.example", 22));
        assert!(allows("a.example:22", "a.example", 22) && !allows("a.example:22", "a.example", 443));
        assert!(allows("a.example:*", "a.example", 1));
        let deny = HostPattern::parse("a.example").unwrap();
        assert!(deny.denies(&Host::parse("a.example").unwrap(), 22));
    }

    #[test]
    fn private_addresses_need_a_rule_with_their_port() {
        assert!(allows("1.1.1.1", "1.1.1.1", 443));
        for address in ["127.0.0.1", "10.0.0.1", "169.254.169.254", "[fd00:ec2::254]"] {
            assert!(!allows(address, address, 80), "{address}");
            assert!(!allows(&format!("{address}:*"), address, 80), "{address}");
            assert!(allows(&format!("{address}:80"), address, 80), "{address}");
        }
        assert!(!allows("0.0.0.0:80", "0.0.0.0", 80));
        assert!(allows("127.0.0.1:80", "[::ffff:127.0.0.1]", 80));
    }

    #[test]
    fn patterns_without_a_host_are_refused() {
        for text in ["*", "**", "*:443", "*.", "**.", "*.*", ".", "*:*"] {
            assert!(matches!(HostPattern::parse(text), Err(PatternError::Everything(_))), "{text}");
        }
        for text in
            ["", ":443", "a*.example", "*.1.2.3.4", "*.[::1]", "a.*.example", "***.a", "http://a", "a:b"]
        {
            assert!(HostPattern::parse(text).is_err(), "{text}");
        }
    }

    proptest! {
        #[test]
        fn a_pattern_is_read_back(text in "(\\*\\.|\\*\\*\\.)?[a-z]{1,5}(\\.[a-z]{1,5}){0,3}(:\\*|:[1-9][0-9]{0,3})?") {
            let pattern = HostPattern::parse(&text).unwrap();
            prop_assert_eq!(pattern.to_string(), text.clone());
            prop_assert_eq!(HostPattern::parse(&pattern.to_string()), Ok(pattern));
        }

        #[test]
        fn a_name_matches_a_zone_only_on_a_label_border(zone in "[a-z]{1,4}\\.[a-z]{2}", host in "[a-z.]{1,12}") {
            if let Ok(found) = Host::parse(&host) {
                let pattern = HostPattern::parse(&format!("*.{zone}")).unwrap();
                let expected = found.name().is_some_and(|name| name.ends_with(&format!(".{zone}")));
                prop_assert_eq!(pattern.allows(&found, 443), expected);
            }
        }
    }
}
