//! The discovery document: where the provider takes what, and how.

use serde::Deserialize;
use url::Url;

use crate::address::{is_loopback, safe};
use crate::error::brief;
use crate::http::{Http, send};
use crate::{Asked, Error, Fault, Settings};

/// What is used of the document (OpenID Connect Discovery, section 3).
#[derive(Deserialize)]
struct Document {
    issuer: String,
    authorization_endpoint: String,
    token_endpoint: String,
    jwks_uri: String,
    userinfo_endpoint: Option<String>,
    token_endpoint_auth_methods_supported: Option<Vec<String>>,
    code_challenge_methods_supported: Option<Vec<String>>,
}

pub(crate) struct Discovery {
    pub(crate) authorization: Url,
    pub(crate) token: Url,
    pub(crate) keys: Url,
    pub(crate) user_info: Option<Url>,
    pub(crate) auth: Auth,
}

/// How the client shows who it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Auth {
    /// It has no secret.
    Public,
    /// In the header.
    Basic,
    /// In the body.
    Post,
}

impl Discovery {
    pub(crate) async fn fetch(http: &Http, settings: &Settings) -> Result<Self, Error> {
        let address = format!("{}/.well-known/openid-configuration", settings.issuer.trim_end_matches('/'));
        let url =
            safe(&address).ok_or_else(|| Fault::Endpoint { field: "issuer", value: brief(&address) })?;
        let answer = send(Asked::Discovery, http.get(&url)).await?;
        Ok(Self::read(answer.good()?, settings)?)
    }

    fn read(document: Document, settings: &Settings) -> Result<Self, Fault> {
        // The document of another provider would have its tokens accepted (section 4.3).
        if document.issuer != settings.issuer {
            return Err(Fault::Issuer { said: brief(&document.issuer) });
        }
        // Where nothing is said, as with most older providers, S256 is tried.
        if document.code_challenge_methods_supported.is_some_and(|all| !all.iter().any(|it| it == "S256")) {
            return Err(Fault::NoPkce);
        }
        let is_issuer_here = safe(&settings.issuer).is_some_and(|issuer| is_loopback(&issuer));
        let endpoints = Endpoints { is_issuer_here };
        let user_info = document.userinfo_endpoint.as_deref();
        Ok(Self {
            authorization: endpoints.check("authorization_endpoint", &document.authorization_endpoint)?,
            token: endpoints.check("token_endpoint", &document.token_endpoint)?,
            keys: endpoints.check("jwks_uri", &document.jwks_uri)?,
            user_info: user_info.map(|url| endpoints.check("userinfo_endpoint", url)).transpose()?,
            auth: auth(settings, document.token_endpoint_auth_methods_supported)?,
        })
    }
}

/// Only a provider on this machine sends us, with our secrets, to this machine.
struct Endpoints {
    is_issuer_here: bool,
}

impl Endpoints {
    fn check(&self, field: &'static str, value: &str) -> Result<Url, Fault> {
        let url = safe(value).filter(|url| self.is_issuer_here || !is_loopback(url));
        url.ok_or_else(|| Fault::Endpoint { field, value: brief(value) })
    }
}

fn auth(settings: &Settings, methods: Option<Vec<String>>) -> Result<Auth, Fault> {
    if settings.client_secret.is_none() {
        return Ok(Auth::Public);
    }
    let Some(methods) = methods else { return Ok(Auth::Basic) };
    let offers = |method: &str| methods.iter().any(|it| it == method);
    if offers("client_secret_basic") {
        return Ok(Auth::Basic);
    }
    if offers("client_secret_post") {
        return Ok(Auth::Post);
    }
    Err(Fault::AuthMethod { said: brief(&methods.join(", ")) })
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn settings(secret: Option<&str>) -> Settings {
        serde_json::from_value(json!({
            "issuer": "https://id.example.org",
            "client_id": "tidemill",
            "client_secret": secret,
            "redirect_url": "https://tidemill.example.org/api/sign-in/oidc/done",
        }))
        .unwrap()
    }

    fn read(changes: Value, secret: Option<&str>) -> Result<Discovery, Fault> {
        let mut document = json!({
            "issuer": "https://id.example.org",
            "authorization_endpoint": "https://id.example.org/auth",
            "token_endpoint": "https://id.example.org/token",
            "jwks_uri": "https://keys.example.org/keys",
            "more": ["that", "nobody", "knows"],
        });
        document.as_object_mut().unwrap().extend(changes.as_object().unwrap().clone());
        Discovery::read(serde_json::from_value(document).unwrap(), &settings(secret))
    }

    /// API-5: the way the secret is shown is one that the provider takes, in the header where it can be.
    #[test]
    fn secret_is_shown_as_the_provider_wants_it() {
        let by = |methods: Value, secret| {
            read(json!({"token_endpoint_auth_methods_supported": methods}), secret).map(|it| it.auth)
        };
        assert_eq!(by(Value::Null, Some("x")).unwrap(), Auth::Basic);
        assert_eq!(by(json!(["client_secret_post", "client_secret_basic"]), Some("x")).unwrap(), Auth::Basic);
        assert_eq!(by(json!(["private_key_jwt", "client_secret_post"]), Some("x")).unwrap(), Auth::Post);
        assert_eq!(by(json!(["client_secret_basic"]), None).unwrap(), Auth::Public);
        assert!(matches!(by(json!(["private_key_jwt"]), Some("x")), Err(Fault::AuthMethod { .. })));
    }

    /// API-5: a document of another issuer, without S256, or with addresses that are not safe, is not used.
    #[test]
    fn documents_that_break_a_rule_are_not_used() {
        assert!(read(json!({"code_challenge_methods_supported": ["plain", "S256"]}), None).is_ok());
        let fault = |changes| read(changes, None).map(drop).unwrap_err();
        assert!(matches!(fault(json!({"issuer": "https://id.example.org/"})), Fault::Issuer { .. }));
        assert!(matches!(fault(json!({"code_challenge_methods_supported": ["plain"]})), Fault::NoPkce));
        for (name, bad) in [
            ("authorization_endpoint", "http://id.example.org/auth"),
            ("token_endpoint", "http://id.example.org/token"),
            ("token_endpoint", "http://127.0.0.1/token"),
            ("token_endpoint", "https://localhost/token"),
            ("jwks_uri", "/keys"),
            ("userinfo_endpoint", "file:///etc/passwd"),
        ] {
            let fault = fault(json!({name: bad}));
            assert!(matches!(fault, Fault::Endpoint { field, .. } if field == name), "{name} {bad}: {fault}");
        }
    }
}
