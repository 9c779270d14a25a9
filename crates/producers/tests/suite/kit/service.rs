//! A small quality service: it answers every question with a status, and remembers what it was asked.

#![allow(dead_code, reason = "each test file uses a part")]

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpListener;
use std::path::Path;
use std::sync::{Arc, Mutex};

use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::{ServerConfig, ServerConnection, StreamOwned};

use serde_json::Value;

/// What came with a question.
#[derive(Debug, Clone)]
pub(crate) struct Asked {
    pub(crate) headers: Vec<String>,
    pub(crate) body: Value,
}

pub(crate) struct QualityService {
    pub(crate) url: String,
    asked: Arc<Mutex<Vec<Asked>>>,
    broken: Arc<Mutex<usize>>,
}

impl QualityService {
    /// One that gives these statuses in turn, and the last one from then on.
    pub(crate) fn start(statuses: &'static [u16]) -> Self {
        Self::serve(statuses, None)
    }

    /// The same, by `https://` alone.
    pub(crate) fn start_encrypted(statuses: &'static [u16], certificate: &Path, key: &Path) -> Self {
        let chain = CertificateDer::pem_file_iter(certificate).unwrap().map(Result::unwrap).collect();
        let key = PrivateKeyDer::from_pem_file(key).unwrap();
        let config =
            ServerConfig::builder_with_provider(rustls::crypto::aws_lc_rs::default_provider().into())
                .with_safe_default_protocol_versions()
                .unwrap()
                .with_no_client_auth()
                .with_single_cert(chain, key);
        Self::serve(statuses, Some(config.unwrap().into()))
    }

    fn serve(statuses: &'static [u16], tls: Option<Arc<ServerConfig>>) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let scheme = if tls.is_some() { "https" } else { "http" };
        let url = format!("{scheme}://{}/ask", listener.local_addr().unwrap());
        let (asked, broken) = (Arc::new(Mutex::new(Vec::new())), Arc::new(Mutex::new(0)));
        let (told, failed) = (Arc::clone(&asked), Arc::clone(&broken));
        // It ends with the test's process.
        std::thread::spawn(move || {
            for stream in listener.incoming() {
                let mut told = told.lock().unwrap();
                let status = *statuses.get(told.len()).or(statuses.last()).unwrap();
                let mut stream = stream.unwrap();
                let Some(tls) = &tls else {
                    told.push(answer(&mut stream, status));
                    continue;
                };
                let mut connection = ServerConnection::new(Arc::clone(tls)).unwrap();
                match connection.complete_io(&mut stream) {
                    Ok(_) => told.push(answer(&mut StreamOwned::new(connection, stream), status)),
                    Err(_) => *failed.lock().unwrap() += 1,
                }
            }
        });
        Self { url, asked, broken }
    }

    /// Encrypted connections that its clients did not want.
    pub(crate) fn broken(&self) -> usize {
        *self.broken.lock().unwrap()
    }

    pub(crate) fn asked(&self) -> Vec<Asked> {
        self.asked.lock().unwrap().clone()
    }
}

fn answer(stream: &mut (impl Read + Write), status: u16) -> Asked {
    let mut reader = BufReader::new(stream);
    let mut headers = Vec::new();
    loop {
        let mut line = String::new();
        reader.read_line(&mut line).unwrap();
        if line.trim().is_empty() {
            break;
        }
        headers.push(line.trim().to_lowercase());
    }
    let length = headers.iter().find_map(|line| line.strip_prefix("content-length: ")).unwrap();
    let mut body = vec![0; length.parse().unwrap()];
    reader.read_exact(&mut body).unwrap();
    let answer = format!("HTTP/1.1 {status} As Told\r\nContent-Length: 0\r\nConnection: close\r\n\r\n");
    reader.get_mut().write_all(answer.as_bytes()).unwrap();
    reader.get_mut().flush().unwrap();
    Asked { headers, body: serde_json::from_slice(&body).unwrap() }
}
