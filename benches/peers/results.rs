//! The figures of a run, as they stand in `docs/src/benchmarks.json`.

use std::fs;
use std::path::Path;

use serde_json::{Map, Value, json};

/// `programs` names them in order with version and wire; `scenes` has figures, or a reason, for each of them.
#[derive(Debug, Clone, Default)]
pub(crate) struct Results(Value);

impl Results {
    pub(crate) fn new(machine: Value, rounds: usize, programs: Vec<Value>) -> Self {
        Self(json!({"machine": machine, "rounds": rounds, "programs": programs, "scenes": {}}))
    }

    /// Nothing where no file is.
    pub(crate) fn read(file: &Path) -> Self {
        let text = fs::read_to_string(file).unwrap_or_else(|_| "{}".to_owned());
        Self(serde_json::from_str(&text).expect("the results of the last run"))
    }

    #[expect(clippy::disallowed_methods, reason = "a bench's own report needs no atomic write")]
    pub(crate) fn write(&self, file: &Path) {
        fs::write(file, format!("{:#}\n", self.0)).expect("write the results");
    }

    /// These, with what the newer run measured in place of the old.
    pub(crate) fn updated_with(self, newer: Self) -> Self {
        let mut scenes = self.0["scenes"].as_object().cloned().unwrap_or_default();
        scenes.extend(newer.0["scenes"].as_object().cloned().unwrap_or_default());
        let mut all = newer.0;
        all["scenes"] = Value::Object(scenes);
        Self(all)
    }

    pub(crate) fn put(&mut self, scene: &str, program: &str, figures: Map<String, Value>) {
        self.0["scenes"][scene][program] = Value::Object(figures);
    }

    pub(crate) fn figure(&self, scene: &str, program: &str, measure: &str) -> Option<f64> {
        self.0["scenes"][scene][program][measure].as_f64()
    }

    /// Why there is no figure.
    pub(crate) fn reason(&self, scene: &str, program: &str) -> Option<&str> {
        self.0["scenes"][scene][program]["reason"].as_str()
    }

    pub(crate) fn programs(&self) -> &[Value] {
        self.0["programs"].as_array().map_or(&[], Vec::as_slice)
    }

    pub(crate) fn rounds(&self) -> u64 {
        self.0["rounds"].as_u64().unwrap_or(0)
    }

    pub(crate) fn machine(&self) -> &str {
        self.0["machine"].as_str().unwrap_or_default()
    }
}
