//! Lists for those who may see a part of what there is: what they may see is part of the question, so that pages are full
//! and nothing is read that is not shown (API-5).

use crate::rows::JobRow;
use crate::{Error, Filter, Page, PageRequest, Row, Select, Tables, Value};

/// Of so few jobs, rows are read job by job, each by the index, and merged; of more by one question.
const FEW_JOBS: usize = 32;

/// What a reader may see: what all of these have.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Reach(pub Vec<Within>);

/// What one rule lets a reader see: what has one of these. Where it has none of them, that is nothing.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Within {
    /// Groups: their jobs, and all else that is of a group.
    pub groups: Vec<String>,
    /// Jobs of these owners.
    pub owners: Vec<String>,
    /// Jobs of these business types.
    pub classes: Vec<String>,
    /// These jobs, by group and name.
    pub jobs: Vec<(String, String)>,
}

fn texts(texts: &[String]) -> Vec<Value> {
    texts.iter().map(|text| text.as_str().into()).collect()
}

impl Within {
    fn is_of_groups_alone(&self) -> bool {
        self.owners.is_empty() && self.classes.is_empty() && self.jobs.is_empty()
    }

    /// Rows of the table of jobs.
    fn jobs(&self) -> Filter {
        let mut any = vec![
            Filter::In("group_name", texts(&self.groups)),
            Filter::In("owner_name", texts(&self.owners)),
            Filter::In("business_name", texts(&self.classes)),
        ];
        any.extend(self.jobs.iter().map(|(group, name)| {
            let (group, name) = (group.as_str().into(), name.as_str().into());
            // Those that are known by their ids alone may be called as these are.
            let is_named = [Filter::Equal("unnamed", false.into()), Filter::Equal("submitted", false.into())];
            let called = [Filter::Equal("group_name", group), Filter::Equal("name", name)];
            Filter::All(called.into_iter().chain(is_named).collect())
        }));
        Filter::Any(any)
    }

    /// Rows with a job's id.
    fn of_jobs(&self) -> Filter {
        Filter::Listed("job_id", JobRow::TABLE, "id", vec![self.jobs()])
    }

    /// Rows with a job's id, and with a group of their own, which counts where that of the job is another one by now.
    fn of_jobs_in_groups(&self) -> Filter {
        let of_group = Filter::In("group_name", texts(&self.groups));
        if self.is_of_groups_alone() {
            return of_group;
        }
        let of_jobs = Self { groups: Vec::new(), ..self.clone() }.of_jobs();
        Filter::Any(vec![of_group, of_jobs])
    }
}

impl Reach {
    fn each(reach: Option<&Self>, filter: impl Fn(&Within) -> Filter) -> Vec<Filter> {
        reach.into_iter().flat_map(|reach| &reach.0).map(filter).collect()
    }
}

impl Select {
    /// Jobs that the reader may see.
    pub(super) fn jobs_within(mut self, reach: Option<&Reach>) -> Self {
        self.filters.extend(Reach::each(reach, Within::jobs));
        self
    }

    /// What is of jobs that the reader may see.
    pub(super) fn of_jobs_within(mut self, reach: Option<&Reach>) -> Self {
        self.filters.extend(Reach::each(reach, Within::of_jobs));
        self
    }

    /// What is of groups that the reader may see.
    pub(super) fn of_groups_within(mut self, reach: Option<&Reach>) -> Self {
        let of_groups = |within: &Within| Filter::In("group_name", texts(&within.groups));
        self.filters.extend(Reach::each(reach, of_groups));
        self
    }

    /// What is of groups that the reader may see, and what groups share.
    pub(super) fn shared_or_within(mut self, reach: Option<&Reach>) -> Self {
        let of_groups = |within: &Within| {
            let shared = Filter::Equal("group_name", Value::Null);
            Filter::Any(vec![shared, Filter::In("group_name", texts(&within.groups))])
        };
        self.filters.extend(Reach::each(reach, of_groups));
        self
    }

    /// A page of what is of jobs and of a group, or of one job. A reader of few jobs does not wait until what is of them is found
    /// among all else.
    pub(super) fn page_within<R: Row>(
        self,
        tables: &(impl Tables + ?Sized),
        (reach, of_job): (Option<&Reach>, Option<i64>),
        request: &PageRequest,
    ) -> Result<Page<R>, Error> {
        if of_job.is_none()
            && let Some(jobs) = few_jobs(tables, reach)?
        {
            let parts = jobs.into_iter().map(|job| self.clone().equal("job_id", job));
            return self.merged(tables, parts, request);
        }
        let mut select = self;
        select.filters.extend(Reach::each(reach, Within::of_jobs_in_groups));
        select.page(tables, request)
    }
}

/// The jobs that the reader may see, where they are few and no group is among what lets them be seen.
fn few_jobs(tables: &(impl Tables + ?Sized), reach: Option<&Reach>) -> Result<Option<Vec<i64>>, Error> {
    let Some(reach) = reach.filter(|reach| reach.0.iter().all(|within| within.groups.is_empty())) else {
        return Ok(None);
    };
    let select = Select::new(JobRow::TABLE, &["id"]).jobs_within(Some(reach)).limit(FEW_JOBS + 1);
    let jobs: Vec<JobRow> = select.all(tables)?;
    Ok((jobs.len() <= FEW_JOBS).then(|| jobs.into_iter().map(|job| job.id).collect()))
}
