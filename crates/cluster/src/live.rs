//! Questions to the owner of a shard, which only its state can answer, in this process and in others; and small ports for roles on threads
//! of their own, whose makes the binary chooses.

use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use axum::extract::{DefaultBodyLimit, Query, Request, State};
use axum::http::{HeaderValue, StatusCode, header};
use axum::middleware::{self, Next};
use axum::response::{IntoResponse, Response};
use axum::routing::{get, post};
use axum::{Json, Router};
use serde::Deserialize;
use serde_json::json;
use sha2::{Digest, Sha256};
use thiserror::Error as ThisError;
use tidemill_model::{LiveAnswer, LiveQuery, ShardId};
use tidemill_serving::tls::{self, Roles};

use crate::Error;
use crate::lines::{OpenLine, replies};

/// A future of a trait object.
pub type BoxFuture<'a, T> = Pin<Box<dyn Future<Output = T> + Send + 'a>>;

/// Questions to the owner of a shard.
pub trait Live: Send + Sync {
    /// Asks the shard's owner.
    fn query(&self, shard: ShardId, query: LiveQuery) -> BoxFuture<'_, Result<LiveAnswer, LiveError>>;
}

/// Why an owner gave no answer.
#[derive(Debug, ThisError)]
pub enum LiveError {
    /// Nobody owns the shard at the moment, or it is not known who.
    #[error("shard {shard} has no known owner at the moment")]
    NoOwner {
        /// Which shard.
        shard: ShardId,
    },
    /// The owner could not be asked, or did not answer in time.
    #[error("cannot ask the owner of shard {shard} at {address}")]
    Ask {
        /// Which shard.
        shard: ShardId,
        /// Where its owner listens.
        address: String,
        /// Why not.
        #[source]
        source: Box<dyn std::error::Error + Send + Sync>,
    },
    /// The owner refused to answer.
    #[error("the owner of shard {shard} refused to answer: {reason}")]
    Refused {
        /// Which shard.
        shard: ShardId,
        /// In its words.
        reason: String,
    },
}

/// Where the owner of a partition listens, as its claim says; `None`: it has no owner that is known.
pub type OwnerAddress = Arc<dyn Fn(u32) -> Option<String> + Send + Sync>;

/// The largest body of jobs that an owner is asked to plan; a question has little beside it.
pub const MAX_PLANNED_BYTES: usize = 16 << 20;

const PLAN_PATIENCE: Duration = Duration::from_secs(20);

/// Asks `POST /live?shard=<n>` of the owner, with the secret that opens the live port.
pub struct HttpLive {
    client: reqwest::Client,
    scheme: &'static str,
    internal_key: String,
    partitions: u32,
    owner_address: OwnerAddress,
}

impl HttpLive {
    /// A client for a log of `partitions` partitions; encrypted where `roles` says how.
    ///
    /// # Errors
    /// The HTTP client cannot be made.
    pub fn new(
        partitions: u32,
        internal_key: &str,
        timeout: Duration,
        owner_address: OwnerAddress,
        roles: Option<&Roles>,
    ) -> Result<Self, Error> {
        let peers = Peers::new(roles);
        let scheme = peers.scheme;
        let client = peers.client(|builder| builder.timeout(timeout)).map_err(Error::Client)?;
        Ok(Self { client, scheme, internal_key: internal_key.to_owned(), partitions, owner_address })
    }

    async fn ask(&self, shard: ShardId, query: LiveQuery) -> Result<LiveAnswer, LiveError> {
        let find = Arc::clone(&self.owner_address);
        let partition = shard.partition(self.partitions);
        let found = tokio::task::spawn_blocking(move || find(partition)).await.ok().flatten();
        let address = found.ok_or(LiveError::NoOwner { shard })?;
        let failed = |source: reqwest::Error| {
            let source = source.without_url();
            if let Some(why) = trouble(&source) {
                tracing::warn!(%shard, address, "cannot ask the owner of shard {shard} at {address}: {why}");
            }
            LiveError::Ask { shard, address: address.clone(), source: Box::new(source) }
        };
        let is_plan = matches!(query, LiveQuery::PlanApply { .. } | LiveQuery::CheckDirectory { .. });
        let request = self
            .client
            .post(format!("{}://{address}/live", self.scheme))
            .query(&[("shard", shard.0)])
            .bearer_auth(&self.internal_key)
            .json(&query);
        // A plan of thousands of jobs takes time by itself.
        let request = if is_plan { request.timeout(PLAN_PATIENCE) } else { request };
        let response = request.send().await.map_err(failed)?;
        if !response.status().is_success() {
            let reason = refusal(response).await;
            return Err(LiveError::Refused { shard, reason });
        }
        response.json().await.map_err(failed)
    }
}

