//! Another mode of a session: other files and another network, with the same processes and temporary files.

use std::fs;
use std::io::Write as _;
use std::sync::{Arc, mpsc};

use pollux_sandbox::{Doors, Grants, Level, Sandbox, SandboxRequest};

use crate::scene::{LEVELS, Outside, Scene, request, scratch, tell};

fn doors(sender: mpsc::Sender<u16>, ports: &[u16]) -> Doors {
    let open = move |opened: Vec<(u16, std::net::TcpListener)>| {
        opened.into_iter().for_each(|(port, _listener)| sender.send(port).unwrap());
    };
    Doors { ports: ports.to_vec(), open: Arc::new(open), variables: vec![("P".to_owned(), "1".to_owned())] }
}

/// A sandbox with its own network, and its request.
fn first(level: Level, ports: &[u16]) -> Option<(Scene, SandboxRequest, mpsc::Receiver<u16>)> {
    let folder = scratch()?;
    for path in ["home", "w"] {
        fs::create_dir_all(folder.path().join(path)).unwrap();
    }
    let (sender, opened) = mpsc::channel();
    let grants = Grants { doors: Some(doors(sender, ports)), ..Grants::default() };
    let request = SandboxRequest { network: false, grants, ..request(folder.path(), level) };
    let sandbox = Sandbox::open(&request).ok()?;
    Some((Scene { sandbox, outside: Outside::new(), folder, _sockets: Vec::new() }, request, opened))
}

/// Runs a script in another sandbox of the same scene.
fn also(scene: &mut Scene, sandbox: Sandbox, script: &str) -> (bool, String, Sandbox) {
    let own = std::mem::replace(&mut scene.sandbox, sandbox);
    let (status, said) = scene.shell(script);
    (status.success(), said, std::mem::replace(&mut scene.sandbox, own))
}

const FETCH: &str =
    "python3 -c 'import urllib.request as u; print(u.urlopen(\"http://127.0.0.1:8124/own\").read())'";

#[test]
fn temporary_files_and_servers_survive_a_change_of_the_mode() {
    let Some((mut scene, request, opened)) = first(Level::Namespaces, &[3128]) else { return };
    fs::File::create(scene.folder.path().join("w/own")).unwrap().write_all(b"mine").unwrap();
    let serve = "cd $PWD; echo kept > /tmp/kept; python3 -m http.server --bind 127.0.0.1 8124 >/dev/null 2>&1 & \
                 for i in $(seq 100); do python3 -c 'import socket; socket.create_connection((\"127.0.0.1\", 8124))' \
                 2>/dev/null && break; sleep 0.1; done; echo $!";
    let (status, pid) = scene.shell(serve);
    assert!(status.success(), "{pid}");
    assert_eq!(opened.recv().unwrap(), 3128);
    assert_eq!(scene.sandbox.listening(), [8124]);
    // Read-only and without network, as in plan mode: the proxy's port is not opened a second time.
    let grants = Grants { read_only: true, ..Grants::default() };
    let plan = scene.sandbox.for_mode(&SandboxRequest { grants, ..request.clone() }).unwrap();
    let (done, said, plan) = also(
        &mut scene,
        plan,
        &format!("cat /tmp/kept && {FETCH} && ! touch new 2>/dev/null && echo more > /tmp/more"),
    );
    assert!(done && said.contains("kept") && said.contains("mine"), "{said}");
    assert!(opened.try_recv().is_err());
    // The network of this machine, as in yolo mode: files are shared, the loopback is not.
    let open = SandboxRequest { network: true, grants: Grants::default(), ..request.clone() };
    let open = scene.sandbox.for_mode(&open).unwrap();
    let (done, said, open) = also(
        &mut scene,
        open,
        &format!("cat /tmp/kept /tmp/more && touch made && ! {FETCH} 2>/dev/null && kill -0 {pid}"),
    );
    assert!(done && said.contains("more"), "{said}");
    // Another set of rights cannot be used through the processes of this one.
    let (done, said, plan) = also(
        &mut scene,
        plan,
        &format!("! touch /proc/{}/root$PWD/stolen 2>/dev/null && kill {pid}", pid.trim()),
    );
    assert!(done && !scene.folder.path().join("w/stolen").exists(), "{said}");
    drop((plan, open));
}

#[test]
fn a_session_that_begins_with_an_open_network_gets_its_own_later() {
    let Some((mut scene, request, opened)) = first(Level::Namespaces, &[3128]) else { return };
    let open = SandboxRequest { network: true, grants: Grants::default(), ..request.clone() };
    scene.sandbox = Sandbox::open(&open).unwrap();
    opened.try_iter().count();
    assert!(scene.shell("echo kept > /tmp/kept").0.success());
    let own = scene.sandbox.for_mode(&request).unwrap();
    let (done, said, own) = also(
        &mut scene,
        own,
        "cat /tmp/kept && cat /sys/class/net/*/address; ls /proc/self/net; grep -c : /proc/net/dev",
    );
    assert!(done && said.contains("kept") && said.lines().last() == Some("1"), "only the loopback: {said}");
    assert_eq!(opened.recv().unwrap(), 3128);
    // A port that is granted later is opened in the same network; one that was closed can be opened again.
    let (sender, more) = mpsc::channel();
    let grants = Grants { doors: Some(doors(sender, &[3128, 8125])), ..Grants::default() };
    let wider = SandboxRequest { grants, ..request };
    for _ in 0..2 {
        let expanded = own.with_rights(&wider).unwrap();
        assert_eq!(more.try_iter().collect::<Vec<_>>(), [8125]);
        drop(expanded);
        own.forget_port(8125);
    }
}

#[test]
fn bubblewrap_keeps_temporary_files() {
    let Some((mut scene, request, _opened)) = first(Level::Bubblewrap, &[3128]) else { return };
    assert!(scene.shell("echo kept > /tmp/kept").0.success());
    let grants = Grants { read_only: true, ..Grants::default() };
    let plan = scene.sandbox.for_mode(&SandboxRequest { grants, ..request }).unwrap();
    let (done, said, _plan) = also(&mut scene, plan, "cat /tmp/kept && ! touch new 2>/dev/null");
    assert!(done && said.contains("kept"), "{said}");
}

/// A device that is harmless, and that no program needs.
const DEVICE: &str = "/dev/cpu_dma_latency";

#[test]
fn a_device_that_the_user_gives_can_be_opened_and_no_other_one() {
    if std::fs::File::open(DEVICE).is_err() {
        return tell(&format!("not tested: no {DEVICE}"));
    }
    let open = format!("test -c {DEVICE} && : < {DEVICE}");
    for level in LEVELS {
        for (device, expected) in [(Some(DEVICE), true), (None, false), (Some("/dev/console"), false)] {
            let Some(scene) = Scene::new(level, true) else { continue };
            let mut wish = request(scene.folder.path(), level);
            wish.grants.devices = device.map(Into::into).into_iter().collect();
            let sandbox = pollux_sandbox::Sandbox::open(&wish).unwrap();
            let scene = Scene { sandbox, ..scene };
            let (status, said) = scene.run("/bin/sh".as_ref(), &["-c", &open]);
            assert_eq!(status.success(), expected, "{level} {device:?}: {said}");
            let (status, said) = scene.run("/bin/sh".as_ref(), &["-c", ": < /dev/console"]);
            assert!(!status.success(), "{level} {device:?}: {said}");
            let report = scene.sandbox.confinement().report();
            let line = report.iter().find(|right| right.name == "devices").unwrap();
            assert_eq!(line.holding == pollux_sandbox::Holding::Held, !expected, "{level}");
        }
    }
}
