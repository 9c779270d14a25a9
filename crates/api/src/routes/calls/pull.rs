//! Tasks that clients pull, their users and templates.

use tidemill_model::{Role, TaskSpec, TemplateSpec};

use crate::call::{Call, Calls};
use crate::routes::defined::Defined;
use crate::routes::{pull_tasks as tasks, pull_templates as templates, pull_users as users};
use crate::view::{
    LedgerView, List, PullGrantView, PullTaskView, PullUserDetail, PullUserView, TaskTemplateView, Written,
};

pub(super) fn calls(calls: Calls) -> Calls {
    grant_calls(task_calls(user_calls(template_calls(calls))))
}

fn template_calls(calls: Calls) -> Calls {
    let list = "Templates for the parameters of pull tasks, by name";
    let one = "/api/pull/templates/{name}";
    calls
        .add(
            Call::get("/api/pull/templates", list)
                .everybody(Role::Viewer)
                .page()
                .gives::<List<TaskTemplateView>>(),
            templates::list,
        )
        .add(
            Call::post("/api/pull/templates", "Adds or changes a template; tasks that are there stay")
                .settles()
                .of_site(Role::Administrator)
                .takes::<TemplateSpec>()
                .gives::<Defined>(),
            templates::define,
        )
        .add(
            Call::get(one, "A template").everybody(Role::Viewer).fresh().gives::<TaskTemplateView>(),
            templates::get,
        )
        .add(
            Call::delete(one, "Removes a template; tasks that were checked against it stay")
                .of_site(Role::Administrator)
                .gives::<Written>(),
            templates::remove,
        )
}

fn user_calls(calls: Calls) -> Calls {
    let one = "/api/pull/users/{user}";
    calls
        .add(
            Call::get("/api/pull/users", "Users who pull tasks, by name")
                .of_group(Role::Viewer)
                .page()
                .with(users::GROUP)
                .gives::<List<PullUserView>>(),
            users::list,
        )
        .add(
            Call::post("/api/pull/users", "Gives up to 500 users their home group, all or none")
                .of_group(Role::Administrator)
                .takes::<users::AssignRequest>()
                .gives::<Written>(),
            users::assign,
        )
        .add(
            Call::get(one, "A user, what it has now, and what it gets next")
                .of_group(Role::Viewer)
                .fresh()
                .gives::<PullUserDetail>(),
            users::get,
        )
        .add(
            Call::delete(one, "Takes a user and its own tasks out of its group")
                .of_group(Role::Administrator)
                .gives::<Written>(),
            users::remove,
        )
        .add(
            Call::post(
                "/api/pull/users/{user}/move",
                "Moves a user, its history and its own tasks to another group; not while it has a live grant",
            )
            .of_group(Role::Administrator)
            .takes::<users::MoveRequest>()
            .gives::<Written>(),
            users::relocate,
        )
}

fn task_calls(calls: Calls) -> Calls {
    let one = "/api/pull/tasks/{id}";
    calls
        .add(
            Call::get("/api/pull/tasks", "Pull tasks, those with the latest start first")
                .of_group(Role::Viewer)
                .page()
                .with(tasks::KIND)
                .with(tasks::EXECUTOR)
                .with(tasks::GIVEN_BY)
                .with(tasks::STATE)
                .with(tasks::FROM)
                .with(tasks::TO)
                .gives::<List<PullTaskView>>(),
            tasks::list,
        )
        .add(
            Call::post("/api/pull/tasks", "A new task for a group or a user")
                .of_group(Role::User)
                .takes::<TaskSpec>()
                .gives::<tasks::TaskWritten>(),
            tasks::create,
        )
        .add(
            Call::get(one, "A pull task with its totals")
                .of_group(Role::Viewer)
                .fresh()
                .gives::<PullTaskView>(),
            tasks::get,
        )
        .add(
            Call::put(one, "Changes a task; its executor stays, and so does what somebody has of it")
                .of_group(Role::User)
                .takes::<TaskSpec>()
                .gives::<tasks::TaskWritten>(),
            tasks::change,
        )
        .add(
            Call::delete(one, "Deletes a task; what somebody has of it can still be completed")
                .of_group(Role::User)
                .gives::<Written>(),
            tasks::delete,
        )
}

/// What of tasks was given out.
fn grant_calls(calls: Calls) -> Calls {
    calls
        .add(
            Call::get("/api/pull/tasks/{id}/ledger",
                "What of a task was given out, and what became of it: taken = live + completed + returned + expired",
            )
            .of_group(Role::Viewer)
            .page().with(tasks::LIVE)
            .gives::<LedgerView>(),
            tasks::ledger,
        )
        .add(
            Call::get("/api/pull/grants", "Grants of pull tasks, the newest of each group first")
                .of_group(Role::Viewer)
                .page().with(tasks::GROUP).with(tasks::USER).with(tasks::TASK).with(tasks::GRANT_STATE)
                .gives::<List<PullGrantView>>(),
            tasks::grants,
        )
}
