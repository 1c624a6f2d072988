use super::*;
use crate::scratch::Scratch;

fn loaded(scratch: &Scratch, trust: ProjectTrust, options: &DotenvOptions) -> (Env, DotenvReport) {
    let mut env = scratch.env(&[("SET", "before")]);
    let cwd = scratch.path("work/sub");
    let report = load_dotenv(&mut env, &scratch.home(), &cwd, trust, options);
    (env, report)
}

fn scratch() -> Scratch {
    let scratch = Scratch::new();
    std::fs::create_dir(scratch.path("work/sub")).unwrap();
    scratch
}

#[test]
fn files_are_merged_nearest_first_and_home_last() {
    let scratch = scratch();
    scratch.write("work/sub/.gemini/.env", "A=1\nSET=after");
    scratch.write("work/sub/.env", "A=2\nB=2");
    scratch.write("work/.env", "A=3\nB=3\nC=3");
    scratch.write("home/.gemini/.env", "C=4\nD=4\nGEMINI_API_KEY=home");
    scratch.write("home/.env", "D=5\nE=5");
    let (env, report) = loaded(&scratch, ProjectTrust::Trusted, &DotenvOptions::default());
    let values: Vec<_> =
        ["A", "B", "C", "D", "E", "SET", "GEMINI_API_KEY"].map(|name| env.get(name).unwrap()).to_vec();
    assert_eq!(values, ["1", "2", "3", "4", "5", "before", "home"]);
    let names: Vec<_> = report.loaded.iter().map(|file| file.names.join(",")).collect();
    assert_eq!(names, ["A", "B", "C", "D,GEMINI_API_KEY", "E"]);
    assert_eq!(report.ignored, []);
}

#[test]
fn a_project_cannot_set_what_decides_where_things_go_and_the_home_can() {
    let guarded = [
        "HOME",
        "PATH",
        "LD_PRELOAD",
        "DYLD_INSERT_LIBRARIES",
        "NODE_OPTIONS",
        "GEMINI_CLI_HOME",
        "GOOGLE_GEMINI_BASE_URL",
        "https_proxy",
        "NO_PROXY",
        "BASH_ENV",
        "ENV",
        "SHELL",
        "GIT_SSH_COMMAND",
        "GEMINI_CLI_SYSTEM_SETTINGS_PATH",
        "POLLUX_OUTPUT_DIALECT",
        "SSL_CERT_FILE",
        "PYTHONPATH",
        "GEMINI_CLI_TRUST_WORKSPACE",
        "GEMINI_TELEMETRY_OTLP_ENDPOINT",
        "OTEL_EXPORTER_OTLP_ENDPOINT",
        "OTEL_EXPORTER_OTLP_HEADERS",
        "OTEL_RESOURCE_ATTRIBUTES",
        "CODE_ASSIST_ENDPOINT",
        "GEMINI_SANDBOX_PROXY_COMMAND",
        "GEMINI_SANDBOX",
        "GEMINI_SYSTEM_MD",
        "GEMINI_WRITE_SYSTEM_MD",
        "GOOGLE_APPLICATION_CREDENTIALS",
        "NODE_EXTRA_CA_CERTS",
        "npm_config_script_shell",
        "EDITOR",
        "GIMLI_STATE_DIR",
        "GOOGLE_GENAI_USE_VERTEXAI",
        "google_genai_use_gca",
        "GEMINI_API_KEY_AUTH_MECHANISM",
        "GEMINI_CLI_CUSTOM_HEADERS",
        "ANTHROPIC_CUSTOM_HEADERS",
        "OPENAI_BASE_URL",
        "OPENAI_API_BASE",
        "AZURE_OPENAI_ENDPOINT",
        "AZURE_RESOURCE_NAME",
        "OPENAI_ORG_ID",
        "OLLAMA_HOST",
        "GOOGLE_VERTEX_BASE_URL",
        "HTTPS_PROXY",
        "ALL_PROXY",
        "SSL_CERT_DIR",
        "REQUESTS_CA_BUNDLE",
        "XDG_CONFIG_HOME",
        "CARGO_HOME",
        "TMPDIR",
        "USER",
        "LD_LIBRARY_PATH",
        "BASH_FUNC_ls",
        "JAVA_TOOL_OPTIONS",
        "_JAVA_OPTIONS",
        "LESSOPEN",
        "SSH_AUTH_SOCK",
        "CLOUD_SHELL",
    ];
    for name in guarded {
        assert!(is_guarded(name), "{name}");
    }
    let (risky, prefixes) = ("variable/risky:", "variable/risky-prefix:");
    assert!(known(risky).count() > 150 && known(prefixes).count() > 10, "the table was read");
    for name in known(risky) {
        assert!(is_guarded(name) && is_guarded(&name.to_ascii_lowercase()), "{name}");
    }
    for prefix in known(prefixes) {
        assert!(is_guarded(&format!("{prefix}X")), "{prefix}");
    }
    for name in
        ["OPENSSL_CONF", "MAGIC", "BC_ENV_ARGS", "RUSTUP_TOOLCHAIN", "PHPRC", "LUA_INIT_5_4", "GH_PAGER"]
    {
        assert!(is_guarded(name), "{name}");
    }
    for name in [
        "PIP_DISABLE_PIP_VERSION_CHECK",
        "CMAKE_BUILD_TYPE",
        "RUST_LOG",
        "GEMINI_MODEL",
        "DATABASE_URL",
        "MY_PATH",
        "NODE_ENV",
        "REDIS_HOST",
        "OPENAI_API_KEY",
    ] {
        assert!(!is_guarded(name), "{name}");
    }
    let scratch = scratch();
    scratch.write("work/.gemini/.env", "X=1\nGOOGLE_GEMINI_BASE_URL=http://evil");
    scratch.write("home/.gemini/.env", "GOOGLE_GEMINI_BASE_URL=http://mine");
    let (env, report) = loaded(&scratch, ProjectTrust::Trusted, &DotenvOptions::default());
    assert_eq!(env.get("GOOGLE_GEMINI_BASE_URL"), Some("http://mine"));
    let [ignored] = &report.ignored[..] else { panic!("{report:?}") };
    assert_eq!(
        (ignored.line, ignored.name.as_str(), ignored.reason),
        (2, "GOOGLE_GEMINI_BASE_URL", IgnoreReason::Guarded)
    );
}

