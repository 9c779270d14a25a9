//! Typed reads of what clients pull.

use super::reach::Reach;
use crate::rows::{PullGrantRow, PullLedgerRow, PullTaskRow, PullUserRow, TaskTemplateRow};
use crate::{Error, Filter, Page, PageRequest, Row, Select, Tables};

/// Which pull tasks.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct PullTaskFilter {
    /// Those with an occurrence every so many minutes or days, or those with one.
    pub rotating: bool,
    /// Given out by the shard of this group.
    pub group: Option<String>,
    /// For this group or user: `group` or `user`, and the name.
    pub executor: Option<(&'static str, String)>,
    /// `valid`, `deleted` or `released`; absent: all but the released.
    pub state: Option<String>,
    /// Start at or after, milliseconds.
    pub from: Option<i64>,
    /// Start before, milliseconds.
    pub to: Option<i64>,
    /// Only what this reader may see; absent: who may see all.
    pub reach: Option<Reach>,
}

/// Which grants.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct PullGrantFilter {
    /// Given by the shard of this group.
    pub group: Option<String>,
    /// To this user.
    pub user: Option<String>,
    /// Of this task.
    pub task: Option<i64>,
    /// `live`, `completed`, `returned` or `expired`.
    pub state: Option<String>,
    /// Only what this reader may see; absent: who may see all.
    pub reach: Option<Reach>,
}

/// Reads for the API, of what clients pull.
///
/// # Errors
/// Each fails where the database does, and a page of a list where its cursor is of another one.
pub trait ReadPullTables: Tables {
    /// The templates, by name.
    fn task_templates(&self, request: &PageRequest) -> Result<Page<TaskTemplateRow>, Error> {
        Select::new(TaskTemplateRow::TABLE, &["name"]).page(self, request)
    }

    /// A template by name.
    fn task_template(&self, name: &str) -> Result<Option<TaskTemplateRow>, Error> {
        Select::new(TaskTemplateRow::TABLE, &["name"]).equal("name", name).one(self)
    }

    /// Users, by name, whom the reader may see.
    fn pull_users(
        &self,
        group: Option<&str>,
        reach: Option<&Reach>,
        request: &PageRequest,
    ) -> Result<Page<PullUserRow>, Error> {
        Select::new(PullUserRow::TABLE, &["user_name"])
            .maybe("group_name", group)
            .of_groups_within(reach)
            .page(self, request)
    }

    /// A user by name.
    fn pull_user(&self, name: &str) -> Result<Option<PullUserRow>, Error> {
        Select::new(PullUserRow::TABLE, &["user_name"]).equal("user_name", name).one(self)
    }

    /// Pull tasks, those with the latest start first.
    fn pull_tasks(&self, filter: &PullTaskFilter, request: &PageRequest) -> Result<Page<PullTaskRow>, Error> {
        let (kind, executor) = filter.executor.as_ref().map(|(kind, name)| (*kind, name.as_str())).unzip();
        let mut select = Select::new(PullTaskRow::TABLE, &["start_at", "id", "shard"])
            .descending()
            .equal("rotating", filter.rotating)
            .maybe("executor", executor)
            .maybe("executor_kind", kind)
            .maybe("group_name", filter.group.as_deref())
            .of_groups_within(filter.reach.as_ref());
        match &filter.state {
            Some(state) => select = select.equal("state", state.as_str()),
            None => select.filters.push(Filter::Unequal("state", "released".into())),
        }
        select.between("start_at", filter.from, filter.to).page(self, request)
    }

    /// A pull task in every shard that gave it out; the one that has it now first.
    fn pull_task(&self, id: i64) -> Result<Vec<PullTaskRow>, Error> {
        let select = Select::new(PullTaskRow::TABLE, &["received_at", "shard"]).equal("id", id).descending();
        let mut rows: Vec<PullTaskRow> = select.all(self)?;
        rows.sort_by_key(|row| &*row.state == "released");
        Ok(rows)
    }

    /// The ledgers of a task's occurrences, the newest first.
    fn pull_ledger(&self, task: i64, request: &PageRequest) -> Result<Page<PullLedgerRow>, Error> {
        Select::new(PullLedgerRow::TABLE, &["start_at", "shard"])
            .equal("task_id", task)
            .descending()
            .page(self, request)
    }

    /// Grants, the newest of each shard first.
    fn pull_grants(
        &self,
        filter: &PullGrantFilter,
        request: &PageRequest,
    ) -> Result<Page<PullGrantRow>, Error> {
        Select::new(PullGrantRow::TABLE, &["id"])
            .descending()
            .maybe("group_name", filter.group.as_deref())
            .maybe("user_name", filter.user.as_deref())
            .maybe("task_id", filter.task)
            .maybe("state", filter.state.as_deref())
            .of_groups_within(filter.reach.as_ref())
            .page(self, request)
    }
}

impl<T: Tables + ?Sized> ReadPullTables for T {}