/// Where the port is encrypted and this client is not, that is said.
pub(crate) async fn refusal(response: reqwest::Response) -> String {
    let status = response.status();
    let said: serde_json::Value = response.json().await.unwrap_or_default();
    match (said["code"].as_str(), said["detail"].as_str()) {
        (Some("https_expected"), Some(detail)) => format!("{status}: {detail} (tls.roles)"),
        _ => status.to_string(),
    }
}

impl Live for HttpLive {
    fn query(&self, shard: ShardId, query: LiveQuery) -> BoxFuture<'_, Result<LiveAnswer, LiveError>> {
        Box::pin(self.ask(shard, query))
    }
}

/// Asks owners in this process.
pub struct InProcessLive {
    owners: AskOwner,
}

impl InProcessLive {
    /// Asks these.
    pub fn new(owners: AskOwner) -> Self {
        Self { owners }
    }
}

impl Live for InProcessLive {
    fn query(&self, shard: ShardId, query: LiveQuery) -> BoxFuture<'_, Result<LiveAnswer, LiveError>> {
        let owners = Arc::clone(&self.owners);
        Box::pin(async move {
            let answered = tokio::task::spawn_blocking(move || owners(shard, query)).await;
            let answered = answered.unwrap_or_else(|_| Err("asking it ended unexpectedly".to_owned()));
            answered.map_err(|reason| LiveError::Refused { shard, reason })
        })
    }
}

#[derive(Clone)]
struct Owners {
    owners: AskOwner,
    internal_key: Arc<str>,
}

#[derive(Deserialize)]
struct Asked {
    shard: u16,
}

/// What a process with owners serves: `POST /live?shard=<n>` with a [`LiveQuery`] for [`HttpLive`], and `GET
/// /replies?instance=<id>` for [`ReplyLines`](crate::ReplyLines).
pub fn live_router(internal_key: &str, owners: AskOwner, lines: OpenLine) -> Router {
    let owners = Owners { owners, internal_key: internal_key.into() };
    Router::new()
        .route("/live", post(answer))
        .route("/replies", get(replies).with_state(lines))
        .layer(DefaultBodyLimit::max(MAX_PLANNED_BYTES + (1 << 20)))
        .layer(middleware::from_fn_with_state(owners.clone(), knows_secret))
        .with_state(owners)
}

/// Nothing of a question is read before the secret.
async fn knows_secret(State(here): State<Owners>, request: Request, next: Next) -> Result<Response, Refusal> {
    let headers = request.headers();
    let shown =
        headers.get(header::AUTHORIZATION).and_then(|value| value.to_str().ok()?.strip_prefix("Bearer "));
    // An empty secret would let everybody in.
    let knows = !here.internal_key.is_empty() && is_same(shown.unwrap_or(""), &here.internal_key);
    if !knows {
        let detail = "the cluster's secret is missing or wrong".to_owned();
        return Err(Refusal { status: StatusCode::UNAUTHORIZED, code: "unauthorized", detail });
    }
    Ok(next.run(request).await)
}

/// Compares by hashes, all of them whatever differs: how long it takes says nothing of the secret.
fn is_same(shown: &str, secret: &str) -> bool {
    let (shown, secret) = (Sha256::digest(shown), Sha256::digest(secret));
    shown.iter().zip(&secret).fold(0, |differ, (a, b)| differ | (a ^ b)) == 0
}

async fn answer(
    State(here): State<Owners>,
    Query(asked): Query<Asked>,
    Json(query): Json<LiveQuery>,
) -> Result<Json<LiveAnswer>, Refusal> {
    let owners = here.owners;
    let answered = tokio::task::spawn_blocking(move || owners(ShardId(asked.shard), query)).await;
    match answered {
        Ok(Ok(answer)) => Ok(Json(answer)),
        Ok(Err(detail)) => {
            Err(Refusal { status: StatusCode::SERVICE_UNAVAILABLE, code: "no_answer", detail })
        }
        Err(_) => {
            let detail =
                "asking the owner ended unexpectedly; the cause is in the log of this instance".to_owned();
            Err(Refusal { status: StatusCode::INTERNAL_SERVER_ERROR, code: "internal", detail })
        }
    }
}

