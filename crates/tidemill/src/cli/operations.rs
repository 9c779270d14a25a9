//! Which command makes which call of the interface (API-6).

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

use clap::CommandFactory as _;
use serde_json::Value;

use super::Cli;
use How::{By, Nothing};

/// How people make a call.
enum How {
    /// By this command.
    By(&'static str),
    /// By no command of theirs, for this reason.
    Nothing(&'static str),
}

/// Every call. A form that other clients need is here with the command that does the same.
const CALLS: &[(&str, How)] = &[
    ("GET /api/admin", Nothing("`rebuild` and `verify` follow by it what they have begun")),
    ("POST /api/admin/keys", By("key apply")),
    ("POST /api/admin/partitions/{partition}/set-time", By("partition set-time")),
    ("POST /api/admin/rebuild", By("rebuild")),
    ("POST /api/admin/verify", By("verify")),
    ("GET /api/attempts", By("attempt ls")),
    ("POST /api/attempts/{id}/code", By("attempt report")),
    ("GET /api/audit", By("audit ls")),
    ("GET /api/audit/export", By("audit export")),
    ("GET /api/audit/{id}", By("audit show")),
    ("GET /api/batches", By("batch ls")),
    ("GET /api/batches/{id}", By("batch show")),
    ("POST /api/batches/{id}/adopt", By("batch adopt")),
    ("GET /api/batches/{id}/assignment-returns", By("batch returns")),
    ("POST /api/batches/{id}/clear", By("batch clear")),
    ("POST /api/batches/{id}/kill", By("batch kill")),
    ("GET /api/batches/{id}/log", By("batch logs")),
    ("GET /api/batches/{id}/log/download", By("batch logs")),
    ("GET /api/batches/{id}/log/search", By("batch logs")),
    ("GET /api/batches/{id}/log/summary", By("batch logs")),
    ("GET /api/batches/{id}/log/tail", By("batch logs")),
    ("POST /api/batches/{id}/mark", By("batch mark")),
    ("POST /api/batches/{id}/override", By("batch override")),
    ("POST /api/batches/{id}/quality", By("batch quality")),
    ("POST /api/batches/{id}/rerun", By("batch rerun")),
    ("GET /api/batches/{id}/usage", By("batch usage")),
    ("POST /api/batches/{id}/vouch", By("batch vouch")),
    ("GET /api/batches/{id}/why", By("batch why")),
    ("GET /api/bulk", By("bulk ls")),
    ("POST /api/bulk", By("bulk kill")),
    ("GET /api/bulk/{id}", By("bulk show")),
    ("GET /api/bulk/{id}/items", By("bulk items")),
    ("GET /api/calendars", By("calendar ls")),
    ("POST /api/calendars", By("calendar apply")),
    ("DELETE /api/calendars/{name}", By("calendar delete")),
    ("GET /api/calendars/{name}", By("calendar show")),
    ("GET /api/calendars/{name}/versions", By("calendar versions")),
    ("GET /api/calendars/{name}/versions/{version}", By("calendar show")),
    ("POST /api/cold-starts", By("cold-start")),
    ("GET /api/dead-letters", By("dead-letters ls")),
    ("GET /api/dead-letters/{id}", By("dead-letters show")),
    ("POST /api/dead-letters/{id}/redrive", By("dead-letters redrive")),
    ("GET /api/departments", By("department ls")),
    ("DELETE /api/departments/{name}", By("department delete")),
    ("GET /api/departments/{name}", By("department show")),
    ("PUT /api/departments/{name}", By("directory apply")),
    ("GET /api/departments/{name}/on-call", By("on-call")),
    ("GET /api/directory", By("directory export")),
    ("POST /api/directory/apply", By("directory apply")),
    ("GET /api/drained-hosts", By("worker drained")),
    ("GET /api/events", By("events tail")),
    ("GET /api/freezes", By("freeze ls")),
    ("DELETE /api/freezes/{scope}", By("freeze lift")),
    ("PUT /api/freezes/{scope}", By("freeze set")),
    ("GET /api/groups", By("group ls")),
    ("POST /api/groups", By("group apply")),
    ("GET /api/groups/{group}/jobs/{job}", By("job show")),
    ("DELETE /api/job/kill", By("batch kill")),
    ("GET /api/job/status", By("batch ls")),
    ("POST /api/job/submit", By("job submit")),
    ("GET /api/jobs", By("job ls")),
    ("POST /api/jobs/apply", By("job apply")),
    ("GET /api/jobs/export", By("job export")),
    ("DELETE /api/jobs/{id}", By("job delete")),
    ("GET /api/jobs/{id}", By("job show")),
    ("GET /api/jobs/{id}/children", By("job children")),
    ("GET /api/jobs/{id}/definition", By("job edit")),
    ("PUT /api/jobs/{id}/definition", By("job edit")),
    ("POST /api/jobs/{id}/disable", By("job disable")),
    ("POST /api/jobs/{id}/enable", By("job enable")),
    ("POST /api/jobs/{id}/move", By("job move")),
    ("GET /api/jobs/{id}/preview", By("job preview")),
    ("POST /api/jobs/{id}/rename", By("job rename")),
    ("POST /api/jobs/{id}/run", By("job run")),
    ("GET /api/jobs/{id}/skipped-runs", By("job skipped")),
    ("GET /api/jobs/{id}/versions", By("job versions")),
    ("GET /api/jobs/{id}/versions/{version}", By("job show")),
    ("GET /api/jobs/{id}/versions/{version}/diff/{other}", By("job diff")),
    ("GET /api/keys", By("key ls")),
    ("POST /api/keys", By("key apply")),
    ("DELETE /api/keys/{app}", By("key delete")),
    ("GET /api/level", By("level show")),
    ("DELETE /api/level/hold", By("level release")),
    ("PUT /api/level/hold", By("level hold")),
    ("GET /api/log", By("batch logs")),
    ("GET /api/log/download", By("batch logs")),
    ("GET /api/me", By("whoami")),
    ("GET /api/me/credentials", By("token ls")),
    ("DELETE /api/me/credentials/{id}", By("token revoke")),
    ("PUT /api/me/password", By("password")),
    ("GET /api/me/rights", By("whoami")),
    ("POST /api/me/sign-out", By("login")),
    ("POST /api/me/tokens", By("token create")),
    ("GET /api/on-call", By("on-call")),
    ("GET /api/openapi.json", Nothing("for programs that write clients; schemas/openapi.json is the same")),
    ("GET /api/people", By("person ls")),
    ("DELETE /api/people/{name}", By("person delete")),
    ("GET /api/people/{name}", By("person show")),
    ("PUT /api/people/{name}", By("directory apply")),
    ("DELETE /api/people/{name}/credentials", By("person sign-out")),
    ("GET /api/people/{name}/credentials", By("person credentials")),
    ("DELETE /api/people/{name}/credentials/{id}", By("person sign-out")),
    ("POST /api/people/{name}/disable", By("person disable")),
    ("POST /api/people/{name}/enable", By("person enable")),
    ("POST /api/people/{name}/invite", By("person invite")),
    ("GET /api/pools", By("pool ls")),
    ("POST /api/pools", By("pool apply")),
    ("DELETE /api/pools/{name}", By("pool delete")),
    ("GET /api/pools/{name}", By("pool show")),
    ("POST /api/probes", By("probe run")),
    ("GET /api/probes/late", By("probe late")),
    ("POST /api/pull", By("pull next")),
    ("POST /api/pull/complete", By("pull complete")),
    ("GET /api/pull/grants", By("pull grants")),
    ("POST /api/pull/return", By("pull return")),
    ("GET /api/pull/tasks", By("pull task ls")),
    ("POST /api/pull/tasks", By("pull task create")),
    ("DELETE /api/pull/tasks/{id}", By("pull task delete")),
    ("GET /api/pull/tasks/{id}", By("pull task show")),
    ("PUT /api/pull/tasks/{id}", By("pull task change")),
    ("GET /api/pull/tasks/{id}/ledger", By("pull task ledger")),
    ("GET /api/pull/templates", By("pull template ls")),
    ("POST /api/pull/templates", By("pull template apply")),
    ("DELETE /api/pull/templates/{name}", By("pull template delete")),
    ("GET /api/pull/templates/{name}", By("pull template show")),
    ("GET /api/pull/users", By("pull user ls")),
    ("POST /api/pull/users", By("pull user assign")),
    ("DELETE /api/pull/users/{user}", By("pull user delete")),
    ("GET /api/pull/users/{user}", By("pull user show")),
    ("POST /api/pull/users/{user}/move", By("pull user move")),
    ("GET /api/reruns", By("rerun ls")),
    ("POST /api/reruns", By("rerun plan")),
    ("GET /api/reruns/{id}", By("rerun show")),
    ("POST /api/reruns/{id}/approve", By("rerun approve")),
    ("GET /api/reruns/{id}/batches", By("rerun batches")),
    ("POST /api/reruns/{id}/cancel", By("rerun cancel")),
    ("GET /api/reruns/{id}/jobs", By("rerun show")),
    ("POST /api/reruns/{id}/pause", By("rerun pause")),
    ("POST /api/reruns/{id}/resume", By("rerun resume")),
    ("GET /api/sign-in", Nothing("pages ask by it how one can sign in")),
    ("POST /api/sign-in", By("login")),
    ("POST /api/sign-in/first-invitation", By("person invite")),
    ("POST /api/sign-in/invitation", By("login")),
    ("GET /api/sign-in/oidc", Nothing("a browser goes there")),
    ("GET /api/sign-in/oidc/done", Nothing("a provider sends a browser there")),
    ("GET /api/status", By("status")),
    ("GET /api/third-party", By("third-party ls")),
    ("POST /api/third-party", By("third-party report")),
    ("POST /api/worker/status", By("worker drain")),
    ("GET /api/workers", By("worker ls")),
    ("GET /api/workers/{id}", By("worker show")),
    ("POST /api/workers/{id}/drain", By("worker drain")),
    ("POST /api/workers/{id}/end-stray", By("worker end-stray")),
    ("POST /api/workers/{id}/resume", By("worker resume")),
    ("POST /api/workers/{id}/vouch", By("worker vouch")),
    ("GET /healthz", Nothing("for what watches processes; `status` says more")),
    ("GET /readyz", Nothing("for what sends traffic to processes; `status` says more")),
];

/// The calls of schemas/openapi.json.
fn published() -> BTreeSet<String> {
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../schemas/openapi.json");
    let document: Value = serde_json::from_str(&fs::read_to_string(file).unwrap()).unwrap();
    let mut calls = BTreeSet::new();
    for (path, methods) in document["paths"].as_object().unwrap() {
        let methods = methods.as_object().unwrap().iter().filter(|(_, call)| call["responses"].is_object());
        calls.extend(methods.map(|(method, _)| format!("{} {path}", method.to_uppercase())));
    }
    calls
}

/// API-6: the command line does all that the interface does: each call has its command here, or the reason why it has none.
#[test]
fn every_call_has_a_command_or_a_reason() {
    let published = published();
    assert!(published.len() > 100, "{published:?}");
    let listed: BTreeSet<String> = CALLS.iter().map(|(call, _)| (*call).to_owned()).collect();
    assert_eq!(listed.len(), CALLS.len(), "a call is listed once");
    let missing: Vec<_> = published.difference(&listed).collect();
    assert!(missing.is_empty(), "say in {} by which command people make {missing:?}", file!());
    let gone: Vec<_> = listed.difference(&published).collect();
    assert!(gone.is_empty(), "there is no such call any more: {gone:?}");
    let program = Cli::command();
    for (call, how) in CALLS {
        match how {
            By(words) => {
                let found =
                    words.split(' ').try_fold(&program, |command, word| command.find_subcommand(word));
                let found = found.unwrap_or_else(|| panic!("{call}: there is no command {words}"));
                assert!(!found.has_subcommands(), "{call}: {words} is a group of commands");
            }
            Nothing(reason) => assert!(!reason.is_empty(), "{call} has no command: say why"),
        }
    }
}
