//! How long an editor waits for the first answer, and what that takes in memory.

use std::io::{BufRead, BufReader, Write};
use std::process::{Command, Stdio};
use std::time::Instant;

use crate::measure::{Cost, Series, resident_kib, table};
use crate::scenes::{Bench, Runs, interleaved};

const REQUEST: &[u8] = br#"{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":1}}
"#;

/// From the start of the program to its answer to `initialize`; the memory is that of this moment.
pub(crate) fn initialize(bench: &Bench) {
    let place = bench.place("acp");
    let mut runs: Runs<'_> = Vec::new();
    for (name, program) in bench.builds() {
        let place = &place;
        runs.push((
            Series::new(&format!("{name} acp")),
            Box::new(move || first_answer(&mut place.command(&program, None, &["acp"]))),
        ));
    }
    table("initialize of an editor", &interleaved(bench, runs));
}

fn first_answer(command: &mut Command) -> Cost {
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null());
    let started = Instant::now();
    let mut child = command.spawn().expect("start the program");
    let mut input = child.stdin.take().expect("stdin is piped");
    input.write_all(REQUEST).and_then(|()| input.flush()).expect("send the request");
    let mut answer = String::new();
    let mut output = BufReader::new(child.stdout.take().expect("stdout is piped"));
    output.read_line(&mut answer).expect("read the answer");
    let wall = started.elapsed();
    let peak_kib = resident_kib(child.id());
    drop(input);
    let code = child.wait().ok().and_then(|status| status.code()).unwrap_or(-1);
    Cost { wall, peak_kib, code, ..Cost::default() }
}
