//! A server that takes documents by the published bulk protocol, strictly, and has no room now and then.

use std::collections::{BTreeMap, BTreeSet};
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::{Arc, Mutex};
use std::thread;

use serde_json::{Value, json};

/// Bodies above this are too large for it.
const LARGEST: usize = 24 * 1_024;

/// What it was told.
#[derive(Debug, Default, Clone)]
pub(crate) struct Told {
    pub(crate) documents: BTreeMap<i64, Value>,
    versions: BTreeMap<i64, u64>,
    positions: BTreeMap<String, String>,
    pub(crate) largest_body: usize,
    pub(crate) crowded_requests: usize,
    pub(crate) crowded_documents: usize,
    pub(crate) too_large: usize,
    /// Documents that came again though they had been taken.
    pub(crate) sent_though_there: usize,
    pub(crate) authorization: Option<String>,
    /// First documents of requests that were refused, and documents: each is refused once, however the requests of
    /// several partitions come in between, so that nobody tires of asking.
    refused_requests: BTreeSet<i64>,
    refused_documents: BTreeSet<i64>,
}

pub(crate) struct Crowded {
    pub(crate) address: SocketAddr,
    told: Arc<Mutex<Told>>,
}

impl Crowded {
    pub(crate) fn open() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let crowded = Self { address: listener.local_addr().unwrap(), told: Arc::default() };
        let told = Arc::clone(&crowded.told);
        // It ends with the test's process.
        thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                let told = Arc::clone(&told);
                thread::spawn(move || serve(&stream, &told));
            }
        });
        crowded
    }

    pub(crate) fn told(&self) -> Told {
        self.told.lock().unwrap().clone()
    }
}

fn serve(stream: &TcpStream, told: &Mutex<Told>) {
    let mut reader = BufReader::new(stream);
    loop {
        let mut head = Vec::new();
        loop {
            let mut line = String::new();
            if reader.read_line(&mut line).unwrap_or(0) == 0 {
                return;
            }
            if line.trim().is_empty() {
                break;
            }
            head.push(line.trim().to_owned());
        }
        let header = |name: &str| {
            let value = head
                .iter()
                .filter_map(|line| line.split_once(": "))
                .find(|it| it.0.eq_ignore_ascii_case(name));
            value.map(|(_, value)| value.to_owned())
        };
        let length = header("content-length").map_or(0, |length| length.parse().unwrap());
        let mut body = vec![0; length];
        reader.read_exact(&mut body).unwrap();
        let mut told = told.lock().unwrap();
        told.authorization = header("authorization");
        let (status, answer) = answer(&mut told, &head[0], header("content-type").as_deref(), &body);
        let text = answer.to_string();
        let answer = format!(
            "HTTP/1.1 {status} Some\r\ncontent-type: application/json\r\ncontent-length: {}\r\n\r\n{}",
            text.len(),
            // HEAD has no body.
            if head[0].starts_with("HEAD") { "" } else { &text },
        );
        if (&mut &*stream).write_all(answer.as_bytes()).is_err() {
            return;
        }
    }
}

fn answer(told: &mut Told, request: &str, kind: Option<&str>, body: &[u8]) -> (u16, Value) {
    let mut words = request.split(' ');
    let (method, path) = (words.next().unwrap(), words.next().unwrap());
    match (method, path.split_once('?').map_or(path, |(path, _)| path)) {
        ("HEAD", _) => (200, json!({})),
        ("GET", path) => match told.positions.get(path) {
            Some(body) => (200, json!({"_source": serde_json::from_str::<Value>(body).unwrap()})),
            None => (404, json!({"found": false})),
        },
        ("PUT", path) => {
            told.positions.insert(path.to_owned(), String::from_utf8(body.to_vec()).unwrap());
            (201, json!({"result": "created"}))
        }
        ("POST", path) if path.ends_with("/_bulk") => {
            assert_eq!(kind, Some("application/x-ndjson"));
            bulk(told, body)
        }
        other => panic!("{other:?}"),
    }
}

fn bulk(told: &mut Told, body: &[u8]) -> (u16, Value) {
    told.largest_body = told.largest_body.max(body.len());
    if body.len() > LARGEST {
        told.too_large += 1;
        return (413, json!({"error": "too large"}));
    }
    assert_eq!(body.last(), Some(&b'\n'), "the last line of a bulk body ends, too");
    let lines: Vec<Value> = body
        .split(|byte| *byte == b'\n')
        .filter(|it| !it.is_empty())
        .map(|it| serde_json::from_slice(it).unwrap())
        .collect();
    let id = |action: &Value| -> i64 { action["index"]["_id"].as_str().unwrap().parse().unwrap() };
    if id(&lines[0]) % 2 == 0 && told.refused_requests.insert(id(&lines[0])) {
        told.crowded_requests += 1;
        return (429, json!({"error": "too many requests"}));
    }
    let mut items = Vec::new();
    for pair in lines.chunks(2) {
        let (action, id) = (&pair[0]["index"], id(&pair[0]));
        assert_eq!(action["version_type"], "external");
        let version = action["version"].as_u64().unwrap();
        let status = if id % 4 == 1 && told.refused_documents.insert(id) {
            told.crowded_documents += 1;
            429
        } else if told.versions.get(&id) >= Some(&version) {
            told.sent_though_there += 1;
            409
        } else {
            told.versions.insert(id, version);
            told.documents.insert(id, pair[1].clone());
            201
        };
        items.push(json!({"index": {"_id": action["_id"], "status": status}}));
    }
    (200, json!({"errors": true, "items": items}))
}
