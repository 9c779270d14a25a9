//! What the key that asks may do, call by call, with the reason (API-5).

use std::sync::{Arc, LazyLock};

use axum::Json;
use schemars::JsonSchema;
use serde::Serialize;
use tidemill_model::{Account, Role};

use super::calls::calls;
use super::requests::Reader;
use crate::rights::{Needs, Reach};
use crate::view::Answered;

/// Who asks, and what that one may do.
#[derive(Serialize, JsonSchema)]
pub(crate) struct MyRights {
    /// The application key.
    app: Arc<str>,
    /// The person, as the application names them.
    person: Option<Arc<str>>,
    /// The key's rank.
    role: Role,
    /// The groups that it is bound to; empty: all.
    groups: Vec<String>,
    /// The accounts that jobs may run as which it applies.
    run_as: Vec<Account>,
    /// Every call that needs a key.
    calls: Vec<CallRight>,
}

/// Whether one call may be made.
#[derive(Serialize, JsonSchema)]
pub(crate) struct CallRight {
    /// Method and path.
    call: &'static str,
    /// Whether the key may make it.
    allowed: bool,
    /// Why, or of what.
    reason: String,
}

/// Every call that needs a key, by method and path.
static CALLS: LazyLock<Vec<(String, Needs)>> = LazyLock::new(|| {
    let calls = calls().calls.into_iter();
    calls.filter_map(|call| Some((format!("{} {}", call.method, call.path), call.needs?))).collect()
});

pub(super) async fn rights(by: Reader) -> Answered<MyRights> {
    let caller = &by.caller;
    let rights = CALLS.iter().map(|(call, needs)| match needs.check(caller) {
        Ok(()) => CallRight { call, allowed: true, reason: reached(needs.reach, caller.groups()) },
        Err(problem) => CallRight { call, allowed: false, reason: problem.detail.into() },
    });
    Ok(Json(MyRights {
        app: Arc::clone(caller.app()),
        person: caller.user(),
        role: caller.role(),
        groups: caller.groups().to_vec(),
        run_as: caller.accounts().to_vec(),
        calls: rights.collect(),
    }))
}

/// Of what a call may be made that the key may make.
fn reached(reach: Reach, groups: &[String]) -> String {
    match reach {
        Reach::Groups if !groups.is_empty() => format!("for what is of {}", groups.join(", ")),
        Reach::Own if !groups.is_empty() => "for what the key asked for itself".to_owned(),
        Reach::Everybody | Reach::Groups | Reach::Own | Reach::Site => "for the whole site".to_owned(),
    }
}
