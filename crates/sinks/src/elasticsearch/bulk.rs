//! Documents packed into bodies of `_bulk`, and what the server says of each.

use std::collections::BTreeMap;
use std::thread;
use std::time::Duration;

use serde::Deserialize;
use serde_json::{Value, json};

use super::document::{task_log, version};
use super::http::{Server, brief, is_passing};
use crate::config::ElasticsearchConfig;
use crate::{Change, Error};

const WHAT: &str = "store task logs";
/// Facts that are told of a refused document.
const SHOWN: usize = 500;

/// A document with its line of action.
struct Item {
    grant: i64,
    lines: Vec<u8>,
}

pub(super) struct Bulk {
    items: Vec<Item>,
}

#[derive(Deserialize)]
struct Answer {
    items: Vec<Answered>,
}

#[derive(Deserialize)]
struct Answered {
    index: Outcome,
}

#[derive(Deserialize)]
struct Outcome {
    status: u16,
    #[serde(default)]
    error: Option<Value>,
}

impl Bulk {
    /// The last state of each grant, in bodies of at most so many bytes, or of one document.
    pub(super) fn pack(changes: &[Change], partition: u32, max_bytes: usize) -> Vec<Self> {
        let newest: BTreeMap<_, _> = changes.iter().map(|change| (change.given.grant, change)).collect();
        let (mut bulks, mut bytes) = (Vec::<Self>::new(), 0);
        for (grant, change) in newest {
            let action = json!({"index": {
                "_id": grant.to_string(), "version": version(change), "version_type": "external",
            }});
            let mut lines = action.to_string().into_bytes();
            lines.push(b'\n');
            lines.extend(task_log(change, partition));
            lines.push(b'\n');
            bytes += lines.len();
            let item = Item { grant, lines };
            match bulks.last_mut() {
                Some(bulk) if bytes <= max_bytes => bulk.items.push(item),
                _ => {
                    bytes = item.lines.len();
                    bulks.push(Self { items: vec![item] });
                }
            }
        }
        bulks
    }

    /// Sends until each document is there, those for which there is no room again after a pause.
    pub(super) fn send(self, server: &Server, config: &ElasticsearchConfig) -> Result<(), Error> {
        let path = format!("{}/_bulk", config.index);
        let mut open = self.items;
        for number in 0..=config.retries {
            if number > 0 {
                thread::sleep(pause(config, number));
            }
            let body: Vec<u8> = open.iter().flat_map(|item| &item.lines).copied().collect();
            let answer = server.post_lines(WHAT, &path, &body)?;
            // Too large for this server, whatever the configuration says.
            if answer.status == 413 && open.len() > 1 {
                let rest = open.split_off(open.len() / 2);
                Self { items: open }.send(server, config)?;
                return Self { items: rest }.send(server, config);
            }
            if is_passing(answer.status) && number < config.retries {
                continue;
            }
            server.expect(WHAT, &answer)?;
            open = unfinished(open, &answer.text, server)?;
            if open.is_empty() {
                return Ok(());
            }
        }
        let source = format!("it has had no room for {} documents, {} times", open.len(), config.retries + 1);
        Err(Error::Outage { what: WHAT, place: server.name().to_owned(), source: source.into() })
    }
}

#[cfg(test)]
impl Bulk {
    /// How many documents are to be sent again after this answer.
    pub(super) fn left_open(self, answer: &str, server: &Server) -> Result<usize, Error> {
        unfinished(self.items, answer, server).map(|open| open.len())
    }
}

/// Twice as long each time.
fn pause(config: &ElasticsearchConfig, number: u32) -> Duration {
    const LONGEST: Duration = Duration::from_secs(60);
    Duration::from_millis(config.retry_pause_ms.saturating_mul(1 << (number - 1))).min(LONGEST)
}

/// Those for which there was no room.
fn unfinished(sent: Vec<Item>, answer: &str, server: &Server) -> Result<Vec<Item>, Error> {
    let place = || server.name().to_owned();
    let unreadable = |source: crate::error::Cause| Error::Outage { what: WHAT, place: place(), source };
    let answer: Answer = serde_json::from_str(answer).map_err(|source| unreadable(brief(&source).into()))?;
    if answer.items.len() != sent.len() {
        let (told, sent) = (answer.items.len(), sent.len());
        return Err(unreadable(format!("the answer is about {told} documents, {sent} were sent").into()));
    }
    let mut open = Vec::new();
    for (item, Answered { index: Outcome { status, error } }) in sent.into_iter().zip(answer.items) {
        match status {
            // 409: it is there as it was sent, or as it became later.
            200..300 | 409 => {}
            status if is_passing(status) => open.push(item),
            status => {
                let said: String = error.unwrap_or_default().to_string().chars().take(SHOWN).collect();
                let source = format!(
                    "grant {}, status {status}: {said}; fix the index's mapping (or delete index and positions), \
                     then start the sink again",
                    item.grant
                );
                return Err(Error::Refused { what: WHAT, place: place(), source: source.into() });
            }
        }
    }
    Ok(open)
}

#[cfg(test)]
mod tests {
    use super::super::corpus::change;
    use super::*;
    use crate::State;

    /// PUL-12: bodies are bounded, and of each grant only the last state is sent, at its place in the journal.
    #[test]
    fn bodies_are_bounded_and_hold_each_grant_once() {
        let mut changes: Vec<_> = (0..100).map(|grant| change(grant, 7, State::Live)).collect();
        changes.push(change(5, 8, State::Expired));
        let bulks = Bulk::pack(&changes, 0, 4_096);
        assert!(bulks.len() > 5);
        let bytes = |bulk: &Bulk| bulk.items.iter().map(|item| item.lines.len()).sum::<usize>();
        assert!(bulks.iter().all(|bulk| bytes(bulk) <= 4_096));
        let items: Vec<_> = bulks.iter().flat_map(|bulk| &bulk.items).collect();
        assert_eq!(items.len(), 100);
        let fifth = String::from_utf8(items[5].lines.clone()).unwrap();
        assert!(fifth.contains("\"expired\"") && fifth.contains(&((8 << 20) + 3).to_string()), "{fifth}");
        assert_eq!(Bulk::pack(&changes, 0, 1).len(), 100);
    }
}
