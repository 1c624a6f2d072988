//! Where telemetry goes, by the settings.

use std::path::PathBuf;

use pollux_config::groups::{OtlpProtocol, Telemetry};
use pollux_otlp::Protocol;

/// What the settings ask for.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Choice {
    File(PathBuf),
    Collector {
        endpoint: String,
        protocol: Protocol,
    },
    /// Nothing is recorded, for this reason.
    Nothing(&'static str),
}

/// For settings that enable telemetry.
pub(crate) fn choose(settings: &Telemetry) -> Choice {
    if settings.use_collector && settings.use_cli_auth {
        return Choice::Nothing(
            "`telemetry.useCollector` and `telemetry.useCliAuth` cannot be used together",
        );
    }
    if let Some(file) = &settings.outfile {
        return Choice::File(file.clone());
    }
    if settings.target == "gcp" && !settings.use_collector {
        return Choice::Nothing(
            "sending to Google Cloud directly (`telemetry.target`: `gcp`) is not supported; run an OpenTelemetry \
             collector that exports there and set `telemetry.useCollector`",
        );
    }
    let protocol = match settings.otlp_protocol {
        OtlpProtocol::Grpc => Protocol::Grpc,
        OtlpProtocol::Http => Protocol::Http,
    };
    match settings.otlp_endpoint.as_deref().map(str::trim) {
        Some("") => Choice::Nothing("neither `telemetry.outfile` nor `telemetry.otlpEndpoint` is set"),
        Some(endpoint) => Choice::Collector { endpoint: endpoint.to_owned(), protocol },
        None => Choice::Collector { endpoint: protocol.usual_endpoint().to_owned(), protocol },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn on() -> Telemetry {
        Telemetry { enabled: true, target: "local".to_owned(), ..Telemetry::default() }
    }

    #[test]
    fn a_file_beats_a_collector_and_an_empty_endpoint_means_none() {
        let endpoint = |text: &str| Some(text.to_owned());
        let file = Telemetry { outfile: Some("/t".into()), otlp_endpoint: endpoint("http://c"), ..on() };
        assert_eq!(choose(&file), Choice::File("/t".into()));
        let named = Telemetry { otlp_endpoint: endpoint(" http://c:1 "), ..on() };
        let collector =
            |endpoint: &str, protocol| Choice::Collector { endpoint: endpoint.to_owned(), protocol };
        assert_eq!(choose(&named), collector("http://c:1", Protocol::Grpc));
        assert_eq!(choose(&on()), collector("http://localhost:4317", Protocol::Grpc));
        let http = Telemetry { otlp_protocol: OtlpProtocol::Http, ..on() };
        assert_eq!(choose(&http), collector("http://localhost:4318", Protocol::Http));
        let none = Telemetry { otlp_endpoint: endpoint(""), ..on() };
        assert!(matches!(choose(&none), Choice::Nothing(why) if why.contains("telemetry.outfile")));
    }

    #[test]
    fn google_cloud_is_reached_through_a_collector_only() {
        let gcp = Telemetry { target: "gcp".to_owned(), ..on() };
        assert!(matches!(choose(&gcp), Choice::Nothing(why) if why.contains("not supported")));
        let through = Telemetry { use_collector: true, ..gcp.clone() };
        assert!(matches!(choose(&through), Choice::Collector { .. }));
        let both = Telemetry { use_cli_auth: true, outfile: Some("/t".into()), ..through };
        assert!(matches!(choose(&both), Choice::Nothing(why) if why.contains("together")));
        let file = Telemetry { outfile: Some("/t".into()), ..gcp };
        assert_eq!(choose(&file), Choice::File("/t".into()));
    }
}
