//! The audit list, as it is exported.

use std::io::Read;
use std::time::Duration;

use crate::client::Client;
use crate::error::Error;

/// An export takes as long as the list is.
const EXPORT: Duration = Duration::from_secs(24 * 3_600);

impl Client {
    /// The rows of the audit list for which the query asks, the oldest first: a line of JSON for each. Where it breaks off, it goes on
    /// with `after` and the `id` of the last line that is whole.
    ///
    /// # Errors
    /// As of every call; what breaks it off comes while it is read.
    pub fn export_audit(&self, query: &[(&str, String)]) -> Result<impl Read + use<>, Error> {
        let call = self.get("/api/audit/export").timeout(EXPORT);
        query.iter().fold(call, |call, (name, value)| call.query(name, value)).bytes()
    }
}
