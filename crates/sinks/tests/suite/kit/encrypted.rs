//! A way to a server that is encrypted for whoever asks: TLS ends here, with a certificate that nobody else has signed.

use std::io::{BufRead, BufReader, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;
use std::thread;

use rustls::crypto::aws_lc_rs;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::{ServerConfig, ServerConnection, StreamOwned};

/// Takes requests for 127.0.0.1 and gives them to another server.
pub(crate) struct Encrypted {
    pub(crate) port: u16,
    /// The file of its certificate.
    pub(crate) certificate: PathBuf,
}

impl Encrypted {
    /// In front of this address; its files are in a directory.
    pub(crate) fn open(to: SocketAddr, directory: &Path) -> Self {
        let (certificate, key) = (directory.join("server.pem"), directory.join("server.key"));
        let output = Command::new("openssl")
            .args(["req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes"])
            .args(["-days", "2", "-subj", "/CN=a server of a test", "-addext", "subjectAltName=IP:127.0.0.1"])
            .args(["-addext", "basicConstraints=critical,CA:FALSE"])
            .arg("-keyout")
            .arg(&key)
            .arg("-out")
            .arg(&certificate)
            .output()
            .expect("openssl is installed");
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        let config = ServerConfig::builder_with_provider(Arc::new(aws_lc_rs::default_provider()))
            .with_safe_default_protocol_versions()
            .unwrap()
            .with_no_client_auth()
            .with_single_cert(
                vec![CertificateDer::from_pem_file(&certificate).unwrap()],
                PrivateKeyDer::from_pem_file(&key).unwrap(),
            )
            .unwrap();
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        let config = Arc::new(config);
        // It ends with the test's process.
        thread::spawn(move || {
            for client in listener.incoming().flatten() {
                let connection = ServerConnection::new(Arc::clone(&config)).unwrap();
                thread::spawn(move || relay(StreamOwned::new(connection, client), to));
            }
        });
        Self { port, certificate }
    }
}

/// One request after the other, until either side goes: a client that does not trust the certificate does so at once.
fn relay(client: StreamOwned<ServerConnection, TcpStream>, to: SocketAddr) {
    let mut client = BufReader::new(client);
    let mut server = BufReader::new(TcpStream::connect(to).unwrap());
    while let Some((method, request)) = message(&mut client, true) {
        if server.get_mut().write_all(&request).is_err() {
            return;
        }
        let Some((_, answer)) = message(&mut server, method != "HEAD") else { return };
        if client.get_mut().write_all(&answer).and_then(|()| client.get_mut().flush()).is_err() {
            return;
        }
    }
}

/// The first word of a request or an answer, and all of it, with its body where it has one.
fn message(from: &mut impl BufRead, has_body: bool) -> Option<(String, Vec<u8>)> {
    let (mut all, mut length) = (Vec::new(), 0);
    loop {
        let begun = all.len();
        if from.read_until(b'\n', &mut all).ok()? == 0 {
            return None;
        }
        let line = String::from_utf8_lossy(&all[begun..]).to_lowercase();
        if let Some(value) = line.strip_prefix("content-length:") {
            length = value.trim().parse().unwrap();
        }
        if line.trim().is_empty() {
            break;
        }
    }
    if has_body {
        let head = all.len();
        all.resize(head + length, 0);
        from.read_exact(&mut all[head..]).ok()?;
    }
    let first = String::from_utf8_lossy(&all).split(' ').next().unwrap_or_default().to_owned();
    Some((first, all))
}
