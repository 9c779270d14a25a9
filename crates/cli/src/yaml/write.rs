//! Definitions as YAML, fields in the order of the documentation.

use std::collections::BTreeMap;

use serde_json::Value;
use tidemill_model::{CalendarSpec, PoolSpec, SpecFile};

use crate::failure::{Done, Failure};

/// Writes exported jobs as YAML, fields in the order of the documentation.
pub(crate) fn jobs(export: Value) -> Done<String> {
    let file: SpecFile = serde_json::from_value(export).map_err(|error| {
        Failure::caused("the server's jobs are of another form than this program's", &error)
    })?;
    serde_saphyr::to_string(&file).map_err(|error| Failure::caused("cannot write YAML", &error))
}

/// Writes calendars as YAML, fields in the order of the documentation.
pub(crate) fn calendars(calendars: Vec<Value>) -> Done<String> {
    let calendars: Vec<CalendarSpec> = serde_json::from_value(Value::Array(calendars)).map_err(|error| {
        Failure::caused("the server's calendars are of another form than this program's", &error)
    })?;
    let file = BTreeMap::from([("calendars", calendars)]);
    serde_saphyr::to_string(&file).map_err(|error| Failure::caused("cannot write YAML", &error))
}

/// Writes pools as YAML, fields in the order of the documentation.
pub(crate) fn pools(pools: Vec<Value>) -> Done<String> {
    let pools: Vec<PoolSpec> = serde_json::from_value(Value::Array(pools)).map_err(|error| {
        Failure::caused("the server's pools are of another form than this program's", &error)
    })?;
    let file = BTreeMap::from([("pools", pools)]);
    serde_saphyr::to_string(&file).map_err(|error| Failure::caused("cannot write YAML", &error))
}
