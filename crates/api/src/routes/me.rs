//! What the key that asks may do, call by call, with the reason (API-5).

use std::collections::BTreeSet;
use std::sync::{Arc, LazyLock};

use axum::Json;
use schemars::JsonSchema;
use serde::Serialize;
use tidemill_model::{Account, DepartmentName, Grant, Permission, Role};

use super::calls::calls;
use super::requests::Reader;
use crate::needs::Needs;
use crate::view::Answered;

/// Who asks, and what that one may do.
#[derive(Serialize, JsonSchema)]
pub(crate) struct MyRights {
    /// The application key; of who calls themselves, `session` or `token:<id>`.
    app: Arc<str>,
    /// The key's role; of who calls themselves, the person's.
    role: Role,
    /// What the key may beside that; of a token, what alone it may, where that is not all.
    may: BTreeSet<Permission>,
    /// The groups that the key is bound to; empty: all.
    groups: Vec<String>,
    /// The department that the key belongs to, and whose jobs alone it reaches.
    department: Option<DepartmentName>,
    /// The accounts that jobs may run as which it applies.
    run_as: Vec<Account>,
    /// The person in whose name it calls, as the application names them.
    person: Option<Arc<str>>,
    /// What that person may; absent: there is none, or the directory has nobody.
    of_person: Option<PersonRights>,
    /// Every call that needs a key.
    calls: Vec<CallRight>,
}

/// What a person may.
#[derive(Serialize, JsonSchema)]
pub(crate) struct PersonRights {
    /// The person's role: an administrator's is of the whole site, others' of jobs that they or their departments own.
    role: Role,
    /// The person's departments.
    departments: Vec<DepartmentName>,
    /// What is granted beside that, to the person or to a department of theirs.
    grants: Vec<Grant>,
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
    let key = caller.key();
    // Who calls themselves is bounded by the person alone, and by what a token may.
    let (role, may) = match caller.own().zip(caller.person()) {
        Some((held, person)) => (person.role, held.may.clone()),
        None => (key.role, key.may.clone()),
    };
    let rights = CALLS.iter().map(|(call, needs)| match needs.check(caller) {
        Ok(()) => CallRight { call, allowed: true, reason: needs.reached(caller) },
        Err(problem) => CallRight { call, allowed: false, reason: problem.detail.into() },
    });
    Ok(Json(MyRights {
        app: Arc::clone(caller.app()),
        role,
        may,
        groups: key.groups.to_vec(),
        department: key.department.clone(),
        run_as: caller.accounts().to_vec(),
        person: caller.user(),
        of_person: caller.person().map(|person| PersonRights {
            role: person.role,
            departments: person.departments.clone(),
            grants: caller.grants(),
        }),
        calls: rights.collect(),
    }))
}
