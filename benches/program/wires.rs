//! The same work on every wire; ratios are against Gemini's.

use pollux_test_support::wires::{FakeWire, Said, Wire};
use serde_json::json;

use crate::measure::{Series, run, table};
use crate::scenes::{Bench, Runs, interleaved, put};

/// One prompt, 2,000 pieces and fifty calls.
pub(crate) fn wires(bench: &Bench) {
    measured(bench, "one prompt", &|| vec![Said::text("Hello.")]);
    measured(bench, "2000 chunks", &|| {
        let text = (0..2_000).map(|n| format!("word{n} ")).collect();
        vec![Said { text, ..Said::text("") }]
    });
    measured(bench, "chain of 50 calls", &|| {
        let call = |line: usize| {
            Said::call("read_file", json!({"file_path": "data.txt", "start_line": line, "end_line": line}))
        };
        (1..=50).map(call).chain([Said::text("Done.")]).collect()
    });
}

fn measured(bench: &Bench, title: &str, script: &dyn Fn() -> Vec<Said>) {
    let pollux = bench.pollux();
    let mut runs: Runs<'_> = Vec::new();
    for wire in Wire::ALL {
        let place = bench.place(&format!("wires-{}-{}", wire.name(), title.replace(' ', "-")));
        put(&place.project().join("data.txt"), &(1..=60).map(|n| format!("line {n}\n")).collect::<String>());
        let pollux = pollux.clone();
        runs.push((
            Series::new(wire.name()),
            Box::new(move || {
                let server = FakeWire::start(wire, script());
                let mut settings = wire.settings(&server.url());
                settings["security"] = json!({"folderTrust": {"enabled": false}});
                put(&place.home().join(".gemini/settings.json"), &settings.to_string());
                let args = ["-p", "go", "-m", wire.model(), "-o", "stream-json", "--approval-mode", "yolo"];
                let mut command = place.command(&pollux, None, &args);
                command.envs(wire.variables(&server.url(), "bench-key"));
                run(&mut command)
            }),
        ));
    }
    table(&format!("{title}, on each wire"), &interleaved(bench, runs));
}
