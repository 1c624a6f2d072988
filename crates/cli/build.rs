//! Options of the linker that make the program smaller and quicker to start.

#![expect(
    clippy::disallowed_methods,
    reason = "cargo tells build scripts everything through the environment"
)]

use std::env;
use std::process::Command;

/// Builds a position-independent program if it is set.
const PIE: &str = "POLLUX_PIE";
/// The C library reads packed relocations from this version on.
const PACKED_RELOCATIONS: (u32, u32) = (2, 36);

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    let is = |name: &str, value: &str| env::var(name).is_ok_and(|found| found == value);
    let native = env::var("HOST").ok() == env::var("TARGET").ok();
    let gnu = is("CARGO_CFG_TARGET_OS", "linux") && is("CARGO_CFG_TARGET_ENV", "gnu");
    println!("cargo::rerun-if-env-changed={PIE}");
    // Relocating a megabyte of tables would be half of the start. Heap, stack and libraries stay at random addresses.
    if gnu && env::var_os(PIE).is_none() {
        println!("cargo::rustc-link-arg-bins=-no-pie");
        return;
    }
    // A program that was linked on this machine needs this machine's C library or a newer one in any case.
    if native && gnu && glibc().is_some_and(|version| version >= PACKED_RELOCATIONS) {
        println!("cargo::rustc-link-arg-bins=-Wl,-z,pack-relative-relocs");
    }
}

/// The version of this machine's C library.
fn glibc() -> Option<(u32, u32)> {
    let output = Command::new("getconf").arg("GNU_LIBC_VERSION").output().ok()?;
    let text = String::from_utf8(output.stdout).ok()?;
    let (major, minor) = text.trim().strip_prefix("glibc ")?.split_once('.')?;
    let minor = minor.split('.').next()?;
    Some((major.parse().ok()?, minor.parse().ok()?))
}
