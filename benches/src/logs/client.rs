//! Calls of the interface, one connection each.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::time::Instant;

use anyhow::{Context, bail};
use serde_json::Value;

use crate::program::Running;

#[derive(Clone)]
pub(crate) struct Client {
    pub(crate) address: String,
    key: String,
}

impl Client {
    pub(crate) fn new(program: &Running) -> Self {
        Self { address: program.address.clone(), key: program.key.clone() }
    }

    /// The head of a request without a body, which asks to close the connection.
    pub(crate) fn head(&self, method: &str, path: &str, more: &str) -> String {
        let Self { address, key } = self;
        format!(
            "{method} {path} HTTP/1.1\r\nhost: {address}\r\nauthorization: Bearer {key}\r\nconnection: close\r\n\
             content-length: 0\r\n{more}\r\n"
        )
    }

    /// The answer behind its head, which has to be a good one.
    fn ask(&self, method: &str, path: &str, more: &str) -> anyhow::Result<BufReader<TcpStream>> {
        let mut stream = TcpStream::connect(&self.address)?;
        stream.write_all(self.head(method, path, more).as_bytes())?;
        let mut answer = BufReader::with_capacity(64 << 10, stream);
        let mut status = String::new();
        answer.read_line(&mut status)?;
        let code = status.split(' ').nth(1).unwrap_or_default();
        let mut line = String::new();
        while answer.read_line(&mut line)? > 2 {
            line.clear();
        }
        if !code.starts_with('2') {
            let mut text = String::new();
            answer.read_to_string(&mut text)?;
            bail!("{method} {path}: {} {text}", status.trim());
        }
        Ok(answer)
    }

    pub(crate) fn json(&self, path: &str) -> anyhow::Result<Value> {
        let mut text = String::new();
        self.ask("GET", path, "")?.read_to_string(&mut text)?;
        serde_json::from_str(&text).with_context(|| text.clone())
    }

    /// Runs a job by its name, and gives the batch.
    pub(crate) fn run(&self, job: &str) -> anyhow::Result<String> {
        let (group, name) = job.split_once('/').context("a group and a name")?;
        let found = self.json(&format!("/api/jobs?group={group}&name={name}"))?;
        let id = found["items"][0]["id"].as_i64().context("the job is there")?;
        let mut text = String::new();
        self.ask("POST", &format!("/api/jobs/{id}/run"), "")?.read_to_string(&mut text)?;
        let answer: Value = serde_json::from_str(&text).with_context(|| text.clone())?;
        Ok(answer["batch"].to_string())
    }

    /// From the request to the first byte of the body.
    pub(crate) fn first_byte_ms(&self, path: &str, range: Option<&str>) -> anyhow::Result<f64> {
        let more = range.map(|range| format!("range: {range}\r\n")).unwrap_or_default();
        let begun = Instant::now();
        let mut answer = self.ask("GET", path, &more)?;
        answer.read_exact(&mut [0])?;
        Ok(begun.elapsed().as_secs_f64() * 1e3)
    }
}
