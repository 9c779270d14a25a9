//! Encrypted listeners: the same bounds as for plain ones, and who is let in (OPS-10).

#![allow(clippy::unwrap_used, reason = "a test panics where it fails")]

#[path = "kit/authority.rs"]
mod authority;

use std::fs::{self, Permissions};
use std::io;
use std::net::SocketAddr;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use authority::{Authority, Pair};
use axum::Router;
use axum::routing::get;
use rustls::pki_types::ServerName;
use rustls::{ClientConfig, RootCertStore};
use tempfile::TempDir;
use tidemill_serving::tls::{self, Files, Identity, Roles, ServerSide, Which};
use tidemill_serving::{Config, Limits, Listener, serve};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::oneshot;
use tokio::task::JoinHandle;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;

const PATIENCE: Duration = Duration::from_secs(60);
const GET: &[u8] = b"GET /hello HTTP/1.1\r\nhost: t\r\nconnection: close\r\n\r\n";

fn identity(pair: &Pair) -> Arc<Identity> {
    Identity::open(Files { certificate: pair.certificate.clone(), key: pair.key.clone() }).unwrap()
}

fn limits() -> Limits {
    Config::default().for_everybody()
}

/// Serves until the sender goes.
async fn served(
    tls: ServerSide,
    limits: Limits,
) -> (SocketAddr, oneshot::Sender<()>, JoinHandle<io::Result<()>>) {
    let socket = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = socket.local_addr().unwrap();
    let router = Router::new().route("/hello", get(async || "hello"));
    let (stop, stopped) = oneshot::channel::<()>();
    let serving = tokio::spawn(serve(Listener::new(socket, Some(tls)), router, limits, async move {
        // A sender that is gone means the same.
        let _ = stopped.await;
    }));
    (address, stop, serving)
}

/// Trusts an authority, and shows nothing.
fn trusting(authority: &Authority) -> ClientConfig {
    let mut roots = RootCertStore::empty();
    for certificate in tls::certificates(Which::Authorities, &authority.file()).unwrap() {
        roots.add(certificate).unwrap();
    }
    ClientConfig::builder_with_provider(tls::provider())
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_root_certificates(roots)
        .with_no_client_auth()
}

async fn connect(address: SocketAddr, config: ClientConfig) -> io::Result<TlsStream<TcpStream>> {
    let stream = TcpStream::connect(address).await?;
    let name = ServerName::try_from("127.0.0.1").unwrap();
    TlsConnector::from(Arc::new(config)).connect(name, stream).await
}

/// The whole answer to one request.
async fn ask(address: SocketAddr, config: ClientConfig) -> io::Result<String> {
    let asked = async {
        let mut stream = connect(address, config).await?;
        stream.write_all(GET).await?;
        let mut answer = String::new();
        stream.read_to_string(&mut answer).await?;
        Ok(answer)
    };
    tokio::time::timeout(PATIENCE, asked).await.expect("it is answered or ended")
}

/// What comes until the other side closes it.
async fn until_closed(stream: &mut TcpStream) -> Vec<u8> {
    let mut all = Vec::new();
    let read = tokio::time::timeout(PATIENCE, stream.read_to_end(&mut all)).await.expect("it is closed");
    match read {
        Ok(_) => all,
        Err(error) if error.kind() == io::ErrorKind::ConnectionReset => all,
        Err(error) => panic!("{error}"),
    }
}

fn why(error: &io::Error) -> String {
    tls::trouble(error).unwrap_or_else(|| panic!("{error:?} is not understood")).what
}

/// OPS-10: who trusts the authority is answered; another authority's client refuses the certificate and says so; plain HTTP
/// is told to speak https.
#[tokio::test]
async fn encrypted_requests_are_answered_and_plain_ones_are_told() {
    let dir = TempDir::new().unwrap();
    let (ours, others) = (Authority::new(dir.path(), "ours"), Authority::new(dir.path(), "others"));
    let tls = ServerSide::for_everybody(identity(&ours.issues("server")));
    let (address, _stop, _serving) = served(tls, limits()).await;
    let answer = ask(address, trusting(&ours)).await.unwrap();
    assert!(answer.starts_with("HTTP/1.1 200") && answer.ends_with("hello"), "{answer}");
    let refused = ask(address, trusting(&others)).await.unwrap_err();
    assert!(why(&refused).contains("no authority that is trusted"), "{refused}");

    let mut plain = TcpStream::connect(address).await.unwrap();
    plain.write_all(GET).await.unwrap();
    let answer = String::from_utf8(until_closed(&mut plain).await).unwrap();
    let (head, body) = answer.split_once("\r\n\r\n").unwrap();
    assert!(head.starts_with("HTTP/1.1 400"), "{answer}");
    assert!(head.contains(&format!("content-length: {}", body.len())), "{answer}");
    assert!(body.contains("https_expected"), "{answer}");
}

