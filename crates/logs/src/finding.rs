//! Finding a log: one that grows, one that is known, or one that is in segments alone.

use std::sync::Arc;

use tidemill_model::LogStream;

use crate::Error;
use crate::cover::Cover;
use crate::log::{Key, Log, State};
use crate::segment::Close;
use crate::store::Store;

impl Store {
    /// The log of an attempt; nothing, where this store has nothing of it.
    ///
    /// # Errors
    /// The place cannot say what it has.
    pub(crate) async fn find(&self, key: &Key) -> Result<Option<Arc<Log>>, Error> {
        if let Some(open) = self.opened().get(key) {
            return Ok(Some(Arc::clone(&open.log)));
        }
        if let Some(log) = self.closed().get(key) {
            return Ok(Some(Arc::clone(log)));
        }
        if self.silent().get(key).is_some() {
            return Ok(Some(Log::new(key.clone(), State::silent())));
        }
        let found = self.places.find(key).await?;
        if found.all.is_empty() {
            return found.lacks.map_or(Ok(None), Err);
        }
        let log = Log::new(key.clone(), state_of(Cover::new(found.all)).await?);
        if log.state().close == Close::Ended {
            self.closed().keep(key.clone(), Arc::clone(&log));
        }
        Ok(Some(log))
    }

    /// Looks again which segments a log has, after one was gone.
    ///
    /// # Errors
    /// The place cannot say what it has.
    pub(crate) async fn look_again(&self, log: &Log) -> Result<(), Error> {
        let cover = Cover::new(self.places.find(&log.key).await?.all);
        let mut state = log.state();
        let is_enough = cover.ends().iter().zip(&state.tails).all(|(end, tail)| *end >= tail.begin);
        if is_enough {
            state.cover = cover;
        } else {
            drop(state);
            self.closed().forget(&log.key);
        }
        Ok(())
    }
}

/// A log of which there are these segments.
pub(crate) async fn state_of(cover: Cover) -> Result<State, Error> {
    let mut lines = [0; 3];
    for stream in LogStream::ALL {
        if let Some(last) = cover.extents(stream).last() {
            let footer = last.segment.footer().await?.of(stream);
            lines[stream.index()] = footer.lines_before + footer.lines;
        }
    }
    Ok(State::new(cover, lines))
}
