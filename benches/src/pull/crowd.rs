//! Users of one group, and the connections that act for them.

use std::future::Future;
use std::time::{Duration, Instant};

use anyhow::{Context, ensure};
use serde::Deserialize;
use tidemill_journal::now;
use tokio::task::JoinSet;

use super::http::Connection;
use crate::program::Running;

/// Users of one assignment.
pub(super) const ASSIGNED_AT_ONCE: usize = 500;
/// Connections that prepare something.
const PREPARING: usize = 32;
/// Until a shard knows its members, 100,000 at most.
const PATIENCE: Duration = Duration::from_secs(600);
const LOOK: Duration = Duration::from_millis(20);

/// What a pull gave.
#[derive(Deserialize)]
struct Pulled {
    grant: Option<Grant>,
}

#[derive(Deserialize)]
struct Grant {
    grant: i64,
    task: i64,
}

#[derive(Deserialize)]
struct Created {
    task: i64,
}

/// One request, and how long it took.
pub(super) struct Asked {
    pub(super) ms: f64,
    /// Task and grant.
    pub(super) grant: Option<(i64, i64)>,
}

/// One connection, for whichever user.
pub(super) struct Client(Connection);

impl Client {
    pub(super) async fn pull(&mut self, user: usize) -> anyhow::Result<Asked> {
        let (asked, known) = self.try_pull(user).await?;
        ensure!(known, "a pull of user {user} was refused");
        Ok(asked)
    }

    /// And whether the group's shard knew the user.
    async fn try_pull(&mut self, user: usize) -> anyhow::Result<(Asked, bool)> {
        let begun = Instant::now();
        let (status, body) = self.0.post("/api/pull", &format!(r#"{{"user":"user-{user}"}}"#)).await?;
        let ms = begun.elapsed().as_secs_f64() * 1e3;
        let Pulled { grant } = match status {
            200 => serde_json::from_slice(body)?,
            _ => Pulled { grant: None },
        };
        Ok((Asked { ms, grant: grant.map(|grant| (grant.task, grant.grant)) }, status == 200))
    }

    /// Gives the milliseconds.
    pub(super) async fn complete(&mut self, user: usize, grant: i64) -> anyhow::Result<f64> {
        let begun = Instant::now();
        let body = format!(r#"{{"user":"user-{user}","grant":{grant},"result":"done"}}"#);
        let (status, body) = self.0.post("/api/pull/complete", &body).await?;
        ensure!(status == 200, "a completion was answered {status}: {}", String::from_utf8_lossy(body));
        Ok(begun.elapsed().as_secs_f64() * 1e3)
    }

    /// Whether the tables show the key.
    async fn is_admitted(&mut self) -> anyhow::Result<bool> {
        let (status, _) = self.0.post("/api/pull", r#"{"user":"user-0"}"#).await?;
        // Before a projector has made the tables nobody knows.
        Ok(status != 401 && status < 500)
    }

    async fn must(&mut self, path: &str, body: &str) -> anyhow::Result<&[u8]> {
        let (status, answer) = self.0.post(path, body).await?;
        ensure!(status == 200, "{path} was answered {status}: {}", String::from_utf8_lossy(answer));
        Ok(answer)
    }
}

/// Users 0 to `users` of the site's group.
pub(super) struct Crowd {
    address: String,
    key: String,
    group: &'static str,
    pub(super) users: usize,
}

impl Crowd {
    /// Gives them their home group, and waits until its shard knows them.
    pub(super) async fn assign(fixture: &Running, users: usize) -> anyhow::Result<Self> {
        let crowd = Self {
            address: fixture.address.clone(),
            key: fixture.key.clone(),
            group: fixture.group(),
            users,
        };
        let mut client = crowd.client().await?;
        let deadline = Instant::now() + PATIENCE;
        while !client.is_admitted().await? {
            ensure!(Instant::now() < deadline, "the tables do not show the key");
            tokio::time::sleep(LOOK).await;
        }
        for first in (0..users).step_by(ASSIGNED_AT_ONCE) {
            let names: Vec<_> =
                (first..users.min(first + ASSIGNED_AT_ONCE)).map(|user| format!("user-{user}")).collect();
            let body = serde_json::json!({ "group": crowd.group, "users": names });
            client.must("/api/pull/users", &body.to_string()).await?;
        }
        crowd
            .split(PREPARING, |mut client, users| async move {
                for user in users {
                    while !client.try_pull(user).await?.1 {
                        ensure!(Instant::now() < deadline, "user {user} is not known");
                    }
                }
                Ok(())
            })
            .await?;
        Ok(crowd)
    }

    pub(super) async fn client(&self) -> anyhow::Result<Client> {
        Ok(Client(Connection::open(&self.address, &self.key).await?))
    }

    /// A task of the group with a unit for every user, due since so many minutes; gives its id.
    pub(super) async fn task(&self, minutes: i64) -> anyhow::Result<i64> {
        let start = now() - jiff::SignedDuration::from_mins(minutes);
        let body = serde_json::json!({
            "executor": { "group": self.group },
            "when": { "once": { "start": start } },
            "parameters": { "path": "/in/some/where", "page": minutes },
            "dispatch_times": self.users,
        });
        let mut client = self.client().await?;
        let created: Created =
            serde_json::from_slice(client.must("/api/pull/tasks", &body.to_string()).await?)?;
        Ok(created.task)
    }

    /// Lets so many clients act at once, each for its part of the users.
    pub(super) async fn split<T, F>(
        &self,
        clients: usize,
        act: impl Fn(Client, Vec<usize>) -> F,
    ) -> anyhow::Result<Vec<T>>
    where
        T: Send + 'static,
        F: Future<Output = anyhow::Result<T>> + Send + 'static,
    {
        let mut acting = JoinSet::new();
        for number in 0..clients {
            let users = (number..self.users).step_by(clients).collect();
            acting.spawn(act(self.client().await?, users));
        }
        let mut all = Vec::with_capacity(clients);
        while let Some(ended) = acting.join_next().await {
            all.push(ended.context("a client panicked")??);
        }
        Ok(all)
    }
}
