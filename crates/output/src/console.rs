//! Joins a run's events to stdout, stderr and telemetry.
//!
//! For front ends that print as they go: a headless run, and line mode, which exports what it shows itself. It
//! decides what a closed or full stdout means for the exit code; what is written is up to the format.

use std::io::{self, Write};
use std::ops::ControlFlow;
use std::path::PathBuf;
use std::sync::Arc;

use pollux_config::env::Env;
use pollux_config::groups::{Secret, Telemetry};
use pollux_domain::approval::ApprovalMode;
use pollux_domain::event::{Event, TurnEnd};
use pollux_domain::exit::{ExitKind, Received};
use pollux_domain::failure::Failure;
use pollux_domain::redact::redacted;
use pollux_domain::terminal_text::plain;
use pollux_domain::time::SystemClock;
use pollux_otlp::{Options, resource};
use serde_json::Value;

use crate::headless::{Renderer, Style, is_broken_pipe};
use crate::receipt::{PriceOf, ReceiptFile};
use crate::telemetry::{Choice, Configuration, Destination, Exporter, Identity, Setup, choose};

/// The output streams of a run.
pub struct Console {
    renderer: Renderer,
    exporter: Option<Exporter>,
    receipt: Option<ReceiptFile>,
    out: Box<dyn Write + Send>,
    err: Box<dyn Write + Send>,
    /// Why stdout can no longer be written.
    broken: Option<io::Error>,
    debug: bool,
}

impl Console {
    /// On the process's own streams.
    pub fn of_process(style: Style) -> Self {
        Self::new(style, Box::new(io::stdout()), Box::new(io::stderr()))
    }

    pub fn new(style: Style, out: Box<dyn Write + Send>, err: Box<dyn Write + Send>) -> Self {
        let debug = style.debug;
        Self { renderer: Renderer::new(style), exporter: None, receipt: None, out, err, broken: None, debug }
    }

    /// Also exports events to a file or a collector from now on, if the settings ask for it. What keeps it from doing so
    /// is a warning, never the reason why a run fails.
    pub fn open_telemetry(
        &mut self,
        settings: &Telemetry,
        env: &Env,
        identity: Identity,
        secrets: &[Secret],
        configuration: &Configuration,
    ) {
        if !settings.enabled {
            return;
        }
        let (destination, place) = match choose(settings) {
            Choice::File(path) => {
                let place = format!("could not open `{}`", path.display());
                (Destination::File { path, in_lines: false }, place)
            }
            Choice::Collector { endpoint, protocol } => {
                let (options, problems) = match Options::new(&endpoint, protocol, env, &identity.version) {
                    Ok(read) => read,
                    // The address is not repeated: it may hold a password.
                    Err(why) => {
                        return self.no_telemetry(&format!("invalid `telemetry.otlpEndpoint`: {why}"));
                    }
                };
                problems.iter().for_each(|problem| self.note(&format!("Warning: {problem}")));
                let resource = resource(env, &identity.version, &identity.session);
                let tells_problems = self.debug;
                let destination =
                    Destination::Collector { options: Box::new(options), resource, tells_problems };
                (destination, "could not start a thread".to_owned())
            }
            Choice::Nothing(why) => return self.no_telemetry(why),
        };
        let setup = Setup {
            destination,
            texts_allowed: settings.log_prompts,
            traces: settings.traces,
            identity,
            secrets: secrets.to_vec(),
            clock: Arc::new(SystemClock),
        };
        if let Err(error) = self.start_exporter(setup, configuration) {
            self.no_telemetry(&format!("{place}: {error}"));
        }
    }

    fn no_telemetry(&mut self, why: &str) {
        self.note(&format!("Warning: telemetry is off: {why}"));
    }

    /// Also writes a receipt to this file, after every turn.
    pub fn open_receipt(&mut self, file: PathBuf, price: PriceOf) {
        self.receipt = Some(ReceiptFile::new(file, price));
    }

    /// Writes the same records to a log of the session, one a line; returns whether it could be opened.
    pub fn open_debug_log(
        &mut self,
        file: PathBuf,
        texts_allowed: bool,
        identity: Identity,
        secrets: &[Secret],
        configuration: &Configuration,
    ) -> bool {
        let (secrets, clock) = (secrets.to_vec(), Arc::new(SystemClock));
        let destination = Destination::File { path: file, in_lines: true };
        let setup = Setup { destination, texts_allowed, traces: false, identity, secrets, clock };
        self.start_exporter(setup, configuration).is_ok()
    }

    fn start_exporter(&mut self, setup: Setup, configuration: &Configuration) -> io::Result<()> {
        let mut exporter = Exporter::open(setup)?;
        exporter.configuration(configuration);
        self.exporter = Some(exporter);
        Ok(())
    }

    /// The effective mode and sandbox, for programs that read the output.
    pub fn set_conditions(&mut self, mode: ApprovalMode, sandbox: Value) {
        self.renderer.set_conditions(mode, sandbox);
    }

    /// A line for the user. Errors of stderr are ignored.
    pub fn note(&mut self, line: &str) {
        let _ = writeln!(self.err, "{}", redacted(&plain(line)));
    }

    /// Exports an event that is shown in another way.
    pub fn export(&mut self, event: &Event) {
        if let Some(exporter) = &mut self.exporter {
            exporter.event(event);
        }
        let written = self.receipt.as_mut().map(|receipt| receipt.event(event));
        if let Some(Err(error)) = written {
            self.note(&format!("Warning: the receipt was not written: {error}"));
        }
    }

