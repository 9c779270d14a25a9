//! `tidemill pull …`.

use serde_json::{Value, json};
use tidemill_client::{Method, segment};

use super::{Session, write};
use crate::args::{
    PullCommand, PullGrantsArgs, PullTaskCommand, PullTaskLsArgs, PullTemplateCommand, TaskKind, word,
};
use crate::exit::Exit;
use crate::failure::{Done, Failure};
use crate::render::{self, Column};
use crate::server::Query;
use crate::yaml;

mod user;

/// More than there can be.
const LIMIT: usize = 10_000;

const TEMPLATES: &[Column] = &[
    Column("NAME", &["/name"]),
    Column("VERSION", &["/version"]),
    Column("CHANGED", &["/changed_at"]),
    Column("COMMENT", &["/comment"]),
];
const FIELDS: &[Column] =
    &[Column("PARAMETER", &["/name"]), Column("TYPE", &["/type"]), Column("REQUIRED", &["/required"])];
const TASKS: &[Column] = &[
    Column("ID", &["/id"]),
    Column("EXECUTOR", &["/task/executor"]),
    Column("NAME", &["/task/name"]),
    Column("WHEN", &["/task/when/once", "/task/when/every_minutes", "/task/when/every_days"]),
    Column("TIMES", &["/task/dispatch_times"]),
    Column("TAKEN", &["/totals/taken"]),
    Column("LIVE", &["/totals/live"]),
    Column("COMPLETED", &["/totals/completed"]),
    Column("STATE", &["/state"]),
];
const LEDGER: &[Column] = &[
    Column("START", &["/start"]),
    Column("TAKEN", &["/taken"]),
    Column("LIVE", &["/live"]),
    Column("COMPLETED", &["/completed"]),
    Column("RETURNED", &["/returned"]),
    Column("EXPIRED", &["/expired"]),
    Column("BALANCED", &["/balanced"]),
    Column("STOCK", &["/stock"]),
];
const GRANTS: &[Column] = &[
    Column("GRANT", &["/id"]),
    Column("USER", &["/user"]),
    Column("TASK", &["/task"]),
    Column("NAME", &["/name"]),
    Column("START", &["/start"]),
    Column("STATE", &["/state"]),
    Column("GRANTED", &["/granted_at"]),
    Column("EXPIRES", &["/expires_at"]),
    Column("ENDED", &["/ended_at"]),
    Column("RESULT", &["/result", "/reason"]),
];

pub(super) fn run(session: &Session<'_>, command: PullCommand) -> Done<Exit> {
    match command {
        PullCommand::Template(command) => template(session, command),
        PullCommand::User(command) => user::run(session, command),
        PullCommand::Task(command) => task(session, command),
        PullCommand::Grants(args) => grants(session, args),
        PullCommand::Next { user, wait } => next(session, &user, wait),
        PullCommand::Complete { user, grant, result } => {
            let body = json!({ "user": user, "grant": grant, "result": result });
            let answer = session.server.post("/api/pull/complete", Some(&body))?;
            Ok(session.show(&answer, |_| format!("Grant {grant} is completed.")))
        }
        PullCommand::Return { user, grant, reason } => {
            let body = json!({ "user": user, "grant": grant, "reason": reason });
            let answer = session.server.post("/api/pull/return", Some(&body))?;
            Ok(session.show(&answer, |_| format!("Grant {grant} is given back; others can have it.")))
        }
    }
}

fn next(session: &Session<'_>, user: &str, wait: u32) -> Done<Exit> {
    let body = json!({ "user": user, "wait_s": wait });
    let answer = session.server.post("/api/pull", Some(&body))?;
    Ok(session.show(&answer, |answer| match &answer["grant"] {
        Value::Null => {
            let next = answer["next_at"].as_str().map(|at| format!(" Ask again at {at}."));
            format!("Nothing is due for {user}.{}", next.unwrap_or_default())
        }
        grant => {
            let parameters = &grant["parameters"];
            let id = &grant["grant"];
            format!(
                "{}parameters  {}\n\nWhen it is done: tidemill pull complete {user} {id} --result …",
                render::fields(grant, &["parameters"]),
                if parameters.is_null() { "{}".to_owned() } else { parameters.to_string() }
            )
        }
    }))
}

fn template(session: &Session<'_>, command: PullTemplateCommand) -> Done<Exit> {
    let path = |name: &str| format!("/api/pull/templates/{}", segment(name));
    match command {
        PullTemplateCommand::Apply { file } => {
            write::define(session, "/api/pull/templates", "template", &yaml::templates(&file)?, &file)
        }
        PullTemplateCommand::Ls => {
            let answer = session.server.list("/api/pull/templates", &Query::new(), LIMIT)?;
            let nothing = "No templates. Add some with `tidemill pull template apply -f FILE`.";
            Ok(session.show(&answer, |answer| render::list(answer, TEMPLATES, nothing)))
        }
        PullTemplateCommand::Show { name } => {
            let answer = session.server.get(&path(&name), &[])?;
            Ok(session.show(&answer, |answer| {
                let fields = fields_of(answer);
                let fields = render::list(&fields, FIELDS, "Tasks of it have no parameters.");
                format!("{}\n{fields}", render::fields(answer, &["fields"]))
            }))
        }
        PullTemplateCommand::Delete { name } => {
            let answer = session.server.write(Method::Delete, &path(&name), None, None)?;
            Ok(session.show(&answer, |_| format!("Template {name} removed.")))
        }
    }
}

