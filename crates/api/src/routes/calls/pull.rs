//! Tasks that clients pull, their users and templates.

use tidemill_model::{Permission, TaskSpec, TemplateSpec};

use crate::call::{Call, Calls};
use crate::routes::defined::{self, Defined};
use crate::routes::{pull_tasks as tasks, pull_users as users};
use crate::view::{LedgerView, PullGrantView, PullTaskView, PullUserDetail, PullUserView, TaskTemplateView};

pub(super) fn calls(calls: Calls) -> Calls {
    task_calls(user_calls(calls))
}

fn user_calls(calls: Calls) -> Calls {
    let list = "Templates for the parameters of pull tasks, by name";
    let one = "/api/pull/templates/{name}";
    let user = "/api/pull/users/{user}";
    calls
        .add(
            Call::list::<TaskTemplateView>("/api/pull/templates", list).everybody(Permission::View),
            defined::templates,
        )
        .add(
            Call::act("/api/pull/templates", "Adds or changes a template; tasks that are there stay")
                .settles()
                .of_site(Permission::Administer)
                .takes::<TemplateSpec>()
                .gives::<Defined>(),
            defined::define_template,
        )
        .add(Call::one::<TaskTemplateView>(one, "A template").everybody(Permission::View), defined::template)
        .add(
            Call::remove(one, "Removes a template; tasks that were checked against it stay")
                .of_site(Permission::Administer),
            defined::remove_template,
        )
        .add(
            Call::list::<PullUserView>("/api/pull/users", "Users who pull tasks, by name").with(users::GROUP),
            users::list,
        )
        .add(
            Call::act("/api/pull/users", "Gives up to 500 users their home group, all or none")
                .named("assignPullUsers")
                .of_group(Permission::Administer)
                .takes::<users::AssignRequest>(),
            users::assign,
        )
        .add(Call::one::<PullUserDetail>(user, "A user, what it has now, and what it gets next"), users::get)
        .add(
            Call::remove(user, "Takes a user and its own tasks out of its group")
                .of_group(Permission::Administer),
            users::remove,
        )
        .add(
            Call::act(
                "/api/pull/users/{user}/move",
                "Moves a user, its history and its own tasks to another group; not while it has a live grant",
            )
            .of_group(Permission::Administer)
            .takes::<users::MoveRequest>(),
            users::relocate,
        )
}

fn task_calls(calls: Calls) -> Calls {
    let one = "/api/pull/tasks/{id}";
    calls
        .add(
            Call::list::<PullTaskView>("/api/pull/tasks", "Pull tasks, those with the latest start first")
                .with(tasks::KIND)
                .with(tasks::EXECUTOR)
                .with(tasks::GIVEN_BY)
                .with(tasks::STATE)
                .with(tasks::FROM)
                .with(tasks::TO),
            tasks::list,
        )
        .add(
            Call::act("/api/pull/tasks", "A new task for a group or a user")
                .named("createPullTask")
                .needing(Permission::Edit)
                .takes::<TaskSpec>()
                .gives::<tasks::TaskWritten>(),
            tasks::create,
        )
        .add(Call::one::<PullTaskView>(one, "A pull task with its totals"), tasks::get)
        .add(
            Call::put(one, "Changes a task; its executor stays, and so does what somebody has of it")
                .of_group(Permission::Edit)
                .takes::<TaskSpec>()
                .gives::<tasks::TaskWritten>(),
            tasks::change,
        )
        .add(
            Call::remove(one, "Deletes a task; what somebody has of it can still be completed").needing(Permission::Edit),
            tasks::delete,
        )
        .add(
            Call::get("/api/pull/tasks/{id}/ledger",
                "What of a task was given out, and what became of it: taken = live + completed + returned + expired",
            )
            .of_group(Permission::View)
            .page().with(tasks::LIVE)
            .gives::<LedgerView>(),
            tasks::ledger,
        )
        .add(
            Call::list::<PullGrantView>(
                "/api/pull/grants",
                "Grants of pull tasks, the newest of each group first",
            )
            .with(tasks::GROUP)
            .with(tasks::USER)
            .with(tasks::TASK)
            .with(tasks::GRANT_STATE),
            tasks::grants,
        )
}
