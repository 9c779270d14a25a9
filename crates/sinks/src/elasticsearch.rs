//! Task logs in an index of Elasticsearch or OpenSearch: a document per grant, written by `_bulk`.
//!
//! The id of a document is its grant, its version the place of the fact in the journal (`version_type: external`). So
//! a document that is sent again changes nothing (409: it is there already), and none ever goes back. The position is
//! a document of an index of its own, written only after the data were acknowledged.

mod bulk;
#[cfg(test)]
mod corpus;
mod document;
mod http;

use tidemill_log::Head;

use crate::config::ElasticsearchConfig;
use crate::sink::Pace;
use crate::{Batch, Error, Sink, Stored};
use bulk::Bulk;
pub(crate) use http::Server;

/// One partition's task logs in an index.
pub struct ElasticsearchSink {
    config: ElasticsearchConfig,
    server: Server,
    partition: u32,
    pace: Pace,
}

impl ElasticsearchSink {
    /// The sink of a partition. Nothing is connected yet.
    pub(crate) fn new(config: &ElasticsearchConfig, server: &Server, partition: u32) -> Self {
        Self { server: server.clone(), config: config.clone(), partition, pace: Pace::default() }
    }

    fn position_path(&self) -> String {
        format!("{}-positions/_doc/{}", self.config.index, self.partition)
    }

    /// Makes an index where it is not there.
    fn make(&self, index: &str, mappings: &serde_json::Value) -> Result<(), Error> {
        const WHAT: &str = "make the index of the task logs";
        if self.server.has(WHAT, index)? {
            return Ok(());
        }
        let answer = self.server.put(WHAT, index, &serde_json::json!({ "mappings": mappings }))?;
        // Another partition's thread may have been faster.
        if answer.status == 400 && answer.text.contains("resource_already_exists_exception") {
            return Ok(());
        }
        self.server.expect(WHAT, &answer)
    }

    fn store_position(&mut self, head: &Head) -> Result<(), Error> {
        const WHAT: &str = "store the position";
        let path = format!("{}?version={}&version_type=external_gte", self.position_path(), head.offset);
        let answer = self.server.put(WHAT, &path, &document::position(head))?;
        // A newer one is there: another sink writes the same documents, and is further.
        if answer.status == 409 {
            return Err(Error::Overtaken { partition: self.partition, place: self.server.name().to_owned() });
        }
        self.server.expect(WHAT, &answer)?;
        self.pace.written();
        Ok(())
    }
}

impl Sink for ElasticsearchSink {
    fn position(&mut self) -> Result<Option<Head>, Error> {
        self.make(&self.config.index, &document::mappings())?;
        self.make(&format!("{}-positions", self.config.index), &serde_json::json!({"dynamic": false}))?;
        let answer = self.server.get("read the position", &self.position_path())?;
        if answer.status == 404 {
            return Ok(None);
        }
        self.server.expect("read the position", &answer)?;
        let head = document::head(&answer.text);
        head.map(Some).map_err(|source| Error::StoredPosition {
            partition: self.partition,
            place: format!("{}/{}", self.server.name(), self.position_path()),
            source: http::brief(&source).into(),
        })
    }

    fn write(&mut self, batch: Batch) -> Result<Stored, Error> {
        if batch.changes.is_empty() && !self.pace.is_due() {
            return Ok(Stored::default());
        }
        for bulk in Bulk::pack(&batch.changes, self.partition, self.config.bulk_kb as usize * 1_024) {
            bulk.send(&self.server, &self.config)?;
        }
        self.store_position(&batch.head)?;
        Ok(Stored { offset: Some(batch.head.offset), changes: batch.changes.len() })
    }
}
