//! What is known of the catalogue at once ([`tidemill_directory::Known`]). It is used where it is at most `key_cache_ms` old, which it
//! is as long as the log answers; else the tables are asked. For keys it alone is asked then: the tables show a revoked key until
//! they have caught up (API-5). So a key is taken from them only if they have every record of the catalogue that is known to be
//! there. Anything else that it does not know is looked for in the tables as well, which show what another
//! interface has answered for; where they cannot be read, what it does not know is not there (OPS-4).

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::{Duration, Instant};

use backon::{BackoffBuilder, ExponentialBuilder};
use tidemill_directory::{Directory, Group, Held, Home, Homed, Job, Key, Known};
use tidemill_model::{
    Account, CredentialId, DepartmentName, GroupId, GroupName, JobId, Permission, Rejection, Role, ShardId,
    Timestamp, UserName,
};
use tidemill_store::rows::{AppKeyRow, GroupRow, JobRow};
use tidemill_store::{Error, ReadAudit, ReadPullTables, ReadTables, Tables};

use crate::Problem;
use crate::app::{App, shard_in};
use crate::position::JournalPosition;
use crate::view::definition_of;

/// It catches up within this, where the log answers.
const CATCHES_UP: Duration = Duration::from_secs(1);
/// If it is older, the log is away, and nobody waits for it to catch up.
const AWAY: Duration = Duration::from_secs(3);
/// So long a caller waits for it where the tables do not answer either.
const PATIENCE: Duration = Duration::from_secs(5);
/// Between two looks how far it is.
const PAUSES: ExponentialBuilder = ExponentialBuilder::new()
    .with_min_delay(Duration::from_millis(1))
    .with_max_delay(Duration::from_millis(16))
    .without_max_times();

/// A user's home group.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct HomeGroup {
    /// The group's name.
    pub(crate) group: Arc<str>,
    /// The group's shard.
    pub(crate) shard: ShardId,
    /// The shard is asked to let the user go.
    pub(crate) moving: bool,
}

fn directory_unavailable() -> Problem {
    let detail =
        "who may do what cannot be looked up: the catalogue's journal cannot be followed; try again later";
    Problem::unavailable("directory_unavailable", detail)
}

fn ago(time: Duration) -> Instant {
    let now = Instant::now();
    now.checked_sub(time).unwrap_or(now)
}

/// The user has no home group.
pub(crate) fn homeless(user: &UserName) -> Problem {
    Problem::from(Rejection::UserUnknown { user: user.to_string(), group: "any group".to_owned() })
}

impl App {
    /// An application's key, as it was at most `key_cache_ms` ago; where the journal does not say that, as the tables have it, if they
    /// have all that is known to be in the journal.
    ///
    /// # Errors
    /// Neither can be read.
    pub(crate) async fn key(&self, app: &str) -> Result<Option<Arc<Key>>, Problem> {
        if let Some(known) = self.known().await {
            return Ok(known.key(app));
        }
        let problem = match self.key_in_tables(app).await {
            Ok(key) => return Ok(key),
            Err(problem) => problem,
        };
        let (known, cache) = (&self.deps.known, self.config.key_cache());
        if self.comes(PATIENCE, || known.is_as_of(ago(cache))).await {
            return Ok(known.key(app));
        }
        let progress = known.progress();
        let why = match progress.is_whole {
            true => "keys cannot be looked up: neither the log nor the tables' database answers".to_owned(),
            false => {
                let (next, end) = (progress.next, progress.end);
                format!("the keys are being read from the journal: {next} of {end} records so far")
            }
        };
        Err(Problem::unavailable(problem.code, format!("{why}; try again later")))
    }

    /// A key that was defined or changed a moment ago at another interface, where this one has not heard of it yet.
    ///
    /// # Errors
    /// As [`App::key`].
    pub(crate) async fn newest_key(&self, app: &str) -> Result<Option<Arc<Key>>, Problem> {
        self.catch_up().await;
        self.key(app).await
    }

    /// What somebody signs in with, as it was at most `key_cache_ms` ago. No table has it.
    ///
    /// # Errors
    /// The journal cannot be followed.
    pub(crate) async fn credential(&self, id: &CredentialId) -> Result<Option<Arc<Held>>, Problem> {
        Ok(self.people_known().await?.credential(id))
    }

    /// One that was issued a moment ago at another interface.
    ///
    /// # Errors
    /// As [`App::credential`].
    pub(crate) async fn newest_credential(&self, id: &CredentialId) -> Result<Option<Arc<Held>>, Problem> {
        self.catch_up().await;
        self.credential(id).await
    }

