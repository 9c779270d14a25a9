//! What the catalogue keeps besides jobs: groups, keys, freezes, calendars, pools, templates and users of pull tasks.

use std::sync::Arc;

use super::batch::person;
use super::job::{count, json};
use super::pull::user_key;
use super::{Caches, Place};
use tidemill_model::{Calendar, CatalogueEvent, GroupName, Pool, ShardId, UserName};
use tidemill_store::rows::{
    AppKeyRow, CalendarRow, CalendarVersionRow, FreezeRow, GroupRow, PoolRow, PullUserRow, TaskTemplateRow,
};

impl Caches {
    pub(super) fn need_catalogue(&mut self, event: &CatalogueEvent) {
        match event {
            CatalogueEvent::FreezeSet { group, .. } | CatalogueEvent::FreezeLifted { group, .. } => {
                self.freezes.need((scope(group.as_ref()),));
            }
            CatalogueEvent::GroupDefined { group, .. } => self.worker_groups.need((i64::from(group.0),)),
            CatalogueEvent::UserMoveRequested { user, .. }
            | CatalogueEvent::UserMoved { user, .. }
            | CatalogueEvent::UserMoveRejected { user, .. } => self.pull_users.need(user_key(user)),
            CatalogueEvent::KeyDefined { .. }
            | CatalogueEvent::TemplateDefined { .. }
            | CatalogueEvent::TemplateDeleted { .. }
            | CatalogueEvent::UsersAssigned { .. }
            | CatalogueEvent::KeyRevoked { .. }
            | CatalogueEvent::CalendarDefined { .. }
            | CatalogueEvent::PoolDefined { .. }
            | CatalogueEvent::PoolDeleted { .. }
            | CatalogueEvent::CalendarDeleted { .. } => {}
        }
    }

    pub(super) fn apply_catalogue(&mut self, at: Place, event: &CatalogueEvent) {
        match event {
            CatalogueEvent::GroupDefined { group, name, shard, worker_key, settings } => {
                let id = i64::from(group.0);
                let defined_at = self.worker_groups.get(&(id,)).map_or(at.now, |old| old.defined_at);
                self.worker_groups.put(GroupRow {
                    id,
                    name: name.as_str().into(),
                    shard: i64::from(shard.0),
                    worker_key: worker_key.as_str().into(),
                    settings: json(settings),
                    defined_at,
                    changed_at: at.now,
                });
            }
            CatalogueEvent::KeyDefined { app, hash, role, groups, run_as, may, department } => {
                self.app_keys.put(AppKeyRow {
                    app: app.as_str().into(),
                    hash: hash.as_str().into(),
                    role: role.as_str().into(),
                    groups: json(groups),
                    accounts: json(run_as),
                    may: json(may),
                    department: department.as_ref().map(|name| name.as_str().into()),
                    defined_at: at.now,
                })
            }
            CatalogueEvent::KeyRevoked { app } => self.app_keys.remove((app.as_str().into(),)),
            CatalogueEvent::FreezeSet { group, freeze } => self.freezes.put(FreezeRow {
                scope: scope(group.as_ref()),
                latest: freeze.latest.as_millisecond(),
                frozen_by: person(&freeze.by),
                reason: freeze.reason.as_str().into(),
                frozen_at: at.now,
            }),
            CatalogueEvent::FreezeLifted { group, .. } => self.freezes.remove((scope(group.as_ref()),)),
            CatalogueEvent::CalendarDefined { calendar } => self.define_calendar(at, calendar),
            CatalogueEvent::CalendarDeleted { name } => self.calendars.remove((name.as_str().into(),)),
            CatalogueEvent::PoolDefined { pool } => self.pools.put(pool_row(at, pool)),
            CatalogueEvent::PoolDeleted { name } => self.pools.remove((name.as_str().into(),)),
            CatalogueEvent::TemplateDefined { template } => self.task_templates.put(TaskTemplateRow {
                name: template.spec.name.as_str().into(),
                version: i64::from(template.version),
                fields: json(&template.spec.fields),
                comment: template.spec.comment.as_str().into(),
                changed_at: at.now,
            }),
            CatalogueEvent::TemplateDeleted { name } => self.task_templates.remove((name.as_str().into(),)),
            CatalogueEvent::UsersAssigned { group, shard, users } => {
                users.iter().for_each(|user| self.pull_users.put(user_row(at, user, group, *shard)));
            }
            CatalogueEvent::UserMoveRequested { user, to, .. } => {
                self.pull_users.change(user_key(user), |row| {
                    row.moving = true;
                    row.moving_to = to.as_ref().map(|to| to.as_str().into());
                    row.refusal = "".into();
                })
            }
            CatalogueEvent::UserMoved { user, to, shard, .. } => {
                self.move_user(at, user, to.as_ref().zip(*shard));
            }
            CatalogueEvent::UserMoveRejected { user, reason, .. } => {
                self.pull_users.change(user_key(user), |row| {
                    row.moving = false;
                    row.moving_to = None;
                    row.refusal = reason.to_string().into();
                })
            }
        }
    }

    /// To another group; without one the user has none any more.
    fn move_user(&mut self, at: Place, user: &UserName, to: Option<(&GroupName, ShardId)>) {
        match to {
            None => self.pull_users.remove(user_key(user)),
            Some((to, shard)) => self.pull_users.change(user_key(user), |row| {
                row.group_name = to.as_str().into();
                row.shard = i64::from(shard.0);
                row.moving = false;
                row.moving_to = None;
                row.changed_at = at.now;
            }),
        }
    }

    fn define_calendar(&mut self, at: Place, calendar: &Calendar) {
        let spec = &calendar.spec;
        let dates = spec.holidays.len() + spec.working_days.len();
        let version = CalendarVersionRow {
            name: spec.name.as_str().into(),
            version: i64::from(calendar.version),
            time_zone: spec.zone.as_deref().map(Into::into),
            comment: spec.comment.as_str().into(),
            dates: count(dates),
            definition: json(spec),
            defined_at: at.now,
            defined_by: self.requester(),
        };
        self.calendars.put(CalendarRow {
            name: version.name.clone(),
            version: version.version,
            time_zone: version.time_zone.clone(),
            comment: version.comment.clone(),
            dates: version.dates,
            definition: version.definition.clone(),
            changed_at: at.now,
        });
        self.calendar_versions.put(version);
    }
}

pub(super) fn pool_row(at: Place, pool: &Pool) -> PoolRow {
    let spec = &pool.spec;
    PoolRow {
        name: spec.name.as_str().into(),
        version: i64::from(pool.version),
        slots: i64::from(spec.slots),
        rate_starts: spec.rate.map(|rate| i64::from(rate.starts)),
        rate_interval_s: spec.rate.map(|rate| i64::from(rate.interval_s)),
        group_name: spec.group.as_ref().map(|group| group.as_str().into()),
        comment: spec.comment.as_str().into(),
        changed_at: at.now,
    }
}

fn user_row(at: Place, user: &UserName, group: &GroupName, shard: ShardId) -> PullUserRow {
    PullUserRow {
        user_name: user.as_str().into(),
        group_name: group.as_str().into(),
        shard: i64::from(shard.0),
        assigned_at: at.now,
        changed_at: at.now,
        ..PullUserRow::default()
    }
}

/// Under which a freeze stands.
pub(super) fn scope(group: Option<&GroupName>) -> Arc<str> {
    group.map_or("*", GroupName::as_str).into()
}