#[test]
fn of_an_untrusted_folder_and_those_above_it_no_file_is_opened() {
    let scratch = scratch();
    scratch.write("work/sub/.gemini/.env", "GOOGLE_API_KEY=hidden");
    scratch.write("work/sub/.env", "OTHER=1");
    scratch
        .write("work/.env", "GEMINI_API_KEY=theirs\nGOOGLE_GENAI_USE_VERTEXAI=true\nGOOGLE_CLOUD_PROJECT=p");
    scratch.write("home/.gemini/.env", "MINE=a b");
    scratch.write("home/.env", "GEMINI_API_KEY=own\nGOOGLE_GENAI_USE_VERTEXAI=false");
    let before = scratch.env(&[("SET", "before")]).iter().count();
    let (env, report) = loaded(&scratch, ProjectTrust::Untrusted, &DotenvOptions::default());
    assert_eq!((env.get("GEMINI_API_KEY"), env.get("MINE")), (Some("own"), Some("a b")));
    assert_eq!(env.iter().count(), before + 3, "nothing else is set");
    assert_eq!((report.offered, report.ignored, report.loaded.len()), (vec![], vec![], 2));
    let unread = ["work/sub/.gemini/.env", "work/sub/.env", "work/.env"].map(|file| scratch.path(file));
    assert_eq!(report.unread, unread);
}

