//! Which log the archive is of, where the log itself does not have its beginning any more.

use std::sync::Arc;

use tidemill_log::{Genesis, LogId};

use crate::{Archive, Error, Store};

/// The genesis of partition 0 of the one log whose journal the archive has up to this offset.
///
/// # Errors
/// The archive has no such log, or several; it cannot be read.
pub fn origin(store: &Arc<dyn Store>, first: u64) -> Result<Genesis, Error> {
    let place = store.place();
    let listed = store.list("").map_err(|source| Error::store("list", place.clone(), source))?;
    let mut found = Vec::new();
    for name in listed.directories {
        let Ok(log_id) = LogId::try_from(name) else { continue };
        let archive = Archive::new(Arc::clone(store), log_id);
        if archive.catalog(0)?.reaches(0) >= first {
            found.push(archive);
        }
    }
    let [archive] = found.as_slice() else {
        let ids: Vec<_> = found.iter().map(|archive| archive.log_id().to_string()).collect();
        let what = match ids.is_empty() {
            true => format!("has no log whose first journal it has up to record {first}"),
            false => format!("has several such logs: {}", ids.join(", ")),
        };
        return Err(Error::WhichLog { place, what });
    };
    let segment = archive.segment_with(0, 0)?;
    let head = segment.footer().after.clone();
    let genesis =
        head.map(|head| Genesis { log_id: head.log_id, partition: head.partition, count: head.count });
    match genesis.filter(|genesis| &genesis.log_id == archive.log_id() && genesis.partition == 0) {
        Some(genesis) => Ok(genesis),
        None => Err(Error::Foreign {
            object: segment.object(),
            reason: "it has no genesis of the log and journal of its name".to_owned(),
        }),
    }
}
