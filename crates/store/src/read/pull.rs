//! Typed reads of what clients pull.

use super::select::{all, one, optional, page, text};
use crate::rows::{PullGrantRow, PullLedgerRow, PullTaskRow, PullUserRow, TaskTemplateRow};
use crate::{Error, Filter, Page, PageRequest, Row, Select, Tables, Value};

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
}

/// Reads for the API, of what clients pull.
///
/// # Errors
/// Each fails where the database does, and a page of a list where its cursor is of another one.
pub trait ReadPullTables: Tables {
    /// The templates, by name.
    fn task_templates(&self, request: &PageRequest) -> Result<Page<TaskTemplateRow>, Error> {
        page(self, Select::new(TaskTemplateRow::TABLE, &["name"]), request)
    }

    /// A template by name.
    fn task_template(&self, name: &str) -> Result<Option<TaskTemplateRow>, Error> {
        one(self, Select::new(TaskTemplateRow::TABLE, &["name"]).equal("name", name))
    }

    /// Users, by name.
    fn pull_users(&self, group: Option<&str>, request: &PageRequest) -> Result<Page<PullUserRow>, Error> {
        let mut select = Select::new(PullUserRow::TABLE, &["user_name"]);
        optional(&mut select, "group_name", group.map(text));
        page(self, select, request)
    }

    /// A user by name.
    fn pull_user(&self, name: &str) -> Result<Option<PullUserRow>, Error> {
        one(self, Select::new(PullUserRow::TABLE, &["user_name"]).equal("user_name", name))
    }

    /// Pull tasks, those with the latest start first.
    fn pull_tasks(&self, filter: &PullTaskFilter, request: &PageRequest) -> Result<Page<PullTaskRow>, Error> {
        let mut select = Select::new(PullTaskRow::TABLE, &["start_at", "id", "shard"])
            .equal("rotating", i64::from(filter.rotating));
        select.descending = true;
        if let Some((kind, name)) = &filter.executor {
            select = select.equal("executor", name.as_str()).equal("executor_kind", *kind);
        }
        optional(&mut select, "group_name", filter.group.as_deref().map(text));
        match &filter.state {
            Some(state) => select = select.equal("state", state.as_str()),
            None => select.filters.push(Filter::Unequal("state", text("released"))),
        }
        select.filters.extend(filter.from.map(|from| Filter::AtLeast("start_at", Value::Int(from))));
        select.filters.extend(filter.to.map(|to| Filter::Below("start_at", Value::Int(to))));
        page(self, select, request)
    }

    /// A pull task in every shard that gave it out; the one that has it now first.
    fn pull_task(&self, id: i64) -> Result<Vec<PullTaskRow>, Error> {
        let mut select = Select::new(PullTaskRow::TABLE, &["received_at", "shard"]).equal("id", id);
        select.descending = true;
        let mut rows: Vec<PullTaskRow> = all(self, &select)?;
        rows.sort_by_key(|row| &*row.state == "released");
        Ok(rows)
    }

    /// The ledgers of a task's occurrences, the newest first.
    fn pull_ledger(&self, task: i64, request: &PageRequest) -> Result<Page<PullLedgerRow>, Error> {
        let mut select = Select::new(PullLedgerRow::TABLE, &["start_at", "shard"]).equal("task_id", task);
        select.descending = true;
        page(self, select, request)
    }

    /// Grants, the newest of each shard first.
    fn pull_grants(
        &self,
        filter: &PullGrantFilter,
        request: &PageRequest,
    ) -> Result<Page<PullGrantRow>, Error> {
        let mut select = Select::new(PullGrantRow::TABLE, &["id"]);
        select.descending = true;
        optional(&mut select, "group_name", filter.group.as_deref().map(text));
        optional(&mut select, "user_name", filter.user.as_deref().map(text));
        optional(&mut select, "task_id", filter.task.map(Value::Int));
        optional(&mut select, "state", filter.state.as_deref().map(text));
        page(self, select, request)
    }
}

impl<T: Tables + ?Sized> ReadPullTables for T {}
