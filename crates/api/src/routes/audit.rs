//! The audit list (API-9): who asked for what, and when.

use std::sync::Arc;

use axum::body::{Body, Bytes};
use axum::extract::{Path, State};
use axum::http::{HeaderValue, header};
use axum::response::{IntoResponse, Response};
use axum::{BoxError, Extension, Json};
use futures_util::stream::try_unfold;
use tidemill_model::{EventKind, Permission, Timestamp};
use tidemill_store::rows::AuditRow;
use tidemill_store::{AuditFilter, ReadAudit};

use super::requests::Reader;
use crate::Problem;
use crate::app::App;
use crate::needs::{Needs, Reach};
use crate::parameter::{Asked, Rule};
use crate::params::Params;
use crate::rights::Caller;
use crate::standing::Standing;
use crate::turns::Turn;
use crate::view::{Answered, AuditPlace, AuditView, List};

/// Rows of an export that are in memory at once; a row has 16 KiB and what names it, at most.
const PART: usize = 200;
/// What a key needs for the list.
pub(super) const NEEDS: Permission = Permission::Administer;

pub(super) const APP: Asked<String> = Asked::text("app", "Asked for with this application's key.");
pub(super) const PERSON: Asked<String> =
    Asked::text("person", "By this person, as the application names them.");
pub(super) const KIND: Asked<String> = Asked::text("kind", "Of this kind of event, as in `job.defined`.");
pub(super) const OBJECT: Asked<String> = Asked::text("object", "About this, as in `job/4096` or `key/etl`.");
pub(super) const GROUP: Asked<String> = Asked::text("group", "Of this group.");
pub(super) const SINCE: Asked<Timestamp> = Asked::time("since", "Decided at this time or later.");
pub(super) const UNTIL: Asked<Timestamp> = Asked::time("until", "Decided before this time.");
pub(super) const AFTER: Asked<String> =
    Asked::new("after", "After the row with this id, where an export goes on.", Rule::of::<AuditPlace>());

fn filter(params: &Params, caller: &Caller) -> Result<AuditFilter, Problem> {
    let kind = params.get(KIND)?;
    if let Some(kind) = kind.as_ref().filter(|kind| EventKind::all().all(|known| known.name != **kind)) {
        let rule = "must be a kind of event, as in job.defined or access.refused; docs/audit.md says which there are";
        return Err(Problem::field("kind", kind, rule));
    }
    Ok(AuditFilter {
        app: params.get(APP)?,
        person: params.get(PERSON)?,
        kind,
        object: params.get(OBJECT)?,
        group: params.get(GROUP)?,
        reach: caller.seen(),
        since: params.get(SINCE)?.map(Timestamp::as_millisecond),
        until: params.get(UNTIL)?.map(Timestamp::as_millisecond),
    })
}

/// The list, the newest first.
pub(super) async fn list(by: Reader, params: Params) -> Answered<List<AuditView>> {
    let filter = filter(&params, &by.caller)?;
    List::part(&by.app, &params, move |tables, request| tables.audit(&filter, request)).await
}

pub(super) async fn get(by: Reader, Path(text): Path<String>) -> Answered<AuditView> {
    let place = place("id", &text)?;
    let row = by.app.read(move |tables| tables.audited(&place.key())).await?;
    let unknown = || Problem::unknown("row of the audit list", &text);
    let row = row.ok_or_else(unknown)?;
    if !by.caller.is_of_site() && !by.caller.reaches(&row.group_name) {
        return Err(unknown().foreign());
    }
    Ok(Json(row.into()))
}

fn place(field: &str, text: &str) -> Result<AuditPlace, Problem> {
    let rule = "must be the id of a row of the audit list, as in 1772359200007:0:17:0";
    text.parse().map_err(|()| Problem::field(field, text, rule))
}

/// The list, the oldest first, a line of JSON for each row: as long as it takes, in parts.
pub(super) async fn export(
    State(app): State<Arc<App>>,
    Extension(standing): Extension<Standing>,
    params: Params,
) -> Result<Response, Problem> {
    let filter = filter(&params, standing.caller())?;
    let after = params.get(AFTER)?.map(|text| place("after", &text)).transpose()?;
    let open = app.streams.take(standing.caller().holder()).await?;
    let mut export = Export { app, standing, filter, after, _open: open };
    // What is wrong before the first line is told as what it is.
    let first = export.part().await?;
    let state = (export, Some(first));
    let lines = try_unfold(state, |(mut export, ready)| async move {
        let part = match ready {
            Some(part) => part,
            None => export.next().await.map_err(|problem| BoxError::from(problem.detail.to_string()))?,
        };
        Ok::<_, BoxError>((!part.is_empty()).then_some((part, (export, None))))
    });
    let mut response = Body::from_stream(lines).into_response();
    let media = HeaderValue::from_static("application/x-ndjson");
    response.headers_mut().insert(header::CONTENT_TYPE, media);
    Ok(response)
}

struct Export {
    app: Arc<App>,
    standing: Standing,
    filter: AuditFilter,
    after: Option<AuditPlace>,
    _open: Turn,
}

impl Export {
    /// The next part, for who may still see it.
    async fn next(&mut self) -> Result<Bytes, Problem> {
        self.standing.look().await?;
        let caller = self.standing.caller();
        Needs { permission: NEEDS, reach: Reach::Groups }.check(caller)?;
        self.filter.reach = caller.seen();
        self.part().await
    }

    /// The next rows as lines; none are left where it is empty.
    async fn part(&mut self) -> Result<Bytes, Problem> {
        let (filter, after) = (self.filter.clone(), self.after.map(AuditPlace::key));
        let rows =
            self.app.read(move |tables| tables.audit_from_oldest(&filter, after.as_ref(), PART)).await?;
        self.after = rows.last().map(AuditPlace::from).or(self.after);
        let line = |row: AuditRow| {
            let view = serde_json::to_string(&AuditView::from(row)).expect("a row is plain data");
            view + "\n"
        };
        Ok(rows.into_iter().map(line).collect::<String>().into())
    }
}
