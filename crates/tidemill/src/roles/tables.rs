//! Opens the read tables that the settings name.

use std::sync::Arc;

use tidemill_store::{SqliteTables, Tables};

use crate::config::Settings;
use crate::failure::{Done, Failure};

/// The read tables in the data directory, where no database is named.
const FILE: &str = "tables.sqlite";

/// The tables of the settings.
pub(crate) fn open(settings: &Settings) -> Done<Arc<dyn Tables>> {
    if let Some(url) = &settings.store.url {
        return server(url);
    }
    std::fs::create_dir_all(&settings.data_dir).map_err(|error| {
        Failure::caused(format!("cannot make the directory {}", settings.data_dir.display()), &error)
    })?;
    let path = settings.data_dir.join(FILE);
    let tables = SqliteTables::open(&path)
        .map_err(|error| Failure::caused(format!("cannot open the tables in {}", path.display()), &error))?;
    Ok(Arc::new(tables))
}

/// Whether somebody has made tables, or a database is named for them.
pub(crate) fn are_there(settings: &Settings) -> bool {
    settings.store.url.is_some() || settings.data_dir.join(FILE).exists()
}

#[cfg(feature = "mysql")]
fn server(url: &str) -> Done<Arc<dyn Tables>> {
    let tables = tidemill_store::MysqlTables::open(url)
        .map_err(|error| Failure::caused("cannot open the tables in the database of store.url", &error))?;
    Ok(Arc::new(tables))
}

#[cfg(not(feature = "mysql"))]
fn server(_: &str) -> Done<Arc<dyn Tables>> {
    Err(Failure::bad_input("store.url is set, and this program was built without MySQL").hint(
        "build it with `--features mysql`, or leave store.url out to keep the tables in the data directory",
    ))
}
