//! The name of a call in the document, by which generated clients call it. Once published it stays (docs/rest.md).
//!
//! ```text
//!  GET    /jobs                      listJobs        GET    /jobs/{id}             getJob
//!  GET    /jobs/{id}/versions        listJobVersions GET    /jobs/{id}/definition  getJobDefinition
//!  POST   /calendars                 defineCalendar  POST   /batches/{id}/kill     killBatch
//!  PUT    /people/{name}             putPerson       DELETE /people/{name}         deletePerson
//! ```

use axum::http::Method;

/// Lists of which one is more than the name without its `s`.
const PLURALS: &[(&str, &str)] = &[("people", "person"), ("children", "child"), ("batches", "batch")];

/// The name that follows from method and path. Where it reads badly, the table of calls has another one.
pub(crate) fn operation_id(method: &Method, path: &str) -> String {
    let parts: Vec<&str> = path.trim_start_matches("/api").split('/').filter(|it| !it.is_empty()).collect();
    let is_one = |part: &str| part.starts_with('{');
    let ends_with_one = parts.last().is_some_and(|last| is_one(last));
    let last = parts.last().copied().unwrap_or_default();
    let (verb, named) = match method.as_str() {
        "GET" if !ends_with_one && is_plural(last) => ("list", parts.len()),
        "GET" => ("get", parts.len()),
        "PUT" => ("put", parts.len()),
        "DELETE" => ("delete", parts.len()),
        _ if parts.len() == 1 || is_plural(last) => ("define", parts.len()),
        _ => (last, parts.len() - 1),
    };
    let mut id = camel(verb, false);
    for (at, part) in parts[..named].iter().enumerate().filter(|(_, part)| !is_one(part)) {
        // The last one is about all of the list, unless it defines one.
        let is_whole = at + 1 == named && verb != "define";
        id += &camel(if is_whole { part } else { singular(part) }, true);
    }
    id
}

fn is_plural(word: &str) -> bool {
    PLURALS.iter().any(|(many, _)| *many == word) || (word.ends_with('s') && !word.ends_with("us"))
}

fn singular(word: &str) -> &str {
    let known = PLURALS.iter().find(|(many, _)| *many == word);
    match known {
        Some((_, one)) => one,
        None if is_plural(word) => &word[..word.len() - 1],
        None => word,
    }
}

/// The words between hyphens as one, each with a capital letter, the first one as told.
fn camel(words: &str, is_capital: bool) -> String {
    let mut written = String::with_capacity(words.len());
    let mut capital = is_capital;
    for letter in words.chars() {
        match letter {
            '-' => capital = true,
            _ if capital => {
                written.extend(letter.to_uppercase());
                capital = false;
            }
            _ => written.push(letter),
        }
    }
    written
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_follow_from_method_and_path() {
        for (method, path, id) in [
            (Method::GET, "/api/jobs", "listJobs"),
            (Method::GET, "/api/people/{name}", "getPerson"),
            (Method::GET, "/api/jobs/{id}/skipped-runs", "listJobSkippedRuns"),
            (Method::GET, "/api/jobs/{id}/versions/{version}/diff/{other}", "getJobVersionDiff"),
            (Method::GET, "/api/jobs/{id}/children", "listJobChildren"),
            (Method::GET, "/api/status", "getStatus"),
            (Method::POST, "/api/jobs/apply", "applyJobs"),
            (Method::POST, "/api/batches/{id}/kill", "killBatch"),
            (Method::POST, "/api/pull/templates", "definePullTemplate"),
            (Method::POST, "/api/job/submit", "submitJob"),
            (Method::PUT, "/api/freezes/{scope}", "putFreeze"),
            (Method::DELETE, "/api/dead-letters/{id}", "deleteDeadLetter"),
        ] {
            assert_eq!(operation_id(&method, path), id, "{method} {path}");
        }
    }
}
