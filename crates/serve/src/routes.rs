//! From method and path to what is to be done.

use hyper::Method;
use pollux_domain::percent;

/// The addresses of a site. A pattern has literal segments and parameters, such as `/tasks/{id}:cancel`.
#[derive(Debug)]
pub struct Routes<T: 'static>(pub &'static [(Method, &'static str, T)]);

/// The values of the parameters of a path, decoded.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Params(Vec<(&'static str, String)>);

/// What an address leads to.
#[derive(Debug, PartialEq, Eq)]
pub enum RouteMatch<T> {
    Route(T, Params),
    /// Other methods are allowed there.
    OtherMethod(Vec<Method>),
    Nothing,
}

impl<T: Copy> Routes<T> {
    /// The first route that fits.
    pub fn find(&self, method: &Method, path: &str) -> RouteMatch<T> {
        let mut others = Vec::new();
        for (known, pattern, target) in self.0 {
            let Some(params) = matched(pattern, path) else { continue };
            if known == method {
                return RouteMatch::Route(*target, params);
            }
            others.push(known.clone());
        }
        if others.is_empty() { RouteMatch::Nothing } else { RouteMatch::OtherMethod(others) }
    }
}

impl Params {
    pub fn get(&self, name: &str) -> &str {
        self.0.iter().find(|(known, _)| *known == name).map_or("", |(_, value)| value.as_str())
    }
}

fn matched(pattern: &'static str, path: &str) -> Option<Params> {
    let mut params = Params::default();
    let (mut expected, mut given) = (pattern.split('/'), path.split('/'));
    loop {
        match (expected.next(), given.next()) {
            (None, None) => return Some(params),
            (Some(expected), Some(given)) => match expected.strip_prefix('{') {
                None if expected == given => {}
                None => return None,
                Some(parameter) => {
                    let (name, suffix) = parameter.split_once('}')?;
                    let value = given.strip_suffix(suffix).filter(|value| !value.is_empty())?;
                    // A verb belongs to the route that names it.
                    if suffix.is_empty() && value.contains(':') {
                        return None;
                    }
                    let value = String::from_utf8(percent::decode(value)).ok()?;
                    params.0.push((name, value));
                }
            },
            _ => return None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Debug, Clone, Copy, PartialEq, Eq)]
    enum Target {
        Root,
        Task,
        Cancel,
        Push,
    }

    const ROUTES: Routes<Target> = Routes(&[
        (Method::POST, "/", Target::Root),
        (Method::GET, "/tasks/{id}", Target::Task),
        (Method::POST, "/tasks/{id}:cancel", Target::Cancel),
        (Method::GET, "/tasks/{id}/push/{config}", Target::Push),
    ]);

    fn found(method: Method, path: &str) -> Option<(Target, String)> {
        match ROUTES.find(&method, path) {
            RouteMatch::Route(target, params) => Some((target, params.get("id").to_owned())),
            _ => None,
        }
    }

    #[test]
    fn paths_lead_to_their_route_with_decoded_parameters() {
        assert_eq!(found(Method::POST, "/"), Some((Target::Root, String::new())));
        assert_eq!(found(Method::GET, "/tasks/a%2Fb"), Some((Target::Task, "a/b".into())));
        assert_eq!(found(Method::POST, "/tasks/7:cancel"), Some((Target::Cancel, "7".into())));
        assert_eq!(found(Method::GET, "/tasks/7/push/x"), Some((Target::Push, "7".into())));
        for path in ["/tasks", "/tasks/", "/tasks/7/", "/tasks/7:stop", "/tasks/:cancel", "//", ""] {
            assert_eq!(ROUTES.find(&Method::GET, path), RouteMatch::Nothing, "{path}");
        }
        assert_eq!(ROUTES.find(&Method::GET, "/tasks/7:cancel"), RouteMatch::OtherMethod(vec![Method::POST]));
    }
}
