//! Opens the read tables that the settings name.

use std::sync::Arc;
use std::thread;
use std::time::Duration;

use tidemill_cli::{Done, Failure};
use tidemill_store::{SqliteTables, Tables};

use crate::config::Settings;

/// The read tables in the data directory, where no database is named.
const FILE: &str = "tables.sqlite";

/// Between two notes that this version is there.
const ATTEND: Duration = Duration::from_secs(30);

/// The tables of the settings. As long as they are open, it is noted in them that a program of this version uses them.
pub(crate) fn open(settings: &Settings) -> Done<Arc<dyn Tables>> {
    let tables = opened(settings, Access::Work)?;
    let held = Arc::downgrade(&tables);
    let attend = move || {
        while let Some(tables) = held.upgrade() {
            if let Err(error) = tables.attend() {
                let reason = tidemill_journal::causes(&error);
                tracing::debug!(reason, "it could not be noted that the tables are used: {reason}");
            }
            drop(tables);
            thread::sleep(ATTEND);
        }
    };
    let started = thread::Builder::new().name("attend tables".to_owned()).spawn(attend);
    started.map_err(|error| Failure::caused("cannot start a thread", &error))?;
    Ok(tables)
}

/// The same, only to look at them: nothing is made, noted or changed.
pub(crate) fn look(settings: &Settings) -> Done<Arc<dyn Tables>> {
    opened(settings, Access::Look)
}

/// What tables are opened for.
#[derive(Clone, Copy)]
enum Access {
    Work,
    Look,
}

fn opened(settings: &Settings, access: Access) -> Done<Arc<dyn Tables>> {
    if let Some(url) = &settings.store.url {
        return server(url, access);
    }
    let path = settings.data_dir.join(FILE);
    let tables = match access {
        Access::Work => {
            crate::privacy::make_dir(&settings.data_dir)?;
            SqliteTables::open(&path)
        }
        Access::Look => SqliteTables::look(&path),
    };
    let tables = tables
        .map_err(|error| Failure::caused(format!("cannot open the tables in {}", path.display()), &error))?;
    Ok(Arc::new(tables))
}

/// Less than this is a full disk, bytes.
const FULL: u64 = 8 << 20;

/// What to do where they do not get as far as the journal.
pub(crate) fn why_behind(settings: &Settings) -> String {
    let free =
        rustix::fs::statvfs(&settings.data_dir).map(|facts| facts.f_bavail.saturating_mul(facts.f_frsize));
    match free {
        Ok(free) if free < FULL && settings.store.url.is_none() => format!(
            "the disk of {} is full, {} KiB are free: make room, and start it again; nothing is lost",
            settings.data_dir.display(),
            free >> 10
        ),
        Ok(_) | Err(_) => {
            "see the log lines of the projector; `tidemill rebuild` rebuilds the tables where they are damaged"
                .to_owned()
        }
    }
}

/// Whether somebody has made tables, or a database is named for them.
pub(crate) fn are_there(settings: &Settings) -> bool {
    settings.store.url.is_some() || settings.data_dir.join(FILE).exists()
}

#[cfg(feature = "mysql")]
fn server(url: &str, access: Access) -> Done<Arc<dyn Tables>> {
    let tables = match access {
        Access::Work => tidemill_store::MysqlTables::open(url),
        Access::Look => tidemill_store::MysqlTables::look(url),
    };
    let tables = tables
        .map_err(|error| Failure::caused("cannot open the tables in the database of store.url", &error))?;
    Ok(Arc::new(tables))
}

#[cfg(not(feature = "mysql"))]
fn server(_: &str, _: Access) -> Done<Arc<dyn Tables>> {
    Err(Failure::bad_input("store.url is set, and this program was built without MySQL").hint(
        "build it with `--features mysql`, or leave store.url out to keep the tables in the data directory",
    ))
}
