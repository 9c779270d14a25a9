//! OPS-1, API-6: the mistakes of the first hour, and what they are told.

use std::fs;
use std::io::{Read, Write};
use std::net::TcpListener;

use crate::server::{Server, code, text, tidemill};

#[test]
fn no_server_is_told_with_the_address_and_what_to_do() {
    let dir = tempfile::tempdir().unwrap();
    let free = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    for command in [&["job", "ls"][..], &["job", "run", "default/a"], &["events", "tail"], &["rebuild"]] {
        let output = tidemill(dir.path(), &[command, &["--server", &free.to_string()]].concat());
        let told = text(&output.stderr);
        assert_eq!(code(&output), 5, "{command:?}: {told}");
        assert!(told.contains(&free.to_string()) && told.contains("tidemill standalone"), "{told}");
    }
}

#[test]
fn server_of_something_else_is_told_as_that() {
    let dir = tempfile::tempdir().unwrap();
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap().to_string();
    let other = std::thread::spawn(move || {
        let (mut stream, _) = listener.accept().unwrap();
        assert!(stream.read(&mut [0_u8; 4096]).unwrap() > 0);
        let page = "<html>not here</html>";
        write!(stream, "HTTP/1.1 404 Not Found\r\ncontent-length: {}\r\n\r\n{page}", page.len()).unwrap();
    });
    let output = tidemill(dir.path(), &["job", "ls", "--server", &address]);
    other.join().unwrap();
    let told = text(&output.stderr);
    assert_eq!(code(&output), 5, "{told}");
    assert!(told.contains("not as Tidemill does") && told.contains("--server"), "{told}");
    assert!(!told.contains("<html>"), "{told}");
}

#[test]
fn taken_port_is_told_before_anything_is_made() {
    let dir = tempfile::tempdir().unwrap();
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = taken.local_addr().unwrap().to_string();
    let data = dir.path().join("data");
    let output = tidemill(&data, &["standalone", "--listen", &address]);
    let told = text(&output.stderr);
    assert_eq!(code(&output), 1, "{told}");
    assert!(told.contains(&address) && told.contains("--listen"), "{told}");
    assert!(!data.exists());
    let output = tidemill(&data, &["standalone", "--listen", "localhost:8780"]);
    let told = text(&output.stderr);
    assert_eq!(code(&output), 2, "{told}");
    assert!(told.contains("localhost:8780") && told.contains("ip:port"), "{told}");
}

#[test]
fn missing_key_is_told_with_where_it_is_looked_for() {
    let dir = tempfile::tempdir().unwrap();
    let server = Server::start(dir.path());
    fs::rename(dir.path().join("admin.key"), dir.path().join("elsewhere")).unwrap();
    let output = server.run(&["job", "ls"]);
    let told = text(&output.stderr);
    assert_eq!(code(&output), 3, "{told}");
    assert!(told.contains("no application key was given") && told.contains("admin.key"), "{told}");
    // What was left behind by a process that was killed.
    server.signal("-KILL");
    drop(server);
    fs::rename(dir.path().join("elsewhere"), dir.path().join("admin.key")).unwrap();
    let output = tidemill(dir.path(), &["job", "ls"]);
    let told = text(&output.stderr);
    assert_eq!(code(&output), 5, "{told}");
    assert!(told.contains("api.address") && told.contains("tidemill standalone"), "{told}");
}
