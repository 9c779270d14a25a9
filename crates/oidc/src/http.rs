//! Requests to the provider: bounded in time and size, without redirects.

use std::path::Path;
use std::time::Duration;

use reqwest::redirect::Policy;
use reqwest::{Client, RequestBuilder};
use serde::de::DeserializeOwned;
use tidemill_model::FieldError;
use tidemill_serving::tls;
use url::Url;

use crate::address::is_loopback;
use crate::error::brief;
use crate::{Asked, Cause, Error, Fault, Settings};

/// For a whole answer.
const TIMEOUT: Duration = Duration::from_secs(10);
/// Longer answers are not read.
const MOST_KIB: usize = 256;

pub(crate) struct Http(Client);

pub(crate) struct Answer {
    pub(crate) asked: Asked,
    pub(crate) status: u16,
    body: Vec<u8>,
}

impl Http {
    /// Nothing is connected yet.
    pub(crate) fn new(settings: &Settings) -> Result<Self, Fault> {
        Self::with_timeout(settings, TIMEOUT)
    }

    fn with_timeout(settings: &Settings, timeout: Duration) -> Result<Self, Fault> {
        let client = Client::builder()
            .tls_backend_preconfigured(whom_to_trust(settings)?)
            .timeout(timeout)
            .redirect(Policy::none());
        // A proxy could not reach it.
        let is_here = Url::parse(&settings.issuer).is_ok_and(|issuer| is_loopback(&issuer));
        let client = if is_here { client.no_proxy() } else { client };
        Ok(Self(client.build().map_err(Fault::Client)?))
    }

    pub(crate) fn get(&self, url: &Url) -> RequestBuilder {
        self.0.get(url.clone()).header("Accept", "application/json")
    }

    pub(crate) fn post_form(&self, url: &Url, form: String) -> RequestBuilder {
        self.0
            .post(url.clone())
            .header("Accept", "application/json")
            .header("Content-Type", "application/x-www-form-urlencoded")
            .body(form)
    }
}

/// Sends it, and reads the whole answer.
pub(crate) async fn send(asked: Asked, request: RequestBuilder) -> Result<Answer, Error> {
    let failed = |error: reqwest::Error| not_answered(asked, error);
    let mut response = request.send().await.map_err(failed)?;
    let status = response.status();
    if status.is_redirection() {
        return Err(Fault::Redirect { asked }.into());
    }
    let mut body = Vec::new();
    while let Some(part) = response.chunk().await.map_err(failed)? {
        if body.len() + part.len() > MOST_KIB << 10 {
            return Err(Fault::TooLong { asked, most: MOST_KIB }.into());
        }
        body.extend_from_slice(&part);
    }
    let answer = Answer { asked, status: status.as_u16(), body };
    if matches!(answer.status, 408 | 429 | 500..=599) {
        let source = Cause::from(format!("it answers {}: {}", answer.status, answer.said()));
        return Err(Error::Away { asked, source });
    }
    Ok(answer)
}

impl Answer {
    /// The good answer.
    pub(crate) fn good<T: DeserializeOwned>(&self) -> Result<T, Fault> {
        if self.status != 200 {
            return Err(self.fault());
        }
        self.read()
    }

    pub(crate) fn read<T: DeserializeOwned>(&self) -> Result<T, Fault> {
        let unreadable = |source| Fault::Unreadable { asked: self.asked, source };
        serde_json::from_slice(&self.body).map_err(unreadable)
    }

    pub(crate) fn fault(&self) -> Fault {
        Fault::Status { asked: self.asked, status: self.status, said: self.said() }
    }

    fn said(&self) -> String {
        brief(&String::from_utf8_lossy(&self.body))
    }
}

/// The authorities of the configured file; without one, those that the machine trusts.
fn whom_to_trust(settings: &Settings) -> Result<tls::ClientConfig, Fault> {
    if !settings.is_encrypted() {
        return Ok(tls::trusts_nobody());
    }
    let file = settings.ca_file.as_deref();
    tls::trusts(file.map(Path::new))
        .map_err(|error| FieldError::new("ca_file", file.unwrap_or_default(), error.rule).into())
}

/// What is wrong with certificates stays so until somebody does something; all else may pass.
fn not_answered(asked: Asked, error: reqwest::Error) -> Error {
    // The address may hold what belongs to a person.
    let error = error.without_url();
    match tls::trouble(&error) {
        Some(trouble) => Fault::Encryption { why: trouble.what }.into(),
        None => Error::Away { asked, source: error.into() },
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
    use tokio::net::TcpListener;

    use super::*;

    /// API-5: neither a provider that says nothing nor one that never comes to an end is waited for.
    #[tokio::test]
    async fn provider_that_does_not_end_is_away() {
        for begins in ["", "HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\n{"] {
            let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
            let issuer = format!("http://{}", listener.local_addr().unwrap());
            tokio::spawn(async move {
                let (mut client, _) = listener.accept().await.unwrap();
                let mut asked = Vec::new();
                client.read_buf(&mut asked).await.unwrap();
                client.write_all(begins.as_bytes()).await.unwrap();
                client.read_to_end(&mut asked).await
            });
            let settings: Settings = serde_json::from_value(json!({
                "issuer": issuer, "client_id": "tidemill", "redirect_url": "https://t/api/sign-in/oidc/done",
            }))
            .unwrap();
            let http = Http::with_timeout(&settings, Duration::from_millis(100)).unwrap();
            let request = http.get(&Url::parse(&issuer).unwrap());
            let error = send(Asked::Keys, request).await.map(drop).unwrap_err();
            assert!(matches!(error, Error::Away { asked: Asked::Keys, .. }), "{begins}: {error:?}");
        }
    }
}
