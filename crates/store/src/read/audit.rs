//! Typed reads of the audit list, and of what was set aside.

use super::PLACE;
use super::filter::DeadLetterFilter;
use super::reach::Reach;
use crate::rows::{AuditRow, DeadLetterRow, DirectoryEntryRow};
use crate::{Cursor, Error, Filter, Page, PageRequest, Row, Select, Tables};

/// Which rows of the audit list.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct AuditFilter {
    /// Asked for by this application.
    pub app: Option<String>,
    /// By this person.
    pub person: Option<String>,
    /// Of exactly this kind.
    pub kind: Option<String>,
    /// About this.
    pub object: Option<String>,
    /// Of this group; empty: of the whole site.
    pub group: Option<String>,
    /// At this time or later, milliseconds.
    pub since: Option<i64>,
    /// Before this time, milliseconds.
    pub until: Option<i64>,
    /// Only what this reader may see; absent: who may see all.
    pub reach: Option<Reach>,
}

impl AuditFilter {
    fn select(&self) -> Select {
        Select::new(AuditRow::TABLE, AuditRow::TABLE.key)
            .maybe("app", self.app.as_deref())
            .maybe("person", self.person.as_deref())
            .maybe("kind", self.kind.as_deref())
            .maybe("object", self.object.as_deref())
            .maybe("group_name", self.group.as_deref())
            .between("at", self.since, self.until)
            .of_groups_within(self.reach.as_ref())
    }
}

/// Reads of the audit list.
///
/// # Errors
/// Each fails where the database does, and a page of a list where its cursor is of another one.
pub trait ReadAudit: Tables {
    /// Whether the directory has anybody.
    fn has_directory(&self) -> Result<bool, Error> {
        let entries = Select::new(DirectoryEntryRow::TABLE, DirectoryEntryRow::TABLE.key);
        Ok(entries.one::<DirectoryEntryRow>(self)?.is_some())
    }

    /// Its rows, the newest first.
    fn audit(&self, filter: &AuditFilter, request: &PageRequest) -> Result<Page<AuditRow>, Error> {
        filter.select().descending().page(self, request)
    }

    /// The same, the oldest first.
    fn audit_from_oldest(
        &self,
        filter: &AuditFilter,
        after: Option<&<AuditRow as Row>::Key>,
        limit: usize,
    ) -> Result<Vec<AuditRow>, Error> {
        let after = after.map(|key| Cursor::new(AuditRow::key_values(key)));
        filter.select().page(self, &PageRequest { after, limit }).map(|page| page.items)
    }

    /// One row, by its place.
    fn audited(&self, key: &<AuditRow as Row>::Key) -> Result<Option<AuditRow>, Error> {
        let columns = AuditRow::TABLE.key.iter().zip(AuditRow::key_values(key));
        let filters = columns.map(|(column, value)| Filter::Equal(column, value)).collect();
        Select { filters, ..Select::new(AuditRow::TABLE, AuditRow::TABLE.key) }.one(self)
    }

    /// What was set aside, in the order of the journal.
    fn dead_letters(
        &self,
        filter: &DeadLetterFilter,
        request: &PageRequest,
    ) -> Result<Page<DeadLetterRow>, Error> {
        Select::new(DeadLetterRow::TABLE, PLACE)
            .maybe("kind", filter.kind.as_deref())
            .maybe("is_open", filter.is_open)
            .page(self, request)
    }

    /// One of these, by its place in the journal.
    fn dead_lettered(&self, place: (i64, i64, i64)) -> Result<Option<DeadLetterRow>, Error> {
        let (partition, offset, index) = place;
        let select = Select::new(DeadLetterRow::TABLE, PLACE).equal("journal_partition", partition);
        select.equal("journal_offset", offset).equal("event_index", index).one(self)
    }
}

impl<T: Tables + ?Sized> ReadAudit for T {}
