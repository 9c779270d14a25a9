//! A small quality service: it answers every question with a status, and remembers what it was asked.

#![allow(dead_code, reason = "each test file uses a part")]

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::{Arc, Mutex};

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
}

impl QualityService {
    /// One that gives these statuses in turn, and the last one from then on.
    pub(crate) fn start(statuses: &'static [u16]) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let url = format!("http://{}/ask", listener.local_addr().unwrap());
        let asked = Arc::new(Mutex::new(Vec::new()));
        let told = Arc::clone(&asked);
        // It ends with the test's process.
        std::thread::spawn(move || {
            for stream in listener.incoming() {
                let mut told = told.lock().unwrap();
                let status = statuses.get(told.len()).or(statuses.last()).unwrap();
                told.push(answer(stream.unwrap(), *status));
            }
        });
        Self { url, asked }
    }

    pub(crate) fn asked(&self) -> Vec<Asked> {
        self.asked.lock().unwrap().clone()
    }
}

fn answer(mut stream: TcpStream, status: u16) -> Asked {
    let mut reader = BufReader::new(stream.try_clone().unwrap());
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
    stream.write_all(answer.as_bytes()).unwrap();
    Asked { headers, body: serde_json::from_slice(&body).unwrap() }
}
