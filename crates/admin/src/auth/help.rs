//! The help text of `pollux auth`.

pub(super) const HELP: &str = r#"Auth: keys and sign-ins

Usage: pollux auth login [--api-key-stdin]
       pollux auth logout [--all]
       pollux auth status [--json]
       pollux auth list [--json]

  login    asks for an API key of the Gemini API and keeps it in the keychain, or in an encrypted file where
           there is no keychain
  logout   removes the stored key; exit code 1 if one may be left in a keychain that cannot be reached
  status   who is signed in and why: variables, stored key, settings, in the order in which they count;
           exit code 41 if nobody is
  list     everything that is stored, without the secrets

Options:
      --api-key-stdin            the key comes on standard input
      --all                      sign-ins at MCP servers and gemini-cli's login with Google, too
      --json                     for programs

Examples:
  pollux auth login
  pass show gemini | pollux auth login --api-key-stdin
  pollux auth status
"#;
