//! The one thread that writes the file.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use rusqlite::Connection;

use super::archived;
use super::durability::Durability;
use super::file::store_head;
use super::group::{Failed, Group, Journal, inserts};
use super::queue::Item;
use super::{OnFatal, Shared};
use crate::{AppendError, Chain};

pub(crate) struct Writer {
    shared: Arc<Shared>,
    connection: Connection,
    durability: Durability,
    journals: Vec<Journal>,
    inserts: Vec<String>,
    on_fatal: OnFatal,
}

impl Writer {
    pub(crate) fn new(
        shared: Arc<Shared>,
        connection: Connection,
        durability: Durability,
        chains: Vec<Chain>,
        on_fatal: OnFatal,
    ) -> Self {
        let journals = chains.into_iter().map(|chain| Journal { chain, stored_seq: 0 }).collect();
        let inserts = inserts(&shared);
        Self { shared, connection, durability, journals, inserts, on_fatal }
    }

    /// Until the log ends, by will or by an error.
    pub(crate) fn run(mut self) {
        let ended = catch_unwind(AssertUnwindSafe(|| self.serve()));
        let failure = match ended {
            Ok(Ok(())) => None,
            Ok(Err(error)) => Some(error),
            Err(_) => Some("the log's writer thread panicked".to_owned()),
        };
        let Some(reason) = failure else {
            self.shared.fail("the log was closed");
            return;
        };
        tracing::error!(%reason, "the log failed: the process has to end and open it again");
        self.shared.fail(&reason);
        for item in self.shared.queue.take_rest() {
            match item {
                Item::Append { pending, .. } => pending.finish(Err(AppendError::Unknown(reason.clone()))),
                Item::Trim(_) | Item::Release(_) => {}
            }
        }
        (self.on_fatal)(&reason);
    }

    fn serve(&mut self) -> Result<(), String> {
        while let Some(items) = self.shared.queue.take(self.durability.due()) {
            if items.is_empty() {
                self.durability.sync().map_err(not_synced)?;
                continue;
            }
            let (items, releases) = archived::apart(items);
            let mut group = Group::new(&self.shared, &self.connection, &self.inserts, &mut self.durability);
            let result = group.commit(items, &mut self.journals);
            let owed = group.owed;
            match result {
                Ok(()) => {
                    owed.into_iter().for_each(|owed| owed.tell(None));
                    self.durability
                        .checkpoint(&self.connection)
                        .map_err(|error| format!("the write-ahead log could not be written back: {error}"))?;
                }
                Err(Failed::Full) => {
                    tracing::warn!("the disk is full: appends are refused");
                    owed.into_iter().for_each(|owed| owed.tell(Some(&AppendError::Full)));
                }
                Err(Failed::Unknown(error)) => {
                    let reason = format!("writing the log failed: {error}");
                    // Before anyone hears of it, nothing more is taken.
                    self.shared.fail(&reason);
                    let unknown = AppendError::Unknown(reason.clone());
                    owed.into_iter().for_each(|owed| owed.tell(Some(&unknown)));
                    return Err(reason);
                }
            }
            for release in releases {
                release.serve(&self.shared, &self.connection, &mut self.durability)?;
            }
        }
        for head in self.journals.iter().filter_map(|journal| journal.chain.head()) {
            // Only a short cut for the next opening: without it the chain is read from further back.
            if let Err(error) = store_head(&self.connection, head) {
                tracing::warn!(%error, "the verified head could not be stored");
            }
        }
        self.durability.sync().map_err(not_synced)
    }
}

fn not_synced(error: std::io::Error) -> String {
    format!("the log could not be synced: {error}")
}