/// The parameters of a template as a list.
fn fields_of(template: &Value) -> Value {
    let one = |(name, field): (&String, &Value)| {
        let kind = field["type"].as_str().unwrap_or("any");
        json!({ "name": name, "type": kind, "required": field["required"].as_bool().unwrap_or(true) })
    };
    let fields = template["fields"].as_object();
    json!({ "items": fields.into_iter().flatten().map(one).collect::<Vec<_>>() })
}

fn task(session: &Session<'_>, command: PullTaskCommand) -> Done<Exit> {
    match command {
        PullTaskCommand::Create { file } => {
            let answer = write::all(session, "/api/pull/tasks", "task", &yaml::tasks(&file)?, &file)?;
            Ok(session.show(&answer, |answer| {
                let columns = &[Column("TASK", &["/task"]), Column("VERSION", &["/version"])];
                render::list(answer, columns, "No tasks in the file.")
            }))
        }
        PullTaskCommand::Ls(args) => list(session, &args),
        PullTaskCommand::Show { task } => {
            let answer = session.server.get(&format!("/api/pull/tasks/{task}"), &[])?;
            Ok(session.show(&answer, |answer| {
                let spec = render::fields(&answer["task"], &["when", "parameters"]);
                let (when, parameters) = (&answer["task"]["when"], &answer["task"]["parameters"]);
                let parameters = if parameters.is_null() { "{}".to_owned() } else { parameters.to_string() };
                let whole = render::fields(answer, &["task"]);
                format!("{whole}\n{spec}when  {when}\nparameters  {parameters}")
            }))
        }
        PullTaskCommand::Change { task, file } => {
            let tasks = yaml::tasks(&file)?;
            let [spec] = &tasks[..] else {
                let message = format!("{}: {} tasks; it must hold one", file.display(), tasks.len());
                return Err(Failure::bad_input(message));
            };
            let path = format!("/api/pull/tasks/{task}");
            let answer = session.server.write(Method::Put, &path, Some(spec), None)?;
            Ok(session.show(&answer, |answer| format!("Task {task} has version {}.", answer["version"])))
        }
        PullTaskCommand::Delete { task } => {
            let path = format!("/api/pull/tasks/{task}");
            let answer = session.server.write(Method::Delete, &path, None, None)?;
            Ok(session.show(&answer, |_| format!("Task {task} is deleted.")))
        }
        PullTaskCommand::Ledger { task, live, limit } => ledger(session, task, live, limit),
    }
}

fn list(session: &Session<'_>, args: &PullTaskLsArgs) -> Done<Exit> {
    let mut query = Query::new();
    query.extend(args.executor.clone().map(|executor| ("executor", executor)));
    query.extend(args.group.clone().map(|group| ("group", group)));
    query.extend(args.state.clone().map(|state| ("state", state)));
    query.extend(args.from.map(|from| ("from", from.to_string())));
    query.extend(args.to.map(|to| ("to", to.to_string())));
    let kinds = args.kind.map_or(vec![TaskKind::Rotating, TaskKind::Once], |kind| vec![kind]);
    let mut items = Vec::new();
    for kind in kinds {
        let mut query = query.clone();
        query.push(("kind", word(&kind)));
        let mut answer = session.server.list("/api/pull/tasks", &query, args.limit)?;
        if let Value::Array(more) = answer["items"].take() {
            items.extend(more);
        }
    }
    let answer = json!({ "items": items });
    let nothing = "No tasks. Once tasks are listed from 7 days ago on; go further back with --from.";
    Ok(session.show(&answer, |answer| render::list(answer, TASKS, nothing)))
}

fn ledger(session: &Session<'_>, task: i64, live: bool, limit: usize) -> Done<Exit> {
    let path = format!("/api/pull/tasks/{task}/ledger");
    let query: Query = live.then(|| ("live", "true".to_owned())).into_iter().collect();
    // The first part has the totals, the pages have the occurrences.
    let mut answer = session.server.get(&path, &query)?;
    let listed = session.server.list(&path, &query, limit)?;
    answer["items"] = listed["items"].clone();
    answer["next"] = listed["next"].clone();
    Ok(session.show(&answer, |answer| {
        let totals = render::fields(&answer["totals"], &[]);
        let items = render::list(answer, LEDGER, "Nothing of it was given out yet.");
        format!("task {task}, each occurrence up to {} times\n{totals}\n{items}", answer["dispatch_times"])
    }))
}

fn grants(session: &Session<'_>, args: PullGrantsArgs) -> Done<Exit> {
    let mut query = Query::new();
    query.extend(args.user.map(|user| ("user", user)));
    query.extend(args.task.map(|task| ("task", task.to_string())));
    query.extend(args.state.map(|state| ("state", state)));
    let answer = session.list_of_group("/api/pull/grants", args.group.as_deref(), query, args.limit)?;
    Ok(session.show(&answer, |answer| render::list(answer, GRANTS, "No grants.")))
}
