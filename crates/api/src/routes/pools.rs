use axum::Json;
use axum::extract::Path;
use tidemill_model::{
    CatalogueCommand, Concerned, Condition, GroupName, LiveAnswer, LiveQuery, Permission, PoolHolder,
    PoolName, PoolSpec, ShardId,
};
use tidemill_store::ReadTables;
use tidemill_store::rows::PoolRow;

use super::defined::Defined;
use super::requests::{Reader, Writer};
use crate::Problem;
use crate::app::App;
use crate::body::Body;
use crate::params::Params;
use crate::rights::Caller;
use crate::view::{
    Answered, GroupShare, HolderView, List, PoolDetail, PoolView, Settled, Written, pool_of, time,
};

/// Groups whose shares a message names.
const NAMED_GROUPS: usize = 5;

/// Pools, by name (BYD-4): those that groups share, which are the site's, and of one group those of groups that the caller
/// reaches.
pub(super) async fn list(by: Reader, params: Params) -> Answered<List<PoolView>> {
    let seen = by.caller.seen();
    List::part(&by.app, &params, move |tables, request| tables.pools(seen.as_ref(), request)).await
}

/// Whether the caller may see it: what groups share is everybody's.
fn seen(caller: &Caller, row: &PoolRow) -> Result<(), Problem> {
    match group_of(row) {
        Some(group) if !caller.reaches(group) => Err(Problem::unknown("pool", &row.name).foreign()),
        Some(_) | None => Ok(()),
    }
}

pub(super) async fn get(by: Reader, Path(name): Path<String>) -> Answered<PoolDetail> {
    let row = by.app.find("pool", name, |tables, name| tables.pool(name)).await?;
    seen(&by.caller, &row)?;
    let pool = pool_of(&row)?;
    let mut detail = PoolDetail {
        version: row.version,
        changed_at: time(row.changed_at),
        used: None,
        groups: Vec::new(),
        holders: Vec::new(),
        pool,
    };
    let shares = match &detail.pool.group {
        Some(group) => holders_in(&by.app, group, &detail.pool.name).await.map(|of| vec![share(group, &of)]),
        None => shares(&by.app, &detail.pool.name).await,
    };
    let Some(mut shares) = shares else { return Ok(Json(detail)) };
    shares.retain(|share| share.slots > 0);
    detail.used = Some(shares.iter().map(|share| share.slots).sum());
    shares.retain(|share| by.caller.reaches(share.group.as_str()));
    for share in &shares {
        let holders = holders_in(&by.app, &share.group, &detail.pool.name).await.unwrap_or_default();
        detail.holders.extend(holders.into_iter().filter_map(|holder| {
            let (batch, job) = (holder.batch?.0, holder.job.map(|job| job.0));
            Some(HolderView { batch, job, group: holder.group, slots: holder.slots })
        }));
    }
    detail.groups = shares;
    Ok(Json(detail))
}

/// The group that it is of; nothing: groups share it.
fn group_of(row: &PoolRow) -> Option<&str> {
    row.group_name.as_deref()
}

fn share(group: &GroupName, holders: &[PoolHolder]) -> GroupShare {
    GroupShare { group: group.clone(), slots: holders.iter().map(|holder| holder.slots).sum() }
}

async fn ask(app: &App, shard: ShardId, name: &PoolName) -> Option<Vec<PoolHolder>> {
    match app.ask(shard, LiveQuery::Pool { name: name.clone() }).await {
        Ok(LiveAnswer::Pool { holders }) => Some(holders),
        Ok(_) => Some(Vec::new()),
        Err(_) => None,
    }
}

/// What each group has of a pool that groups share.
async fn shares(app: &App, name: &PoolName) -> Option<Vec<GroupShare>> {
    let holders = ask(app, ShardId::CATALOGUE, name).await?;
    Some(holders.into_iter().map(|of| GroupShare { group: of.group, slots: of.slots }).collect())
}

/// The batches of a group that have slots of a pool.
async fn holders_in(app: &App, group: &GroupName, name: &PoolName) -> Option<Vec<PoolHolder>> {
    let group = app.group_named(group.as_str()).await.ok().flatten()?;
    ask(app, group.shard, name).await
}

/// Says who has the slots of shared pools for which a batch waits: the groups that the caller reaches, and the others together.
pub(super) async fn tell_holders(app: &App, caller: &Caller, conditions: &mut [Condition]) {
    for condition in conditions {
        for name in condition.pools.clone() {
            let (wanted, shares) = (name.to_string(), shares(app, &name).await);
            let row = app.read(move |tables| tables.pool(&wanted)).await.ok().flatten();
            let (Some(shares), Some(row)) = (shares, row) else { continue };
            let used: u64 = shares.iter().map(|share| share.slots).sum();
            let is_shown = |share: &&GroupShare| caller.is_of_site() || caller.reaches(share.group.as_str());
            let shown = shares.iter().filter(is_shown).take(NAMED_GROUPS);
            let by: Vec<String> = shown.map(|share| format!("{} has {}", share.group, share.slots)).collect();
            let by = if by.is_empty() { String::new() } else { format!(": {}", by.join(", ")) };
            let told = format!("; pool {name}: {used} of {} slots are taken{by}", row.slots);
            condition.message.push_str(&told);
        }
    }
}

/// Adds or changes a pool. What runs goes on, also where it has more than there is now.
pub(super) async fn define(by: Writer, Body(body): Body) -> Settled<Defined> {
    let pool = PoolSpec::from_value(body).map_err(|error| Problem::fields(vec![error]))?;
    let right = by.caller.for_group_or_site(
        pool.group.as_ref().map(GroupName::as_str),
        Permission::Administer,
        Permission::Administer,
    )?;
    let concerned = pool.group.clone().map_or(Concerned::Everyone, Concerned::Group);
    by.define(right, pool.name.clone(), CatalogueCommand::DefinePool { pool: Box::new(pool) }, concerned)
        .await
}

/// Removes a pool; refused, with their names, while jobs use it.
pub(super) async fn remove(by: Writer, Path(name): Path<String>) -> Answered<Written> {
    let wanted = name.clone();
    let row = by.app.read(move |tables| tables.pool(&wanted)).await?;
    // One that is not there is the catalogue's to refuse, as one that is not to be seen.
    let row = row.filter(|row| seen(&by.caller, row).is_ok());
    let group = row.as_ref().and_then(group_of);
    let right = match (&row, by.caller.is_of_site()) {
        (None, false) => return Err(Problem::unknown("pool", name)),
        _ => by.caller.for_group_or_site(group, Permission::Administer, Permission::Administer)?,
    };
    by.remove(right, &name, |name| CatalogueCommand::DeletePool { name }).await
}