    /// What is known, where that is needed.
    ///
    /// # Errors
    /// The journal cannot be followed, or has not been read to its end yet.
    pub(crate) async fn people_known(&self) -> Result<&Known, Problem> {
        match self.known().await {
            Some(known) => Ok(known),
            None => Err(directory_unavailable()),
        }
    }

    /// Waits for a moment until what others have just recorded is known.
    pub(crate) async fn catch_up(&self) {
        let (known, now) = (&self.deps.known, Instant::now());
        if known.is_as_of(ago(AWAY)) {
            self.comes(CATCHES_UP, || known.is_as_of(now)).await;
        }
    }

    /// As the tables have it. They are asked once for all who ask within `key_cache_ms`.
    async fn key_in_tables(&self, app: &str) -> Result<Option<Arc<Key>>, Problem> {
        if let Some(key) = self.table_keys.get(app, self.config.key_cache()) {
            return Ok(key);
        }
        self.tables_have_all().await?;
        let name = app.to_owned();
        let row = self.read(move |tables| tables.app_key(&name)).await?;
        let key = row.map(|row| key_of(row).map(Arc::new)).transpose()?;
        self.table_keys.keep(app, key.clone());
        Ok(key)
    }

    /// Whether the tables have every record of the catalogue that is known to be there: what decides on rights may be another thing in
    /// one of them.
    async fn tables_have_all(&self) -> Result<(), Problem> {
        let progress = self.deps.known.progress();
        let Some(last) = progress.next.max(progress.end).checked_sub(1) else { return Ok(()) };
        let partition = ShardId::CATALOGUE.partition(self.deps.partitions);
        if self.deps.freshness.wait(partition, last, CATCHES_UP).await {
            return Ok(());
        }
        let detail = "the tables are behind the catalogue's journal; try again later";
        Err(Problem::unavailable("tables_behind", detail))
    }

    /// What is known, where it is of late: all that was recorded up to a moment ago. A follower that is held up is waited for.
    async fn known(&self) -> Option<&Known> {
        let (known, cache) = (&self.deps.known, self.config.key_cache());
        let is_near = known.is_as_of(ago(AWAY));
        (is_near && self.comes(CATCHES_UP, || known.is_as_of(ago(cache))).await).then_some(known)
    }

    /// Waits for a moment until what was written at this position counts here, where it is one of the catalogue.
    pub(crate) async fn takes(&self, position: JournalPosition) {
        let known = &self.deps.known;
        if known.is_whole() && position.partition == ShardId::CATALOGUE.partition(self.deps.partitions) {
            self.comes(CATCHES_UP, || known.reaches(position.offset)).await;
        }
    }

