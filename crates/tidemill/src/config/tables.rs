//! Settings of the read tables, and of the hints beside them.

use std::path::PathBuf;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use tidemill_model::FieldError;

/// The read tables.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema, Default)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct StoreSettings {
    /// MySQL or MariaDB, `mysql://user:password@host:port/database`, with `?ssl-mode=VERIFY_IDENTITY&ssl-ca=FILE` where
    /// its certificate is to be verified. Default: an SQLite file in the data directory.
    pub(crate) url: Option<String>,
}

/// Hints that spare empty answers to clients that pull tasks. Nothing is lost with them.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema, Default)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct RedisSettings {
    /// Redis 6.2 or later, `redis://[user:password@]host:port[/db]`, or `rediss://…` for an encrypted connection; the
    /// same for the projector and every interface. Its `maxmemory-policy` must be `noeviction` where it has a
    /// `maxmemory`. Default none: every pull asks the owner. `standalone` keeps hints in its own memory, whatever is
    /// set here.
    pub(crate) url: Option<String>,
    /// With `rediss://`: a PEM file with the certificates of who may have signed the server's. Default: those that the
    /// machine trusts.
    pub(crate) ca_file: Option<PathBuf>,
}

impl RedisSettings {
    /// Whether the connection is encrypted.
    pub(crate) fn is_encrypted(&self) -> bool {
        self.url.as_ref().is_some_and(|url| url.starts_with("rediss://"))
    }

    pub(super) fn check(&self) -> Result<(), FieldError> {
        match &self.ca_file {
            Some(file) if !self.is_encrypted() => {
                Err(FieldError::new("ca_file", file.display().to_string(), "goes with a url of rediss://"))
            }
            _ => Ok(()),
        }
    }
}
