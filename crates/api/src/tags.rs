//! The parts that the document has calls in: each call is in one. Once published their names stay (docs/rest.md).

/// A part of the interface.
pub(crate) struct Tag {
    pub(crate) name: &'static str,
    pub(crate) about: &'static str,
    /// What its paths begin with.
    paths: &'static [&'static str],
}

/// In the order in which they are shown.
pub(crate) const TAGS: &[Tag] = &[
    Tag {
        name: "Jobs",
        about: "Definitions, their schedules and versions, and runs by hand.",
        paths: &["/api/jobs", "/api/groups/{group}/jobs/"],
    },
    Tag {
        name: "Batches",
        about: "The runs of jobs, one for each logical time: their states, why one waits, and how to end, mark or repeat one.",
        paths: &["/api/batches"],
    },
    Tag {
        name: "Attempts and logs",
        about: "The tries of batches, what they use, and their logs.",
        paths: &["/api/attempts", "/api/batches/{id}/log", "/api/batches/{id}/usage"],
    },
    Tag {
        name: "Reruns",
        about: "Reruns of spans of logical times and cold starts: planned first, then approved.",
        paths: &["/api/reruns", "/api/cold-starts", "/api/batches/{id}/clear"],
    },
    Tag {
        name: "Bulk operations",
        about: "One action for all batches or jobs that fit a filter.",
        paths: &["/api/bulk"],
    },
    Tag {
        name: "External dependencies",
        about: "What batches wait for outside: paths, the quality service, third parties.",
        paths: &[
            "/api/third-party",
            "/api/probes",
            "/api/batches/{id}/override",
            "/api/batches/{id}/quality",
        ],
    },
    Tag {
        name: "Workers and groups",
        about: "Who runs batches, drained hosts, and what is frozen.",
        paths: &["/api/workers", "/api/drained-hosts", "/api/groups", "/api/freezes"],
    },
    Tag {
        name: "Calendars and pools",
        about: "What several jobs share: days that count, and slots.",
        paths: &["/api/calendars", "/api/pools"],
    },
    Tag {
        name: "Pull tasks",
        about: "Tasks that users ask for, with their templates, and who has what.",
        paths: &["/api/pull"],
    },
    Tag {
        name: "People and departments",
        about: "The directory: who owns jobs, and who is on call.",
        paths: &["/api/people", "/api/departments", "/api/directory", "/api/on-call"],
    },
    Tag {
        name: "Sign-in",
        about: "How people sign in and out, and their sessions, tokens and invitations.",
        paths: &["/api/sign-in", "/api/me", "/api/people/{name}/credentials", "/api/people/{name}/invite"],
    },
    Tag {
        name: "Keys",
        about: "Application keys, and what the caller's own may do.",
        paths: &["/api/keys", "/api/me/rights"],
    },
    Tag {
        name: "Audit",
        about: "Who asked for which change and when, and what was refused.",
        paths: &["/api/audit"],
    },
    Tag { name: "Feed", about: "The public events, as they happen.", paths: &["/api/events"] },
    Tag {
        name: "Site",
        about: "How far the service is, the level of what it writes, and this document.",
        paths: &["/api/status", "/api/level", "/api/openapi.json", "/healthz", "/readyz"],
    },
    Tag {
        name: "Operators",
        about: "What was set aside, clocks, tables that are built anew or compared.",
        paths: &["/api/admin", "/api/dead-letters"],
    },
    Tag {
        name: "Calls of a given form",
        about: "Job calls whose form is given from outside. They mean the newest batch of a job; other parts have more.",
        paths: &["/api/job/", "/api/log", "/api/worker/"],
    },
];

/// The part that a path belongs to: the one with the longest beginning of it.
pub(crate) fn tag_of(path: &str) -> &'static Tag {
    let fits = |tag: &'static Tag| {
        let begins = tag.paths.iter().filter(|begin| path.starts_with(**begin));
        Some((begins.map(|begin| begin.len()).max()?, tag))
    };
    let longest = TAGS.iter().filter_map(fits).max_by_key(|(length, _)| *length);
    longest.unwrap_or_else(|| panic!("which part is {path} of?")).1
}
