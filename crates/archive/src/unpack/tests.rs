use std::fs;
use std::io::Write;

use flate2::Compression;
use flate2::write::{DeflateEncoder, GzEncoder};
use rawzip::{CompressionMethod, ZipArchiveWriter};
use tar::{EntryType, Header};
use tempfile::TempDir;

use super::*;

const SMALL: Limits = Limits { entries: 5, total: 3 << 20, entry: 2 << 20, ratio: 50 };

#[derive(Debug, Clone)]
enum Item<'a> {
    File(&'a [u8], &'a [u8]),
    Link(&'a [u8], &'a str),
    Other(&'a [u8], EntryType),
}

/// A zip of these files, whatever their names are.
fn zip_of(items: &[Item<'_>]) -> Vec<u8> {
    let mut bytes = Vec::new();
    let mut archive = ZipArchiveWriter::new(&mut bytes);
    for item in items {
        let (name, content, mode) = match item {
            Item::File(name, content) => (*name, *content, 0o100_755),
            Item::Link(name, target) => (*name, target.as_bytes(), 0o120_777),
            Item::Other(..) => continue,
        };
        let name = rawzip::path::EntryPath::verbatim(name);
        let builder =
            archive.new_file(name).compression_method(CompressionMethod::DEFLATE).unix_permissions(mode);
        let (mut entry, config) = builder.start().unwrap();
        let mut writer = config.wrap(DeflateEncoder::new(&mut entry, Compression::default()));
        writer.write_all(content).unwrap();
        let (encoder, descriptor) = writer.finish().unwrap();
        encoder.finish().unwrap();
        entry.finish(descriptor).unwrap();
    }
    archive.finish().unwrap();
    bytes
}

/// A tar.gz of these files; the names go into the header past the checks of the writer.
fn tar_of(items: &[Item<'_>]) -> Vec<u8> {
    let mut archive = tar::Builder::new(GzEncoder::new(Vec::new(), Compression::default()));
    append_all(&mut archive, items);
    archive.into_inner().unwrap().finish().unwrap()
}

fn append_all(archive: &mut tar::Builder<GzEncoder<Vec<u8>>>, items: &[Item<'_>]) {
    for item in items {
        let mut header = Header::new_gnu();
        let (name, content) = match item {
            Item::File(name, content) => (*name, *content),
            Item::Link(name, target) => {
                header.set_entry_type(EntryType::Symlink);
                header.set_link_name_literal(target).unwrap();
                (*name, b"".as_slice())
            }
            Item::Other(name, kind) => {
                header.set_entry_type(*kind);
                header.set_link_name_literal("a").unwrap();
                (*name, b"".as_slice())
            }
        };
        header.as_old_mut().name[..name.len()].copy_from_slice(name);
        header.set_size(content.len() as u64);
        header.set_mode(0o6755);
        header.set_cksum();
        archive.append(&header, content).unwrap();
    }
}

fn unpacked(bytes: &[u8], limits: &Limits) -> (TempDir, Result<(), UnpackError>) {
    let folder = tempfile::tempdir().unwrap();
    let archive = folder.path().join("archive");
    File::create(&archive).unwrap().write_all(bytes).unwrap();
    let into = folder.path().join("into");
    fs::create_dir(&into).unwrap();
    let result = unpack(&archive, &into, limits);
    (folder, result)
}

#[test]
fn files_folders_and_links_inside_are_unpacked() {
    let items = [
        Item::File(b"one/SKILL.md", b"text"),
        Item::Link(b"one/same.md", "SKILL.md"),
        Item::File(b"./two", b"2"),
    ];
    for bytes in [zip_of(&items), tar_of(&items)] {
        let (folder, result) = unpacked(&bytes, &Limits::default());
        result.unwrap();
        let into = folder.path().join("into");
        assert_eq!(fs::read_to_string(into.join("one/same.md")).unwrap(), "text");
        assert_eq!(fs::read_to_string(into.join("two")).unwrap(), "2");
        #[cfg(unix)]
        {
            use std::os::unix::fs::PermissionsExt as _;
            let mode = fs::metadata(into.join("two")).unwrap().permissions().mode();
            assert_eq!(mode & 0o7100, 0o100, "executable, and nothing that lends rights");
        }
    }
}

#[test]
fn entries_that_could_escape_are_refused_by_name() {
    let cases: [(Item<'_>, &str); 9] = [
        (Item::File(b"../out", b"x"), "`../out` points outside the folder"),
        (Item::File(b"a/../../out", b"x"), "points outside the folder"),
        (Item::File(b"/tmp/out", b"x"), "`/tmp/out` has an absolute path"),
        (Item::File(b"C:\\out", b"x"), "has an absolute path"),
        (Item::File(b"a\x1b[31m", b"x"), "`a\\u{1b}[31m` has control characters in its name"),
        (Item::File(b"a\xff", b"x"), "not UTF-8"),
        (
            Item::Link(b"a", "/etc/passwd"),
            "`a` is a link that points outside the folder or to a missing file (`/etc/passwd`)",
        ),
        (Item::Link(b"a/b", "../../x"), "is a link that points outside"),
        (Item::Link(b"a", "missing"), "is a link that points outside the folder or to a missing file"),
    ];
    for (item, wanted) in cases {
        let items = [item];
        for bytes in [zip_of(&items), tar_of(&items)] {
            let (folder, result) = unpacked(&bytes, &Limits::default());
            let said = result.unwrap_err().to_string();
            assert!(said.contains(wanted), "{said} should say {wanted}");
            assert!(!folder.path().join("out").exists());
        }
    }
}

#[test]
fn hard_links_and_devices_are_refused() {
    for (kind, wanted) in [
        (EntryType::Link, "hard link"),
        (EntryType::Block, "is not a regular file"),
        (EntryType::Char, "is not a regular file"),
        (EntryType::Fifo, "is not a regular file"),
    ] {
        let (_folder, result) = unpacked(&tar_of(&[Item::File(b"a", b"x"), Item::Other(b"b", kind)]), &SMALL);
        let said = result.unwrap_err().to_string();
        assert!(said.contains("`b` is") && said.contains(wanted), "{said}");
    }
}

#[test]
fn a_bomb_is_stopped_while_it_streams() {
    let zeros = vec![0; 8 << 20];
    let wide: Vec<Vec<u8>> = (0..5).map(|n| format!("f{n}").into_bytes()).collect();
    let noise: Vec<u8> = (0..(1 << 20)).map(|n: u32| (n.wrapping_mul(2_654_435_761) >> 13) as u8).collect();
    let six: Vec<Vec<u8>> = (0..6).map(|n| format!("n{n}").into_bytes()).collect();
    let cases: [(Vec<Item<'_>>, Limits, &str); 4] = [
        (vec![Item::File(b"zeros", &zeros)], SMALL, "`zeros` unpacks to more than 50 times"),
        (
            vec![Item::File(b"zeros", &zeros)],
            Limits { ratio: 100_000, ..SMALL },
            "`zeros` is larger than 2 MiB",
        ),
        (
            wide.iter().map(|name| Item::File(name, &noise)).collect(),
            SMALL,
            "`f3` exceeds the total size limit of 3 MiB",
        ),
        (six.iter().map(|name| Item::File(name, b"x")).collect(), SMALL, "`n5` exceeds the limit of 5"),
    ];
    for (items, limits, wanted) in &cases {
        for bytes in [zip_of(items), tar_of(items)] {
            let (folder, result) = unpacked(&bytes, limits);
            let said = result.unwrap_err().to_string();
            let cut_off = said.contains("far more than its own size");
            assert!(said.contains(wanted) || cut_off, "{said} should say {wanted}");
            let written: u64 = fs::read_dir(folder.path().join("into"))
                .unwrap()
                .map(|entry| entry.unwrap().metadata().unwrap().len())
                .sum();
            assert!(written <= limits.total, "{written} bytes were written");
        }
    }
}

#[test]
fn a_long_name_cannot_fill_the_memory() {
    let mut archive = tar::Builder::new(GzEncoder::new(Vec::new(), Compression::default()));
    let mut header = Header::new_gnu();
    header.set_entry_type(EntryType::GNULongName);
    header.set_size(64 << 20);
    header.set_cksum();
    archive.append(&header, io::repeat(b'a').take(64 << 20)).unwrap();
    let bytes = archive.into_inner().unwrap().finish().unwrap();
    for limits in [SMALL, Limits::workspace()] {
        let (_folder, result) = unpacked(&bytes, &limits);
        assert!(result.unwrap_err().to_string().contains("the headers of an entry are too long"));
    }
}

#[test]
fn the_same_name_twice_is_refused() {
    let items = [Item::File(b"a", b"1"), Item::File(b"./a", b"2")];
    for bytes in [zip_of(&items), tar_of(&items)] {
        let said = unpacked(&bytes, &SMALL).1.unwrap_err().to_string();
        assert!(said.contains("`a` occurs twice"), "{said}");
    }
}

#[test]
fn damaged_archives_are_distinguished_from_malicious_ones() {
    let whole = zip_of(&[Item::File(b"a", b"some text that is packed")]);
    let mut flipped = whole.clone();
    flipped[35] ^= 0xff;
    let cut = &whole[..whole.len() / 2];
    let tar = tar_of(&[Item::File(b"a", &[7; 4096])]);
    for bytes in [flipped.as_slice(), cut, &tar[..tar.len() / 2]] {
        assert!(matches!(unpacked(bytes, &SMALL).1, Err(UnpackError::Damaged { .. })));
    }
    assert!(matches!(unpacked(b"hello", &SMALL).1, Err(UnpackError::UnknownFormat { .. })));
    assert!(matches!(unpacked(b"", &SMALL).1, Err(UnpackError::UnknownFormat { .. })));
}

#[cfg(unix)]
mod hostile;
