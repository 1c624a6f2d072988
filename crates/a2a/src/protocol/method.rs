//! The methods of the protocol and their names in both versions.

use super::version::Version;

/// A method.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Method {
    Send,
    Stream,
    Get,
    List,
    Cancel,
    Subscribe,
    SetPush,
    GetPush,
    ListPush,
    DeletePush,
    ExtendedCard,
}

/// Each method with its names in 0.3 and 1.0. The older version cannot list tasks over JSON-RPC; its name is accepted.
const NAMES: &[(Method, &str, &str)] = &[
    (Method::Send, "message/send", "SendMessage"),
    (Method::Stream, "message/stream", "SendStreamingMessage"),
    (Method::Get, "tasks/get", "GetTask"),
    (Method::List, "tasks/list", "ListTasks"),
    (Method::Cancel, "tasks/cancel", "CancelTask"),
    (Method::Subscribe, "tasks/resubscribe", "SubscribeToTask"),
    (Method::SetPush, "tasks/pushNotificationConfig/set", "CreateTaskPushNotificationConfig"),
    (Method::GetPush, "tasks/pushNotificationConfig/get", "GetTaskPushNotificationConfig"),
    (Method::ListPush, "tasks/pushNotificationConfig/list", "ListTaskPushNotificationConfigs"),
    (Method::DeletePush, "tasks/pushNotificationConfig/delete", "DeleteTaskPushNotificationConfig"),
    (Method::ExtendedCard, "agent/getAuthenticatedExtendedCard", "GetExtendedAgentCard"),
];

impl Method {
    /// The method of this name, and the version that the name belongs to.
    pub fn named(name: &str) -> Option<(Self, Version)> {
        NAMES.iter().find_map(|(method, old, one)| match name {
            _ if name == *old => Some((*method, Version::Old)),
            _ if name == *one => Some((*method, Version::One)),
            // Some releases of 1.0 had the plural in another place.
            "ListTaskPushNotificationConfig" => Some((Self::ListPush, Version::One)),
            _ => None,
        })
    }

    pub fn name(self, version: Version) -> &'static str {
        let names = NAMES.iter().find(|(method, ..)| *method == self);
        names.map_or("", |(_, old, one)| if version == Version::Old { old } else { one })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_lead_to_their_method_and_version() {
        for (method, old, one) in NAMES {
            assert_eq!(Method::named(old), Some((*method, Version::Old)));
            assert_eq!(Method::named(one), Some((*method, Version::One)));
            assert_eq!((method.name(Version::Old), method.name(Version::One)), (*old, *one));
        }
        assert_eq!(Method::named("tasks/delete"), None);
    }
}
