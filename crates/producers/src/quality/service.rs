//! The service itself, over HTTP.

use backon::Retryable as _;
use serde::Serialize;
use tidemill_model::{BatchId, FieldError, QualityQuestion, causes};

use super::Config;

/// What the service gets.
#[derive(Debug, Serialize)]
struct Question<'a> {
    #[serde(flatten)]
    ask: &'a QualityQuestion,
    /// Where to POST `{"allowed": true}` or `{"allowed": false, "reason": "…"}`, with an application key.
    answer_url: String,
}

/// Sends questions.
#[derive(Clone)]
pub(super) struct Service {
    config: Config,
    url: String,
    token: Option<String>,
    client: reqwest::Client,
}

impl Service {
    /// The configured service; none where none is.
    ///
    /// # Errors
    /// The token is not in the environment, or the client cannot be made.
    pub(super) fn new(
        config: &Config,
        tls: Option<rustls::ClientConfig>,
    ) -> Result<Option<Self>, FieldError> {
        let Some(url) = config.url.clone() else { return Ok(None) };
        let token = config.token_env.as_ref().map(|name| {
            let rule = "names no environment variable that holds a token";
            std::env::var(name).map_err(|_| FieldError::new("token_env", name, rule))
        });
        if tls.is_none() && config.is_encrypted() {
            return Err(FieldError::new(
                "url",
                &url,
                "needs TLS, and nothing says whose certificates are trusted",
            ));
        }
        let client = reqwest::Client::builder().timeout(config.timeout()).no_proxy();
        let client = match tls {
            Some(tls) => client.tls_backend_preconfigured(tls),
            // It is asked without encryption, so the machine has to trust nobody.
            None => client.tls_certs_only([]),
        };
        let client = client.build().map_err(|error| FieldError::new("url", &url, error.to_string()))?;
        Ok(Some(Self { config: config.clone(), url, token: token.transpose()?, client }))
    }

    /// Delivers a question, in a few tries. What the service says to it does not matter.
    ///
    /// # Errors
    /// Why it could not be delivered, for people.
    pub(super) async fn send(&self, ask: &QualityQuestion) -> Result<(), String> {
        let mut tries = 1;
        let sent = (|| self.send_once(ask)).retry(self.config.pauses()).when(|failure| !failure.is_final);
        let sent = sent.notify(|Failure { reason, .. }, _| {
            tries += 1;
            tracing::debug!(batch = %ask.batch, reason, "the quality service is asked again");
        });
        let sent = sent.await;
        sent.map_err(|Failure { reason, .. }| format!("{reason}, tried {tries} times"))
    }

    async fn send_once(&self, ask: &QualityQuestion) -> Result<(), Failure> {
        let question = Question { ask, answer_url: self.answer_url(ask.batch) };
        // The same in every try: the service may take it once only.
        let key = format!("{}-{}", ask.batch, ask.number);
        let mut request = self.client.post(&self.url).header("Idempotency-Key", key).json(&question);
        if let Some(token) = &self.token {
            request = request.bearer_auth(token);
        }
        let failed =
            |error: reqwest::Error| Failure { reason: causes(&error.without_url()), is_final: false };
        let status = request.send().await.map_err(failed)?.status();
        if status.is_success() {
            return Ok(());
        }
        // What the service does not understand now it will not understand in a second.
        let is_final = status.is_client_error() && !matches!(status.as_u16(), 408 | 429);
        Err(Failure { reason: format!("it answers {status}"), is_final })
    }

    fn answer_url(&self, batch: BatchId) -> String {
        let base = self.config.answer_url.as_deref().unwrap_or_default().trim_end_matches('/');
        format!("{base}/api/batches/{batch}/quality")
    }
}

struct Failure {
    reason: String,
    is_final: bool,
}