    async fn comes(&self, patience: Duration, is_so: impl Fn() -> bool) -> bool {
        let deadline = Instant::now() + patience;
        let mut pauses = PAUSES.build();
        while !is_so() {
            let left = deadline.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return false;
            }
            tokio::time::sleep(pauses.next().expect("they have no end").min(left)).await;
        }
        true
    }

    /// What the tables have of something that is not known. Where they cannot be read, there is no such thing.
    pub(crate) async fn in_tables<T: Send + 'static>(
        &self,
        ask: impl FnOnce(&dyn Tables) -> Result<Option<T>, Error> + Send + 'static,
    ) -> Result<Option<T>, Problem> {
        match self.read(ask).await {
            Err(_) if self.known().await.is_some() => Ok(None),
            found => found,
        }
    }

    /// The worker groups.
    pub(crate) async fn known_groups(&self) -> Result<Vec<Group>, Problem> {
        if let Some(known) = self.known().await {
            return Ok(known.groups());
        }
        let rows = self.read(|tables| tables.groups()).await?;
        rows.into_iter().map(group_of).collect()
    }

    async fn group(
        &self,
        known: Option<Group>,
        fits: impl Fn(&GroupRow) -> bool + Send + 'static,
    ) -> Result<Option<Group>, Problem> {
        if known.is_some() {
            return Ok(known);
        }
        let row = self.in_tables(move |tables| Ok(tables.groups()?.into_iter().find(fits))).await?;
        row.map(group_of).transpose()
    }

    /// The group whose work the shard does.
    pub(crate) async fn group_of_shard(&self, shard: ShardId) -> Result<Option<Group>, Problem> {
        let known = self.known().await.and_then(|known| known.group_of_shard(shard));
        self.group(known, move |row| row.shard == i64::from(shard.0)).await
    }

    /// The group of this name.
    pub(crate) async fn group_named(&self, name: &str) -> Result<Option<Group>, Problem> {
        let known = self.known().await.and_then(|known| known.group_named(name));
        let name = name.to_owned();
        self.group(known, move |row| *row.name == *name).await
    }

    /// The group of this number.
    pub(crate) async fn group_numbered(&self, id: GroupId) -> Result<Option<Group>, Problem> {
        let known = self.known().await.and_then(|known| known.group(id));
        self.group(known, move |row| row.id == i64::from(id.0)).await
    }

    /// A job of the catalogue, where it is known at once.
    pub(crate) async fn known_job(&self, job: JobId) -> Option<Job> {
        self.known().await?.job(job)
    }

    /// People and departments, as they were at most `key_cache_ms` ago.
    ///
    /// # Errors
    /// The journal does not say that, and the tables do not say that there is nobody.
    pub(crate) async fn people(&self) -> Result<Arc<Directory>, Problem> {
        if let Some(known) = self.known().await {
            return Ok(known.directory());
        }
        // Rights that follow from people cannot be had from tables; that there is nobody can.
        self.tables_have_all().await?;
        if !self.read(|tables| tables.has_directory()).await? {
            return Ok(Arc::default());
        }
        Err(directory_unavailable())
    }

    /// A job of the catalogue: its group, and what else decides who may run it.
    ///
    /// # Errors
    /// There is none; the tables.
    pub(crate) async fn job_of_catalogue(&self, job: JobId) -> Result<Job, Problem> {
        match self.known().await {
            Some(known) => {
                if let Some(known) = known.job(job) {
                    return Ok(known);
                }
            }
            None => self.tables_have_all().await?,
        }
        let row = self.in_tables(move |tables| tables.job(job.0)).await?;
        job_of(&row.ok_or_else(|| Problem::unknown("job", job))?)
    }

    /// The user's home group.
    ///
    /// # Errors
    /// The user has none; the tables.
    pub(crate) async fn home_of(&self, user: &UserName) -> Result<HomeGroup, Problem> {
        let known = self.known().await.map_or(Homed::NotKept, |known| known.home(user));
        if let Homed::At(Home { shard, moving }) = known
            && let Some(group) = self.group_of_shard(shard).await?
        {
            return Ok(HomeGroup { group: group.name.as_str().into(), shard, moving });
        }
        let name = user.clone();
        let ask = move |tables: &dyn Tables| tables.pull_user(name.as_str());
        let row = match known {
            Homed::NotKept => self.read(ask).await?,
            Homed::At(_) | Homed::Nowhere => self.in_tables(ask).await?,
        };
        let row = row.ok_or_else(|| homeless(user))?;
        Ok(HomeGroup { group: row.group_name, shard: shard_in(row.shard), moving: row.moving })
    }
}

fn group_of(row: GroupRow) -> Result<Group, Problem> {
    let name = GroupName::try_from(&*row.name).ok();
    match (i32::try_from(row.id), name) {
        (Ok(id), Some(name)) => {
            Ok(Group { id: GroupId(id), name, shard: shard_in(row.shard), worker_key: row.worker_key })
        }
        _ => Err(Problem::internal("the row of a worker group has an unknown form")),
    }
}

fn job_of(row: &JobRow) -> Result<Job, Problem> {
    definition_of(row).map(|definition| Job::of(&definition, !row.unnamed && !row.submitted))
}

fn key_of(row: AppKeyRow) -> Result<Key, Problem> {
    let role = serde_json::from_value::<Role>((&*row.role).into()).ok();
    let groups = serde_json::from_str::<Vec<String>>(&row.groups).ok();
    let accounts = serde_json::from_str::<Vec<Account>>(&row.accounts).ok();
    let may = serde_json::from_str::<BTreeSet<Permission>>(&row.may).ok();
    let department = row.department.as_deref().map(DepartmentName::try_from).transpose().ok();
    let (Some(role), Some(groups), Some(accounts), Some(may), Some(department)) =
        (role, groups, accounts, may, department)
    else {
        tracing::error!(app = &*row.app, "the row of an application key has an unknown form");
        return Err(Problem::internal("the application key cannot be read"));
    };
    let defined_at = Timestamp::from_millisecond(row.defined_at).unwrap_or(Timestamp::UNIX_EPOCH);
    Ok(Key {
        app: row.app,
        hash: row.hash,
        role,
        groups: groups.into(),
        accounts: accounts.into(),
        may,
        department,
        defined_at,
    })
}
