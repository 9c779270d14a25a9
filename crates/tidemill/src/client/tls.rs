//! Whom a client command trusts.

use tidemill_serving::tls::{self, ClientConfig};

use super::Target;
use crate::failure::{Done, Failure};

/// Those of the target's file; without one, those that the machine trusts. A plain server needs neither.
pub(super) fn config(target: &Target) -> Done<ClientConfig> {
    if !target.server.starts_with("https://") {
        return Ok(tls::trusts_nobody());
    }
    tls::trusts(target.ca_file.as_deref()).map_err(|error| {
        Failure::bad_input(format!(
            "--ca-file, TIDEMILL_CA_FILE or tls.ca_file: {:?}: {}",
            error.file, error.rule
        ))
        .hint("name a file with the certificates of the server's authorities in PEM")
    })
}