/// OPS-10: a client that speaks https to a plain port learns that it is one.
#[tokio::test]
async fn plain_port_is_recognised_by_encrypted_clients() {
    let dir = TempDir::new().unwrap();
    let ours = Authority::new(dir.path(), "ours");
    let socket = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = socket.local_addr().unwrap();
    tokio::spawn(serve(socket, Router::new(), limits(), std::future::pending()));
    let error = ask(address, trusting(&ours)).await.unwrap_err();
    assert_eq!(why(&error), "it does not speak TLS");
}

/// OPS-10, OPS-7: handshakes that do not begin, stand still or come byte by byte hold nobody up and are closed in the time
/// of a head, more of them than there may be connections.
#[tokio::test]
async fn slow_handshakes_are_closed_and_hold_nobody_up() {
    let dir = TempDir::new().unwrap();
    let ours = Authority::new(dir.path(), "ours");
    let tls = ServerSide::for_everybody(identity(&ours.issues("server")));
    let header = Duration::from_millis(1_500);
    let few = Limits { connections: 16, per_address: 12, header, ..limits() };
    let (address, _stop, _serving) = served(tls, few).await;
    let mut held = Vec::new();
    for _ in 0..3 {
        for _ in 0..10 {
            held.push(TcpStream::connect(address).await.unwrap());
            let mut begun = TcpStream::connect(address).await.unwrap();
            // The head of a record that never comes.
            begun.write_all(&[0x16, 3, 1, 2, 0, 1]).await.unwrap();
            held.push(begun);
        }
        assert!(ask(address, trusting(&ours)).await.unwrap().ends_with("hello"));
    }
    let mut drops = TcpStream::connect(address).await.unwrap();
    drops.set_nodelay(true).unwrap();
    let (mut from, mut to) = drops.split();
    let begun_at = Instant::now();
    let dripping = async {
        to.write_all(&[0x16, 3, 1, 0x3f, 0]).await.unwrap();
        while to.write_all(&[1]).await.is_ok() {
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    };
    let mut ended = Vec::new();
    tokio::select! {
        () = dripping => {}
        read = from.read_to_end(&mut ended) => { let _ = read; }
        () = tokio::time::sleep(PATIENCE) => panic!("a handshake byte by byte goes on"),
    }
    assert!(begun_at.elapsed() < PATIENCE);
    // A handshake that is done is no head: a client that is silent after it is closed in the same time.
    let mut silent = connect(address, trusting(&ours)).await.unwrap();
    let mut byte = [0];
    let read = tokio::time::timeout(PATIENCE, silent.read(&mut byte)).await.expect("it is closed");
    assert!(!matches!(read, Ok(1)));
    for mut stream in held {
        assert_eq!(until_closed(&mut stream).await, b"");
    }
}

/// OPS-6, OPS-10: a handshake that stands still does not keep a listener from ending.
#[tokio::test]
async fn stop_ends_handshakes() {
    let dir = TempDir::new().unwrap();
    let ours = Authority::new(dir.path(), "ours");
    let tls = ServerSide::for_everybody(identity(&ours.issues("server")));
    let patient = Limits { header: Duration::from_secs(600), ..limits() };
    let (address, stop, serving) = served(tls, patient).await;
    let mut begun = TcpStream::connect(address).await.unwrap();
    begun.write_all(&[0x16]).await.unwrap();
    assert!(ask(address, trusting(&ours)).await.unwrap().ends_with("hello"));
    drop(stop);
    tokio::time::timeout(PATIENCE, serving).await.expect("it ends").unwrap().unwrap();
    assert_eq!(until_closed(&mut begun).await, b"");
}

/// OPS-10: among roles each side shows a certificate of the cluster's authority, or is refused and learns why.
#[tokio::test]
async fn only_roles_of_the_same_authority_speak() {
    let dir = TempDir::new().unwrap();
    let (ours, others) = (Authority::new(dir.path(), "ours"), Authority::new(dir.path(), "others"));
    let both = dir.path().join("both.pem");
    fs::write(&both, [fs::read(ours.file()).unwrap(), fs::read(others.file()).unwrap()].concat()).unwrap();
    let one = Roles::new(identity(&ours.issues("one")), &ours.file()).unwrap();
    let two = Roles::new(identity(&ours.issues("two")), &ours.file()).unwrap();
    // It trusts ours, and nobody of ours trusts it.
    let stranger = Roles::new(identity(&others.issues("stranger")), &both).unwrap();
    let (address, _stop, _serving) = served(one.server(), limits()).await;
    assert!(ask(address, two.client()).await.unwrap().ends_with("hello"));
    let refused = ask(address, stranger.client()).await.unwrap_err();
    assert!(why(&refused).contains("refuses the certificate"), "{refused}");
    let refused = ask(address, trusting(&ours)).await.unwrap_err();
    assert!(why(&refused).contains("refuses the certificate"), "{refused}");
    let (address, _stop, _serving) = served(stranger.server(), limits()).await;
    let refused = ask(address, two.client()).await.unwrap_err();
    assert!(why(&refused).contains("no authority that is trusted"), "{refused}");
}

/// OPS-10: new connections get a certificate that was replaced, and one that cannot be used changes nothing.
#[tokio::test]
async fn certificate_is_renewed_without_a_restart() {
    let dir = TempDir::new().unwrap();
    let (before, after) = (Authority::new(dir.path(), "before"), Authority::new(dir.path(), "after"));
    let used = before.issues("used");
    let tls = ServerSide::for_everybody(identity(&used));
    let (address, _stop, _serving) = served(tls, limits()).await;
    assert!(ask(address, trusting(&before)).await.is_ok());
    let next = after.issues("next");
    let replace = |from: &Path, to: &Path| {
        let new = to.with_extension("new");
        fs::copy(from, &new).unwrap();
        fs::rename(&new, to).unwrap();
    };
    replace(&next.certificate, &used.certificate);
    replace(&next.key, &used.key);
    let begun_at = Instant::now();
    while ask(address, trusting(&after)).await.is_err() {
        assert!(begun_at.elapsed() < PATIENCE, "it is renewed");
    }
    assert!(ask(address, trusting(&before)).await.is_err());
    fs::write(&used.certificate, "none").unwrap();
    let looked_at = Instant::now();
    // Long enough for it to be read again.
    while looked_at.elapsed() < Duration::from_millis(2_500) {
        assert!(ask(address, trusting(&after)).await.is_ok());
    }
}

/// OPS-10: what is wrong with a file is told by what it is for; a certificate of another authority is refused at the start,
/// and one whose time is over is used, for whoever checks it tells.
#[tokio::test]
async fn files_that_cannot_be_used_are_told() {
    let dir = TempDir::new().unwrap();
    let (ours, others) = (Authority::new(dir.path(), "ours"), Authority::new(dir.path(), "others"));
    let (good, other) = (ours.issues("good"), ours.issues("other"));
    let (none, text) = (dir.path().join("none"), dir.path().join("text"));
    fs::write(&text, "no PEM").unwrap();
    fs::set_permissions(&text, Permissions::from_mode(0o600)).unwrap();
    let open = dir.path().join("open.key");
    fs::copy(&good.key, &open).unwrap();
    fs::set_permissions(&open, Permissions::from_mode(0o644)).unwrap();
    let told = |certificate: &Path, key: &Path| {
        let files = Files { certificate: certificate.to_owned(), key: key.to_owned() };
        let error = Identity::open(files).map(drop).unwrap_err();
        (error.which, error.rule)
    };
    let cases: [(&Path, &Path, Which, &str); 7] = [
        (&none, &good.key, Which::Certificate, "does not exist"),
        (dir.path(), &good.key, Which::Certificate, "not a plain file"),
        (&text, &good.key, Which::Certificate, "no certificate in it"),
        (&good.certificate, &none, Which::Key, "does not exist"),
        (&good.certificate, &text, Which::Key, "no private key in it"),
        (&good.certificate, &open, Which::Key, "mode 644"),
        (&good.certificate, &other.key, Which::Key, "is not the key of the first certificate"),
    ];
    for (certificate, key, which, rule) in cases {
        let told = told(certificate, key);
        assert!(told.0 == which && told.1.contains(rule), "{rule}: {told:?}");
    }
    let refused = Roles::new(identity(&good), &text).unwrap_err();
    assert_eq!(refused.which, Which::Authorities);
    let refused = Roles::new(identity(&others.issues("stranger")), &ours.file()).unwrap_err();
    assert!(refused.which == Which::Certificate && refused.rule.contains("has signed it"), "{refused}");

    let old = identity(&ours.issued_long_ago("old"));
    Roles::new(Arc::clone(&old), &ours.file()).unwrap();
    let (address, _stop, _serving) = served(ServerSide::for_everybody(old), limits()).await;
    let refused = ask(address, trusting(&ours)).await.unwrap_err();
    assert!(why(&refused).contains("has expired"), "{refused}");
}
