//! What a turn costs does not depend on how many went before it.

use std::fs;

use pollux_domain::event::CallStatus;
use pollux_session::{Recorder, SessionFormat};

use crate::scratch::{Scratch, at, call, reply, result, text};

const TURNS: i64 = 10_000;

/// Bytes that this thread asked the system to write, by the system's own count; `None` where it keeps none.
fn written() -> Option<u64> {
    let counts = fs::read_to_string("/proc/thread-self/io").ok()?;
    counts.lines().find_map(|line| line.strip_prefix("wchar: "))?.parse().ok()
}

fn turn(recorder: &mut Recorder, number: i64) {
    let now = number * 4;
    recorder.user(&text("what is in a.txt?"), None, at(now)).unwrap();
    // Of one length, whatever the number.
    let id = format!("read_file__{number:06}");
    recorder.reply(&reply("Reading it.", vec![call(&id, None)]), at(now + 1)).unwrap();
    recorder.results(&[result(&id, CallStatus::Success, "a few words")], at(now + 2)).unwrap();
    recorder.reply(&reply("A few words.", Vec::new()), at(now + 3)).unwrap();
}

#[test]
fn the_ten_thousandth_turn_writes_as_many_bytes_as_the_second() {
    if written().is_none() {
        eprintln!("skipped: this system does not count what a thread writes");
        return;
    }
    for format in [SessionFormat::Json, SessionFormat::Jsonl] {
        let scratch = Scratch::new();
        let mut recorder = scratch.recorder("long", format, 0);
        let mut costs = Vec::new();
        for number in 0..TURNS {
            let before = written().unwrap();
            turn(&mut recorder, number);
            costs.push(written().unwrap() - before);
        }
        // The first one also creates the file.
        let later = costs.get(1..).unwrap();
        let size = fs::metadata(recorder.path().unwrap()).unwrap().len();
        assert!(size > 5_000_000, "{size}");
        // A write that crosses a page is noted beside the file first, now and then; that is bounded too.
        let (least, most) = (later.iter().min().unwrap(), later.iter().max().unwrap());
        assert!(*least > 0 && *most < least * 2, "{format:?}: between {least} and {most} bytes");
        let sum = |turns: &[u64]| turns.iter().sum::<u64>();
        let (early, late) = (sum(later.get(..1000).unwrap()), sum(later.get(later.len() - 1000..).unwrap()));
        assert!(
            late * 100 < early * 102,
            "{format:?}: {early} bytes for the first 1,000, {late} for the last"
        );
    }
}