    /// Handles one event; `Break` if stdout was closed and the run should stop.
    pub fn take(&mut self, event: &Event) -> ControlFlow<()> {
        self.export(event);
        if self.broken.is_none() {
            self.broken = self.renderer.event(event, &mut *self.out, &mut *self.err).err();
        }
        if self.broken.is_some() { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    }

    /// Whether stdout was closed.
    pub fn is_broken(&self) -> bool {
        self.broken.is_some()
    }

    /// The turn is over.
    pub fn finish(mut self, end: &TurnEnd, signal: Option<Received>) -> ExitKind {
        self.close_export();
        if let Some(error) = self.broken.take() {
            return self.unwritable(&error);
        }
        match self.renderer.finish(end, signal, &mut *self.out, &mut *self.err) {
            Ok(exit) => exit,
            Err(error) => self.unwritable(&error),
        }
    }

    /// A turn is over and another may follow; statistics count from here on.
    pub fn end_turn(&mut self, end: &TurnEnd) -> ExitKind {
        self.conclude(|renderer, out, err| renderer.finish(end, None, out, err))
    }

    /// What was asked for failed without a turn, and another may follow.
    pub fn fail_turn(&mut self, failure: &Failure) -> ExitKind {
        self.conclude(|renderer, out, err| renderer.fail(failure, out, err))
    }

    fn conclude(
        &mut self,
        write: impl FnOnce(&mut Renderer, &mut dyn Write, &mut dyn Write) -> io::Result<ExitKind>,
    ) -> ExitKind {
        let exit = match self.broken.take() {
            Some(error) => Err(error),
            None => write(&mut self.renderer, &mut *self.out, &mut *self.err),
        };
        self.renderer.next_turn();
        exit.unwrap_or_else(|error| {
            let exit = self.unwritable(&error);
            self.broken = Some(error);
            exit
        })
    }

    /// The run failed outside a turn.
    pub fn fail(mut self, failure: &Failure) -> ExitKind {
        self.close_export();
        if let Some(error) = self.broken.take() {
            return self.unwritable(&error);
        }
        match self.renderer.fail(failure, &mut *self.out, &mut *self.err) {
            Ok(exit) => exit,
            Err(error) => self.unwritable(&error),
        }
    }

    fn close_export(&mut self) {
        if let Some(exporter) = &mut self.exporter {
            exporter.finish();
        }
    }

    /// A reader that closes the pipe is not an error; a full disk is.
    fn unwritable(&mut self, error: &io::Error) -> ExitKind {
        if is_broken_pipe(error) {
            return ExitKind::Success;
        }
        self.note(&format!("could not write to stdout: {error}"));
        ExitKind::Failure
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use pollux_config::groups::{Dialect, OutputFormat};
    use pollux_domain::failure::Colour;
    use std::sync::Mutex;

    struct Failing(io::ErrorKind);

    impl Write for Failing {
        fn write(&mut self, _: &[u8]) -> io::Result<usize> {
            Err(self.0.into())
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    /// What the console wrote, readable after it took the writer.
    #[derive(Clone, Default)]
    struct Shared(Arc<Mutex<Vec<u8>>>);

    impl Write for Shared {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            self.0.lock().unwrap().write(bytes)
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    fn style() -> Style {
        Style {
            format: OutputFormat::Text,
            dialect: Dialect::Pollux,
            raw: false,
            colour: Colour::None,
            clock: Arc::new(SystemClock),
            shows_calls: false,
            debug: false,
        }
    }

    fn exit_when_stdout(kind: io::ErrorKind) -> u8 {
        let mut console = Console::new(style(), Box::new(Failing(kind)), Box::new(io::sink()));
        assert_eq!(console.take(&Event::Text("x".into())), ControlFlow::Break(()));
        console.finish(&TurnEnd::Cancelled, None).code()
    }

    #[test]
    fn a_closed_stdout_ends_the_run_quietly_and_a_full_disk_does_not() {
        assert_eq!(exit_when_stdout(io::ErrorKind::BrokenPipe), 0);
        assert_eq!(exit_when_stdout(io::ErrorKind::StorageFull), 1);
    }

    #[test]
    fn telemetry_that_cannot_be_written_is_a_warning_and_none_when_it_is_off() {
        let identity = || Identity {
            session: "s1".to_owned(),
            provider: "gemini".to_owned(),
            installation: None,
            version: "1".to_owned(),
            interactive: false,
            auth_type: None,
        };
        let warning = |settings: &Telemetry| {
            let err = Shared::default();
            let mut console = Console::new(style(), Box::new(io::sink()), Box::new(err.clone()));
            let env = Env::default();
            console.open_telemetry(settings, &env, identity(), &[], &Configuration::default());
            assert_eq!(console.finish(&TurnEnd::Cancelled, None).code(), 130);
            let written = err.0.lock().unwrap().clone();
            String::from_utf8(written).unwrap()
        };
        let dir = tempfile::tempdir().unwrap();
        let on = Telemetry { enabled: true, ..Telemetry::default() };
        let nowhere = Telemetry { otlp_endpoint: Some(String::new()), ..on.clone() };
        assert!(warning(&nowhere).contains("Warning: telemetry is off: neither `telemetry.outfile`"));
        let wrong = Telemetry { otlp_endpoint: Some("me:hunter22@host".to_owned()), ..on.clone() };
        let text = warning(&wrong);
        assert!(text.contains("invalid `telemetry.otlpEndpoint`") && !text.contains("hunter22"), "{text}");
        let gcp = Telemetry { target: "gcp".to_owned(), ..on.clone() };
        assert!(warning(&gcp).contains("OpenTelemetry collector"));
        let unwritable = Telemetry { outfile: Some(dir.path().to_owned()), ..on };
        assert!(warning(&unwritable).contains("Warning: telemetry is off: could not open"));
        let off = Telemetry { enabled: false, ..unwritable };
        assert!(!warning(&off).contains("telemetry"));
    }
}