/// A question that is not answered, as problem+json.
#[derive(Debug)]
pub struct Refusal {
    /// Of the answer.
    pub status: StatusCode,
    /// For programs.
    pub code: &'static str,
    /// For people.
    pub detail: String,
}

impl IntoResponse for Refusal {
    fn into_response(self) -> Response {
        let Self { status, code, detail } = self;
        let mut body = json!({
            "type": format!("urn:tidemill:problem:{code}"),
            "title": status.canonical_reason().unwrap_or("error"),
            "status": status.as_u16(),
            "detail": detail,
            "code": code,
            "errors": [],
        });
        let again = (status == StatusCode::SERVICE_UNAVAILABLE).then_some(1_u64);
        if let Some(seconds) = again {
            body["retry_after_s"] = seconds.into();
        }
        let mut response = (status, Json(body)).into_response();
        let headers = response.headers_mut();
        if let Some(seconds) = again {
            headers.insert(header::RETRY_AFTER, HeaderValue::from(seconds));
        }
        headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("application/problem+json"));
        if status == StatusCode::UNAUTHORIZED {
            headers.insert(header::WWW_AUTHENTICATE, HeaderValue::from_static("Bearer"));
        }
        response
    }
}

/// Builds clients for what other roles serve: encrypted where the cluster's roles are, plain where not.
pub struct Peers {
    /// Begins every address: `http` or `https`.
    pub scheme: &'static str,
    builder: reqwest::ClientBuilder,
}

impl Peers {
    /// Encrypted where `roles` says how.
    #[must_use]
    pub fn new(roles: Option<&Roles>) -> Self {
        let scheme = if roles.is_some() { "https" } else { "http" };
        let config = roles.map_or_else(tls::trusts_nobody, Roles::client);
        let builder = reqwest::Client::builder().no_proxy().tls_backend_preconfigured(config);
        Self { scheme, builder }
    }

    /// A client, with what else the caller wants of it.
    ///
    /// # Errors
    /// The client cannot be made.
    pub fn client(
        self,
        with: impl FnOnce(reqwest::ClientBuilder) -> reqwest::ClientBuilder,
    ) -> Result<reqwest::Client, reqwest::Error> {
        with(self.builder).build()
    }
}

/// Why the other side did not answer, where it is a matter of encryption.
#[must_use]
pub fn trouble(error: &(dyn std::error::Error + 'static)) -> Option<String> {
    tls::trouble(error).map(|trouble| format!("{}: {}", trouble.what, trouble.remedy))
}

/// Asks the owner of a shard; blocks for some seconds at most. An error says why there is no answer.
pub type AskOwner = Arc<dyn Fn(ShardId, LiveQuery) -> Result<LiveAnswer, String> + Send + Sync>;

/// The shards of all groups; may block for some seconds. An error says why they are not known at the moment.
pub type GroupShards = Arc<dyn Fn() -> Result<Vec<ShardId>, String> + Send + Sync>;

/// How often it is looked for new groups.
const SHARDS_EVERY: Duration = Duration::from_secs(2);

/// Asks for pages until there are no more. `page` is given the key of the last one so far, and says whether more follow.
///
/// # Errors
/// The first that a page gives.
pub fn all_pages<T, K>(
    mut page: impl FnMut(Option<K>) -> Result<(Vec<T>, bool), String>,
    key: impl Fn(&T) -> K,
) -> Result<Vec<T>, String> {
    let mut all: Vec<T> = Vec::new();
    loop {
        let (more, has_more) = page(all.last().map(&key))?;
        // A page without anything is the last one, whatever it says.
        let ended = !has_more || more.is_empty();
        all.extend(more);
        if ended {
            return Ok(all);
        }
    }
}

/// Tells which shards there are, again and again, until nobody listens. New groups are found sooner or later;
/// while they cannot be asked for, nothing is told.
pub async fn follow_shards<F: Future<Output = bool>>(shards: GroupShards, tell: impl Fn(Vec<ShardId>) -> F) {
    loop {
        let shards = Arc::clone(&shards);
        match tokio::task::spawn_blocking(move || shards()).await {
            Ok(Ok(shards)) => {
                if !tell(shards).await {
                    return;
                }
            }
            Ok(Err(reason)) => tracing::warn!(reason, "which groups there are is not known"),
            Err(error) => tracing::error!(%error, "looking for groups ended unexpectedly"),
        }
        tokio::time::sleep(SHARDS_EVERY).await;
    }
}