#[test]
fn keys_and_cloud_projects_are_offered_and_never_set() {
    let scratch = scratch();
    scratch.write("work/sub/.gemini/.env", "GEMINI_API_KEY=near\nX=1");
    scratch.write("work/sub/.env", "gemini_api_key=lower\nGOOGLE_CLOUD_PROJECT=p\nGOOGLE_CLOUD_LOCATION=l");
    scratch.write("work/.env", "GEMINI_API_KEY=far\nGOOGLE_API_KEY=g\nGOOGLE_GENAI_USE_VERTEXAI=true");
    let (env, report) = loaded(&scratch, ProjectTrust::Trusted, &DotenvOptions::default());
    for name in ["GEMINI_API_KEY", "GOOGLE_API_KEY", "GOOGLE_CLOUD_PROJECT", "GOOGLE_GENAI_USE_VERTEXAI"] {
        assert_eq!(env.get(name), None, "{name}");
    }
    assert_eq!(env.get("X"), Some("1"));
    let offered: Vec<(&str, &str)> =
        report.offered.iter().map(|offer| (offer.name.as_str(), offer.value.reveal())).collect();
    assert_eq!(
        offered,
        [
            ("GEMINI_API_KEY", "near"),
            ("gemini_api_key", "lower"),
            ("GOOGLE_CLOUD_PROJECT", "p"),
            ("GOOGLE_CLOUD_LOCATION", "l"),
            ("GEMINI_API_KEY", "far"),
            ("GOOGLE_API_KEY", "g"),
        ]
    );
    assert!(report.offered[0].file.ends_with("sub/.gemini/.env"));
    assert!(!format!("{report:?}").contains("near"), "no value is shown by accident");
    // The user's own file sets them.
    scratch.write("home/.env", "GEMINI_API_KEY=mine\nGOOGLE_GENAI_USE_VERTEXAI=true\nHTTPS_PROXY=http://p");
    let (env, _) = loaded(&scratch, ProjectTrust::Trusted, &DotenvOptions::default());
    assert_eq!(
        (env.get("GEMINI_API_KEY"), env.get("GOOGLE_GENAI_USE_VERTEXAI"), env.get("HTTPS_PROXY")),
        (Some("mine"), Some("true"), Some("http://p"))
    );
}

#[test]
fn nothing_is_read_from_a_folder_above_that_is_never_to_be_trusted() {
    let scratch = scratch();
    scratch.write("work/sub/.env", "A=1");
    scratch.write("work/.env", "B=1");
    scratch.write(".env", "C=1");
    let options = DotenvOptions { border: Some(scratch.path("work")), ..DotenvOptions::default() };
    let (env, _) = loaded(&scratch, ProjectTrust::Trusted, &options);
    assert_eq!((env.get("A"), env.get("B"), env.get("C")), (Some("1"), None, None));
}

#[test]
fn excluded_names_and_local_files_can_be_left_out() {
    let scratch = scratch();
    scratch.write("work/sub/.gemini/.env", "DEBUG=1");
    scratch.write("work/.env", "DEBUG_MODE=1\nLOCAL=1");
    scratch.write("home/.env", "DEBUG_MODE=2\nHOME_VAR=1");
    let excluded = vec!["DEBUG".to_owned(), "DEBUG_MODE".to_owned()];
    let options = DotenvOptions { excluded, ..DotenvOptions::default() };
    let (env, report) = loaded(&scratch, ProjectTrust::Trusted, &options);
    assert_eq!((env.get("DEBUG"), env.get("DEBUG_MODE"), env.get("LOCAL")), (Some("1"), None, Some("1")));
    assert!(report.ignored.iter().all(|ignored| ignored.reason == IgnoreReason::Excluded));
    let options = DotenvOptions { ignore_local: true, ..options };
    let (env, _) = loaded(&scratch, ProjectTrust::Trusted, &options);
    assert_eq!((env.get("DEBUG"), env.get("LOCAL"), env.get("HOME_VAR")), (Some("1"), None, Some("1")));
}

#[test]
fn inside_the_home_the_search_ends_there() {
    let scratch = Scratch::new();
    std::fs::create_dir_all(scratch.path("home/app")).unwrap();
    scratch.write("home/.env", "PATH_LIKE=1\nPYTHONPATH=x");
    scratch.write(".env", "ABOVE=1");
    let mut env = Env::default();
    let report = load_dotenv(
        &mut env,
        &scratch.home(),
        &scratch.path("home/app"),
        ProjectTrust::Trusted,
        &DotenvOptions::default(),
    );
    assert_eq!((env.get("PYTHONPATH"), env.get("ABOVE")), (Some("x"), None));
    assert_eq!(report.loaded.len(), 1);
}

#[test]
fn a_folder_with_the_name_is_passed_over() {
    let scratch = scratch();
    scratch.write("work/.env/bin/python", "");
    let (_, report) = loaded(&scratch, ProjectTrust::Trusted, &DotenvOptions::default());
    assert_eq!(report.unreadable, []);
}
