//! The token endpoint: tokens for a code (RFC 6749, section 4.1.3).

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use reqwest::RequestBuilder;
use serde::Deserialize;
use url::form_urlencoded::{Serializer, byte_serialize};

use crate::discovery::{Auth, Discovery};
use crate::error::brief;
use crate::http::{Answer, Http, send};
use crate::{Asked, Error, Fault, Pending, Refusal, Settings};

/// Of a code.
const CODE_BYTES: usize = 4_096;

#[derive(Deserialize)]
pub(crate) struct Tokens {
    pub(crate) access_token: String,
    pub(crate) id_token: String,
}

/// A refusal (section 5.2).
#[derive(Deserialize)]
struct Refused {
    error: String,
    error_description: Option<String>,
}

pub(crate) async fn exchange(
    http: &Http,
    settings: &Settings,
    discovery: &Discovery,
    pending: &Pending,
    code: &str,
) -> Result<Tokens, Error> {
    if !(1..=CODE_BYTES).contains(&code.len()) || !code.bytes().all(|byte| byte.is_ascii_graphic()) {
        return Err(Refusal::CodeForm.into());
    }
    let request = request(http, settings, discovery, pending, code);
    let answer = send(Asked::Tokens, request).await?;
    if matches!(answer.status, 400..=499) {
        return Err(refused(&answer));
    }
    Ok(answer.good()?)
}

fn request(
    http: &Http,
    settings: &Settings,
    discovery: &Discovery,
    pending: &Pending,
    code: &str,
) -> RequestBuilder {
    let secret = settings.client_secret.as_deref().unwrap_or_default();
    let mut form = Serializer::new(String::new());
    form.append_pair("grant_type", "authorization_code")
        .append_pair("code", code)
        .append_pair("redirect_uri", &settings.redirect_url)
        .append_pair("code_verifier", pending.verifier());
    match discovery.auth {
        Auth::Basic => {}
        Auth::Post => {
            form.append_pair("client_id", &settings.client_id).append_pair("client_secret", secret);
        }
        Auth::Public => {
            form.append_pair("client_id", &settings.client_id);
        }
    }
    let request = http.post_form(&discovery.token, form.finish());
    if discovery.auth == Auth::Basic {
        return request.header("Authorization", basic(&settings.client_id, secret));
    }
    request
}

/// Both parts are written as in a form first (section 2.3.1), so that a colon in the name is none between the two.
fn basic(client_id: &str, secret: &str) -> String {
    let encoded = |text: &str| byte_serialize(text.as_bytes()).collect::<String>();
    let both = format!("{}:{}", encoded(client_id), encoded(secret));
    format!("Basic {}", STANDARD.encode(both))
}

/// Whether it is the code, which comes from the browser, or the client, which comes from the settings.
fn refused(answer: &Answer) -> Error {
    let Ok(Refused { error, error_description }) = answer.read() else { return answer.fault().into() };
    let said = match error_description {
        Some(description) => brief(&format!("{error} ({description})")),
        None => brief(&error),
    };
    match error.as_str() {
        "invalid_grant" | "invalid_request" | "access_denied" => Refusal::Code { said }.into(),
        _ => Fault::ClientRefused { said }.into(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// API-5: no name of a client is taken for another one with another secret.
    #[test]
    fn name_and_secret_are_encoded_before_they_are_joined() {
        let plain = |text: &str| {
            String::from_utf8(STANDARD.decode(text.strip_prefix("Basic ").unwrap()).unwrap()).unwrap()
        };
        assert_eq!(plain(&basic("tidemill", "correct-horse")), "tidemill:correct-horse");
        assert_eq!(plain(&basic("a:b", "c: 100%")), "a%3Ab:c%3A+100%25");
    }
}
