//! The client, with what it trusts, and a first try that tells what waiting would not fix.

use std::error::Error as StdError;
use std::io;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use redis::{AsyncConnectionConfig, Client, ConnectionAddr, ErrorKind, RedisError};
#[cfg(feature = "tls")]
use rustls::pki_types::{CertificateDer, pem::PemObject as _};

use crate::Source;

/// The largest file of authorities, bytes.
#[cfg(feature = "tls")]
const MAX_CA_BYTES: u64 = 1 << 20;

/// Why a server could not be used.
pub(super) enum Trouble {
    /// It may be there later.
    Passing(String),
    /// It is there, and answers so each time.
    Lasting(Source),
}

#[cfg(feature = "tls")]
pub(super) fn of(url: &str, ca_file: Option<&Path>) -> Result<Client, Source> {
    // Of several that are linked none is taken by itself. Where somebody has set one, it stays.
    let _ = rustls::crypto::aws_lc_rs::default_provider().install_default();
    let Some(file) = ca_file else { return Ok(Client::open(url)?) };
    let unusable = |why: &dyn std::fmt::Display| format!("{}: {why}", file.display());
    // A pipe would be waited for, and a device has no end.
    let found = std::fs::metadata(file).map_err(|error| unusable(&error))?;
    if !found.is_file() || found.len() > MAX_CA_BYTES {
        let rule =
            format!("has to be a plain file of at most {MAX_CA_BYTES} bytes; name another as redis.ca_file");
        return Err(unusable(&rule).into());
    }
    let pem = std::fs::read(file).map_err(|error| unusable(&error))?;
    if CertificateDer::pem_slice_iter(&pem).next().is_none() {
        return Err(unusable(&"there is no certificate in it").into());
    }
    let trusted = redis::TlsCertificates { client_tls: None, root_cert: Some(pem) };
    Ok(Client::build_with_tls(url, trusted)?)
}

#[cfg(not(feature = "tls"))]
pub(super) fn of(url: &str, _: Option<&Path>) -> Result<Client, Source> {
    Ok(Client::open(url)?)
}

/// Connects once, which tells the server user and password.
pub(super) async fn try_out(client: &Client, patience: Duration) -> Result<(), Trouble> {
    let config = AsyncConnectionConfig::new()
        .set_connection_timeout(Some(patience))
        .set_response_timeout(Some(patience));
    let tried = async {
        let mut connection = client.get_multiplexed_async_connection_with_config(&config).await?;
        redis::cmd("PING").query_async::<()>(&mut connection).await
    };
    let is_encrypted = matches!(client.get_connection_info().addr(), ConnectionAddr::TcpTls { .. });
    match tokio::time::timeout(patience * 2, tried).await {
        Ok(Ok(())) => Ok(()),
        Ok(Err(error)) if is_lasting(&error) => Err(Trouble::Lasting(error.into())),
        Ok(Err(error)) if error.is_connection_refusal() => Err(Trouble::Passing(error.to_string())),
        Ok(Err(error)) => Err(Trouble::Passing(format!("{error}; {}", other_port(is_encrypted)))),
        Err(late) => Err(Trouble::Passing(format!("{late}; {}", other_port(is_encrypted)))),
    }
}

/// A port that is asked in the other protocol closes the connection, or waits for more: so does one that is overloaded.
fn other_port(is_encrypted: bool) -> &'static str {
    match is_encrypted {
        true => "where its port is not encrypted, the address has to begin with redis://",
        false => "where its port is encrypted, the address has to begin with rediss://",
    }
}

/// A password that is not taken, a certificate that is not trusted, what is no answer of a Redis server.
fn is_lasting(error: &RedisError) -> bool {
    match error.kind() {
        ErrorKind::Io => is_invalid(error),
        ErrorKind::AuthenticationFailed | ErrorKind::InvalidClientConfig | ErrorKind::Parse => true,
        _ => matches!(error.code(), Some("NOAUTH" | "WRONGPASS" | "NOPERM")),
    }
}

/// What TLS does not accept is told as data that cannot be read.
fn is_invalid(error: &RedisError) -> bool {
    type Shared = Arc<dyn StdError + Send + Sync>;
    let source = error.source().and_then(|source| source.downcast_ref::<Shared>());
    let source = source.and_then(|source| source.downcast_ref::<io::Error>());
    source.is_some_and(|source| source.kind() == io::ErrorKind::InvalidData)
}

#[cfg(feature = "tls")]
#[cfg(test)]
mod tests {
    use super::*;

    fn service(variable: &str) -> String {
        std::env::var(variable)
            .unwrap_or_else(|_| panic!("{variable} is not set: see `deploy/dev/services env`"))
    }

    fn trouble(url: &str) -> String {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        let client = of(url, None).unwrap();
        match runtime.block_on(try_out(&client, Duration::from_millis(500))) {
            Err(Trouble::Passing(error)) => error,
            Err(Trouble::Lasting(error)) => error.to_string(),
            Ok(()) => panic!("{url} cannot be used"),
        }
    }

    /// OPS-10: whoever asks a port in the other protocol is told what the address has to begin with.
    #[test]
    fn other_protocol_than_the_ports_is_told() {
        let encrypted = service("TIDEMILL_TEST_REDIS_TLS");
        let told = trouble(&format!("redis://{encrypted}"));
        assert!(told.ends_with("the address has to begin with rediss://"), "{told}");
    }
}
