//! Programs that work with keys of their own which the sandbox hides.
//!
//! They do not say which file is missing, only that the user should log in. The command line has to run the program
//! itself, so that a script cannot ask for the keys of another one.

use std::path::PathBuf;

use pollux_domain::sandbox::{DenialKind, RightKind};
use pollux_sandbox::PathAccess;

use super::{FoundDenial, Scene, grantable_hidden, program_words};
use crate::right::{is_socket, real};

/// Where the keys of some programs are, and what those say without them.
struct Credentials {
    programs: &'static [&'static str],
    place: Place,
    /// In lower case.
    says: &'static [&'static str],
}

enum Place {
    /// A file or folder below the home.
    Home(&'static str),
    /// The same for one that the program has to write.
    Written(&'static str),
    /// The socket of the user's ssh agent.
    Agent,
}

const ALL: &[Credentials] = &[
    Credentials {
        programs: &["kubectl", "helm", "k9s", "stern"],
        place: Place::Home(".kube/config"),
        says: &[
            "server localhost:8080 was refused",
            "no configuration has been provided",
            "context was not found",
            "does not exist in the kubeconfig",
            "cluster unreachable",
            "current-context is not set",
        ],
    },
    Credentials {
        programs: &["aws", "sam", "cdk", "terraform", "tofu"],
        place: Place::Home(".aws"),
        says: &[
            "unable to locate credentials",
            "config profile (",
            "no valid credential sources",
            "partial credentials",
            "need to perform aws calls",
        ],
    },
    Credentials {
        programs: &["gcloud", "gsutil", "bq"],
        // It keeps a database of tokens there.
        place: Place::Written(".config/gcloud"),
        says: &[
            "gcloud auth",
            "active account selected",
            "default credentials",
            "directory may not be writable",
        ],
    },
    Credentials {
        programs: &["terraform", "tofu"],
        place: Place::Home(".terraform.d/credentials.tfrc.json"),
        says: &["required token could not be found", "terraform login", "tofu login"],
    },
    Credentials {
        programs: &["gh"],
        place: Place::Home(".config/gh"),
        says: &["gh auth login", "authentication required", "not logged in"],
    },
    Credentials {
        programs: &["ssh", "scp", "sftp", "rsync", "git", "ssh-add"],
        place: Place::Agent,
        says: &["permission denied (publickey", "connection to your authentication agent"],
    },
];

/// The hidden keys of programs of the command line that complained about them.
pub(super) fn find(output: &str, scene: &Scene<'_>) -> Vec<FoundDenial> {
    let found = wanted(output, scene.command).filter_map(|(program, place)| {
        let path = match place {
            Place::Home(name) | Place::Written(name) => real(&scene.homes.first()?.join(name))?,
            Place::Agent => real(scene.agent?).filter(|path| is_socket(path))?,
        };
        // Sockets of other programs are covered wherever they are.
        let is_hidden = matches!(place, Place::Agent) || scene.sandbox.access_to(&path) == PathAccess::Hidden;
        let mut found = is_hidden.then(|| grantable_hidden(&path, true, scene)).flatten()?;
        if let (Place::Written(_), Some(right)) = (place, &mut found.right) {
            (found.denial.kind, right.kind) = (DenialKind::Write, RightKind::Write);
        }
        Some(FoundDenial { program: Some(program.to_owned()), ..found })
    });
    found.collect()
}

/// The programs of a command line that complain about missing keys, and where those are.
fn wanted<'a>(output: &str, command: &'a str) -> impl Iterator<Item = (&'a str, &'static Place)> {
    let output = output.to_ascii_lowercase();
    ALL.iter().filter_map(move |known| {
        // A file of the workspace may have the same name.
        let program = program_words(command).find(|word| known.programs.contains(word))?;
        known.says.iter().any(|words| output.contains(words)).then_some((program, &known.place))
    })
}

/// The socket of the user's ssh agent.
pub(crate) fn agent(env: &pollux_config::env::Env) -> Option<PathBuf> {
    env.non_empty("SSH_AUTH_SOCK").map(PathBuf::from).filter(|path| path.is_absolute())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_are_wanted_by_a_program_that_the_command_line_runs_and_that_misses_them() {
        let refused =
            "The connection to the server localhost:8080 was refused - did you specify the right host?";
        for (command, output, expected) in [
            ("kubectl get pods", refused, Some(("kubectl", ".kube/config"))),
            ("cd x && kubectl get pods | head", refused, Some(("kubectl", ".kube/config"))),
            ("aws s3 ls", "Unable to locate credentials. You can …", Some(("aws", ".aws"))),
            ("aws --profile p s3 ls", "The config profile (p) could not be found", Some(("aws", ".aws"))),
            ("terraform plan", "Error: No valid credential sources found", Some(("terraform", ".aws"))),
            (
                "gcloud projects list",
                "Please run:\n\n  $ gcloud auth login",
                Some(("gcloud", ".config/gcloud")),
            ),
            ("gh pr create", "To get started, please run:  gh auth login", Some(("gh", ".config/gh"))),
            ("git push", "git@x.example: Permission denied (publickey).", Some(("git", "agent"))),
            // Another program, another message, a file of the workspace.
            ("npm test", refused, None),
            ("kubectl get pods", "error: unknown flag", None),
            ("./kubectl get pods", refused, None),
            ("/w/kubectl get pods", refused, None),
            ("echo kubectl", refused, None),
        ] {
            let found = wanted(output, command).next().map(|(program, place)| match place {
                Place::Home(name) | Place::Written(name) => (program, *name),
                Place::Agent => (program, "agent"),
            });
            assert_eq!(found, expected, "{command}: {output}");
        }
    }
}
