//! The same API in Vertex AI: another host, longer paths.

use super::escaped;
use crate::auth::VertexPlace;

pub(super) const API_VERSION: &str = "v1beta1";

/// The server for a place.
pub(super) fn address(place: &VertexPlace) -> String {
    match place {
        VertexPlace::Express => "https://aiplatform.googleapis.com".to_owned(),
        VertexPlace::Project { location, .. } => match location.as_str() {
            "global" => "https://aiplatform.googleapis.com".to_owned(),
            // Of several regions at once.
            "us" | "eu" => format!("https://aiplatform.{location}.rep.googleapis.com"),
            _ => format!("https://{location}-aiplatform.googleapis.com"),
        },
    }
}

/// The path of a model: Google's unless it names another publisher.
pub(super) fn resource(place: &VertexPlace, model: &str) -> String {
    let model = model.strip_prefix("models/").unwrap_or(model);
    let published = match model.split_once('/') {
        Some(("publishers" | "projects", _)) => escaped(model),
        Some((publisher, name)) => format!("publishers/{}/models/{}", escaped(publisher), escaped(name)),
        None => format!("publishers/google/models/{}", escaped(model)),
    };
    match place {
        VertexPlace::Project { project, location } if !published.starts_with("projects/") => {
            format!("projects/{}/locations/{}/{published}", segment(project), segment(location))
        }
        VertexPlace::Project { .. } | VertexPlace::Express => published,
    }
}

/// A value from the environment stays one part of the path.
fn segment(text: &str) -> String {
    escaped(text).replace('/', "%2F")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn project(location: &str) -> VertexPlace {
        VertexPlace::Project { project: "p-1".into(), location: location.into() }
    }

    #[test]
    fn a_place_has_its_server() {
        let cases = [
            ("global", "https://aiplatform.googleapis.com"),
            ("us", "https://aiplatform.us.rep.googleapis.com"),
            ("europe-west4", "https://europe-west4-aiplatform.googleapis.com"),
        ];
        for (location, server) in cases {
            assert_eq!(address(&project(location)), server);
        }
        assert_eq!(address(&VertexPlace::Express), "https://aiplatform.googleapis.com");
    }

    #[test]
    fn a_models_path_names_project_location_and_publisher() {
        let place = project("us-central1");
        let cases = [
            ("gemini-x", "projects/p-1/locations/us-central1/publishers/google/models/gemini-x"),
            ("models/gemini-x", "projects/p-1/locations/us-central1/publishers/google/models/gemini-x"),
            ("meta/llama", "projects/p-1/locations/us-central1/publishers/meta/models/llama"),
            ("projects/q/locations/l/endpoints/1", "projects/q/locations/l/endpoints/1"),
        ];
        for (model, path) in cases {
            assert_eq!(resource(&place, model), path);
        }
        assert_eq!(resource(&VertexPlace::Express, "m?x#y"), "publishers/google/models/m%3Fx%23y");
        let odd = VertexPlace::Project { project: "a/../b?".into(), location: "l".into() };
        assert_eq!(resource(&odd, "m"), "projects/a%2F..%2Fb%3F/locations/l/publishers/google/models/m");
    }
}
