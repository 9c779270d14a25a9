use std::sync::Arc;
use std::time::Duration;

use axum::extract::State;
use axum::{Extension, Json};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use tidemill_journal::now;
use tidemill_model::{Answer, GrantId, PulledGrant, TaskCommand, Timestamp, UserName, bounds};

use super::pull_users::user_name;
use super::requests::{Writer, written};
use crate::Problem;
use crate::app::App;
use crate::body::{Body, parse};
use crate::call::{Call, Calls};
use crate::layers::Entered;
use crate::pulling::{Pulled, Puller};
use crate::standing::Standing;
use crate::view::{Answered, Written};

/// The longest wait of a pull, seconds.
const LONGEST_WAIT_S: u32 = 30;
/// A client asks again after so long at most: a new task may be there.
const LONGEST_PAUSE_S: i64 = 30;

/// The calls of clients that pull tasks.
pub(super) fn calls(calls: Calls) -> Calls {
    calls
        .add(
            Call::act(
                "/api/pull",
                "The user's grant again, or the earliest task that is due; else when to ask again",
            )
            .named("pullTask")
            .takes::<PullRequest>()
            .gives::<PullAnswer>(),
            pull,
        )
        .add(
            Call::act("/api/pull/complete", "The user has done what it was given; may be repeated")
                .named("completePullGrant")
                .takes::<CompleteRequest>()
                .gives::<Completed>(),
            complete,
        )
        .add(
            Call::act("/api/pull/return", "Gives a grant back, so that it can be given again")
                .named("returnPullGrant")
                .takes::<ReturnRequest>(),
            give_back,
        )
}

/// Who pulls.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct PullRequest {
    /// The user.
    #[schemars(with = "UserName")]
    user: String,
    /// How long to wait where nothing is due, seconds, 0 to 30. Default 0.
    #[serde(default)]
    #[schemars(range(max = LONGEST_WAIT_S))]
    wait_s: u32,
}

/// What a pull gives.
#[derive(Serialize, JsonSchema)]
pub(crate) struct PullAnswer {
    /// What the user is to do; `redo` says that the user had it already. `null`: nothing is due.
    grant: Option<PulledGrant>,
    /// Where nothing is due: when the next task begins for the user, as far as is known.
    #[serde(skip_serializing_if = "Option::is_none")]
    next_at: Option<Timestamp>,
    /// Where nothing is due: after how many seconds to pull again, 1 to 30.
    #[serde(skip_serializing_if = "Option::is_none")]
    retry_after_s: Option<i64>,
}

impl From<Pulled> for PullAnswer {
    fn from(pulled: Pulled) -> Self {
        match pulled {
            Pulled::Grant(grant) => Self { grant: Some(*grant), next_at: None, retry_after_s: None },
            Pulled::Nothing { next_at } => {
                let seconds = next_at.map_or(LONGEST_PAUSE_S, |at| {
                    let ms = at.as_millisecond().saturating_sub(now().as_millisecond());
                    ms.saturating_add(999) / 1_000
                });
                Self { grant: None, next_at, retry_after_s: Some(seconds.clamp(1, LONGEST_PAUSE_S)) }
            }
        }
    }
}

/// A client asks for work (PUL-5, PUL-6). It may wait for it: then it gives its place among the requests under way
/// back meanwhile.
async fn pull(
    State(app): State<Arc<App>>,
    Extension(mut standing): Extension<Standing>,
    Extension(entered): Extension<Entered>,
    Body(body): Body,
) -> Answered<PullAnswer> {
    let PullRequest { user, wait_s } = parse(body)?;
    if wait_s > LONGEST_WAIT_S {
        return Err(Problem::field("wait_s", wait_s, format!("must be 0 to {LONGEST_WAIT_S}")));
    }
    let caller = standing.caller().clone();
    let mut puller = Puller::new(&app, &caller, user_name(&user)?).await?;
    let wait = Duration::from_secs(u64::from(wait_s));
    let pulled = puller.pull(wait, &mut standing, || entered.leave()).await?;
    Ok(Json(pulled.into()))
}

/// What was done.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct CompleteRequest {
    /// The user.
    #[schemars(with = "UserName")]
    user: String,
    /// The grant that the pull gave.
    grant: GrantId,
    /// What came of it, 1 to 4,096 bytes.
    #[schemars(length(min = 1, max = bounds::RESULT_BYTES))]
    result: String,
}

/// A grant is completed.
#[derive(Serialize, JsonSchema)]
pub(crate) struct Completed {
    /// Which.
    grant: GrantId,
    /// Give this as `at_least` to reads that must show it.
    position: String,
}

/// A client has done it (PUL-7). The same again is the same answer; another result, or a grant that is over, is refused.
async fn complete(by: Writer, Body(body): Body) -> Answered<Completed> {
    let CompleteRequest { user, grant, result } = parse(body)?;
    let mut puller = Puller::new(&by.app, &by.caller, user_name(&user)?).await?;
    let command = TaskCommand::Complete { user: puller.user.clone(), grant, result };
    let done = puller.send(&by.write(puller.right.clone())?, command).await?;
    let Answer::Completed { grant } = done.answer else { return Err(done.unexpected()) };
    Ok(Json(Completed { grant, position: done.position.to_string() }))
}

/// What is given back.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct ReturnRequest {
    /// The user who has it.
    #[schemars(with = "UserName")]
    user: String,
    /// The grant that the pull gave.
    grant: GrantId,
    /// Why, for people.
    #[serde(default)]
    #[schemars(length(max = bounds::RETURN_REASON_BYTES))]
    reason: String,
}

/// A client, or somebody for it, gives a grant back (PUL-13).
async fn give_back(by: Writer, Body(body): Body) -> Answered<Written> {
    let ReturnRequest { user, grant, reason } = parse(body)?;
    let mut puller = Puller::new(&by.app, &by.caller, user_name(&user)?).await?;
    let command = TaskCommand::ReturnGrant { user: puller.user.clone(), grant, reason };
    written(puller.send(&by.write(puller.right.clone())?, command).await?)
}
