//! A provider that answers what a test says.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex};

use axum::Router;
use axum::extract::{Request, State};
use axum::http::StatusCode;
use axum::http::header::{AUTHORIZATION, LOCATION};
use axum::response::{IntoResponse as _, Response};
use serde_json::{Value, json};

use super::signer::{EC, ED, RSA};

#[derive(Clone)]
pub(crate) struct Stub {
    pub(crate) issuer: String,
    inside: Arc<Mutex<Inside>>,
}

#[derive(Default)]
struct Inside {
    answers: BTreeMap<&'static str, (u16, String)>,
    asked: Vec<Asked>,
}

/// What the stub was asked.
#[derive(Clone)]
pub(crate) struct Asked {
    pub(crate) path: String,
    pub(crate) authorization: Option<String>,
    pub(crate) body: String,
}

pub(crate) const DISCOVERY: &str = "/.well-known/openid-configuration";
pub(crate) const KEYS: &str = "/keys";
pub(crate) const TOKEN: &str = "/token";
pub(crate) const USER_INFO: &str = "/userinfo";

impl Stub {
    /// One that publishes its document, the keys `rsa`, `ec` and `ed`, and some that are not for this: `new`, `enciphers`
    /// and `longer`. It knows nothing else.
    pub(crate) async fn open() -> Self {
        Self::open_behind(async |address| format!("http://{address}")).await
    }

    /// The same, where its clients come another way.
    pub(crate) async fn open_behind(issuer: impl AsyncFnOnce(SocketAddr) -> String) -> Self {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let issuer = issuer(listener.local_addr().unwrap()).await;
        let stub = Self { issuer, inside: Arc::default() };
        let router = Router::new().fallback(answer).with_state(stub.clone());
        tokio::spawn(async move { axum::serve(listener, router).await.unwrap() });
        stub.says(DISCOVERY, &stub.document());
        let (mut enciphers, mut longer) = (RSA.jwk("enciphers"), RSA.jwk("longer"));
        (enciphers["use"], longer["alg"]) = (json!("enc"), json!("RS512"));
        let others = [json!({"kty": "new", "kid": "new"}), enciphers, longer];
        let keys: Vec<_> = [RSA.jwk("rsa"), EC.jwk("ec"), ED.jwk("ed")].into_iter().chain(others).collect();
        stub.says(KEYS, &json!({"keys": keys}));
        stub
    }

    pub(crate) fn document(&self) -> Value {
        let at = |path| format!("{}{path}", self.issuer);
        json!({
            "issuer": self.issuer,
            "authorization_endpoint": at("/auth"),
            "token_endpoint": at(TOKEN),
            "jwks_uri": at(KEYS),
            "userinfo_endpoint": at(USER_INFO),
        })
    }

    pub(crate) fn says(&self, path: &'static str, what: &Value) {
        self.answers(path, 200, what.to_string());
    }

    /// The token endpoint gives this ID token.
    pub(crate) fn gives(&self, id_token: &str) {
        self.says(TOKEN, &json!({"access_token": "access", "token_type": "Bearer", "id_token": id_token}));
    }

    pub(crate) fn answers(&self, path: &'static str, status: u16, body: String) {
        self.inside.lock().unwrap().answers.insert(path, (status, body));
    }

    pub(crate) fn asked(&self, path: &str) -> Vec<Asked> {
        self.inside.lock().unwrap().asked.iter().filter(|it| it.path == path).cloned().collect()
    }
}

async fn answer(State(stub): State<Stub>, request: Request) -> Response {
    let path = request.uri().path().to_owned();
    let authorization = request.headers().get(AUTHORIZATION).map(|it| it.to_str().unwrap().to_owned());
    let body = axum::body::to_bytes(request.into_body(), 1 << 20).await.unwrap();
    let body = String::from_utf8(body.to_vec()).unwrap();
    let mut inside = stub.inside.lock().unwrap();
    let answer = inside.answers.get(path.as_str()).cloned();
    inside.asked.push(Asked { path, authorization, body });
    let (status, body) = answer.unwrap_or((404, "nothing here".to_owned()));
    let status = StatusCode::from_u16(status).unwrap();
    if status.is_redirection() {
        return (status, [(LOCATION, body)]).into_response();
    }
    (status, body).into_response()
}
