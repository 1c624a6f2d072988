//! Programs that people use, through the proxy.

use std::process::Command;

use pollux_egress::server::ProxyAddress;
use pollux_egress::variables::{Endpoint, ForCommand, variables};

use crate::world::{Received, World, rules, web_server};

fn world() -> World {
    let world = World::on_loopback(rules(&["good.example"]));
    let received = Received::default();
    world.net.name("good.example", &[&["1.2.3.4"]]);
    let page = "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello";
    world.net.place("1.2.3.4:80", web_server(&received, page));
    world
}

/// The output of a program with the proxy's variables and no others that could matter; `None` if it is missing.
fn run(world: &World, program: &str, arguments: &[&str]) -> Option<String> {
    let endpoint = Endpoint::of(world.server.address()).unwrap();
    let path = std::env::vars().find(|(name, _)| name == "PATH").map(|(_, value)| value);
    let mut command = Command::new(program);
    command.args(arguments).env_clear().env("PATH", path.unwrap_or_default());
    command.envs(variables(&endpoint, &ForCommand::default()));
    let Ok(output) = command.output() else {
        println!("not tested: no {program}");
        return None;
    };
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    Some(text(&output.stdout) + &text(&output.stderr))
}

#[test]
fn curl_reaches_allowed_hosts_only() {
    let world = world();
    let Some(page) = run(&world, "curl", &["-sS", "http://good.example/x"]) else { return };
    assert_eq!(page, "hello");
    let ProxyAddress::Loopback { port, token } = world.server.address() else { panic!("no port") };
    let socks = format!("socks5h://{token}@127.0.0.1:{port}");
    let through = |url: &str| run(&world, "curl", &["-sS", "-x", &socks, url]).unwrap();
    assert_eq!(through("http://good.example/x"), "hello");
    assert!(through("http://evil.example/x").starts_with("curl: "));
    let refused = run(&world, "curl", &["-sS", "-i", "http://evil.example/x"]).unwrap();
    assert!(refused.contains("x-pollux-refused: host"), "{refused}");
    let refused = run(&world, "curl", &["-sS", "https://evil.example/x"]).unwrap();
    assert!(refused.contains("403"), "{refused}");
}

#[test]
fn python_reads_the_variables() {
    let world = world();
    let script = "import urllib.request as u; print(u.urlopen('http://good.example/').read().decode())";
    let Some(page) = run(&world, "python3", &["-S", "-c", script]) else { return };
    assert_eq!(page.trim(), "hello");
}
