//! What pull workers did, against the ledger (API-8, PUL-5, PUL-7, PUL-13).
//!
//! What is promised, and judged here:
//!
//! - *In the ledger a task is completed exactly once*: every one that is on record, and every one that was acknowledged is on record.
//! - *The work itself is done at least once*, and again only where the ledger says that the grant before was over (its lease ran out, or
//!   it was given back) before the next one was given. So nothing is done by two workers of whom both believe to have it by right: the
//!   first one was told until when. One that goes on beyond that is refused, and the ledger has the other one's result.
//! - *A grant is done once by its worker*; again only where it said that it failed.
//! - *A completion of what is over is refused*, and its worker is told so.
//!
//! It compares the clocks of workers and owners: all of them are one machine's.

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};

use crate::book::{Book, End, Grant};

pub(crate) const ONCE: &str = "pull_task_is_completed_exactly_once";
pub(crate) const AGAIN: &str = "pull_task_is_done_again_only_once_its_grant_is_over";
pub(crate) const REFUSED: &str = "completion_of_a_grant_that_is_over_is_refused";
/// Of each rule so many violations are told one by one.
const TOLD: usize = 20;

/// A step of a worker.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Word {
    Begun,
    Done,
    Failed,
}

/// A line of the witness.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Step {
    pub(crate) task: i64,
    pub(crate) grant: i64,
    pub(crate) user: String,
    pub(crate) at_ms: i64,
    pub(crate) word: Word,
}

impl Step {
    /// # Errors
    /// A line of another form, which is the line.
    pub(crate) fn parse(line: &str) -> Result<Self, String> {
        let fields: Vec<_> = line.split(' ').collect();
        let &[task, grant, user, at_ms, word] = fields.as_slice() else { return Err(line.to_owned()) };
        let number = |text: &str| text.parse::<i64>().map_err(|_| line.to_owned());
        let word = match word {
            "begun" => Word::Begun,
            "done" => Word::Done,
            "failed" => Word::Failed,
            _ => return Err(line.to_owned()),
        };
        let (task, grant, at_ms) = (number(task)?, number(grant)?, number(at_ms)?);
        Ok(Self { task, grant, user: user.to_owned(), at_ms, word })
    }
}

/// What workers say that they have done, as `work` of the client counts it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Counts {
    /// Completions that were accepted.
    pub completed: u64,
    /// Tasks that failed and were given back.
    pub failed: u64,
    /// Completions that were refused, because the grant was over.
    pub late: u64,
    /// Tasks that were given back because the worker stopped.
    pub returned: u64,
}

/// What all of it comes to.
pub(crate) struct Judged {
    /// By rule.
    pub(crate) wrong: Vec<String>,
    /// Doings of tasks that somebody had begun before.
    pub(crate) again: u64,
}

/// Judges. `counts` are those of all workers together; none: they did not end in good order, which is told elsewhere.
pub(crate) fn judge(
    book: &Book,
    steps: &[Step],
    acknowledged: &BTreeSet<i64>,
    counts: Option<Counts>,
) -> Judged {
    let mut wrong: BTreeMap<&str, Vec<String>> = BTreeMap::new();
    let mut say = |rule, what: String| wrong.entry(rule).or_default().push(what);
    for task in acknowledged.difference(&book.tasks) {
        say(ONCE, format!("task {task} was acknowledged, and is not on record"));
    }
    for task in &book.tasks {
        match book.completions(*task) {
            1 => {}
            0 => say(ONCE, format!("task {task} is lost: {}", history(book, *task))),
            count => say(ONCE, format!("task {task} is completed {count} times: {}", history(book, *task))),
        }
    }
    book.too_early.iter().for_each(|what| say(AGAIN, what.clone()));
    book.too_late.iter().for_each(|what| say(REFUSED, what.clone()));

    let mut by_grant: BTreeMap<i64, Vec<&Step>> = BTreeMap::new();
    for step in steps {
        by_grant.entry(step.grant).or_default().push(step);
    }
    for (number, steps) in &by_grant {
        match book.grants.get(number) {
            None => say(AGAIN, format!("grant {number} is on no record, and {steps:?}")),
            Some(grant) => beside(*number, grant, steps).into_iter().for_each(|what| say(AGAIN, what)),
        }
    }
    for (number, grant) in &book.grants {
        let End::Completed(result) = &grant.end else { continue };
        let is_done = by_grant.get(number).is_some_and(|steps| steps.iter().any(|it| it.word == Word::Done));
        if !is_done || *result != self::result(grant.task, *number) {
            say(
                ONCE,
                format!(
                    "grant {number} of task {} is completed with {result:?}; done: {is_done}",
                    grant.task
                ),
            );
        }
    }
    let unlike = counts.and_then(|counts| counted(book, &by_grant, counts));
    unlike.into_iter().for_each(|what| say(REFUSED, what));
    let tasks: BTreeSet<_> = by_grant.values().filter_map(|steps| steps.first()).map(|it| it.task).collect();
    let begun = steps.iter().filter(|step| step.word == Word::Begun).count();
    let told = |(rule, mut all): (&str, Vec<String>)| {
        let more = all.len().saturating_sub(TOLD);
        all.truncate(TOLD);
        all.extend((more > 0).then(|| format!("and {more} more")));
        all.into_iter().map(move |what| format!("{rule}: {what}")).collect::<Vec<_>>()
    };
    Judged {
        wrong: wrong.into_iter().flat_map(told).collect(),
        again: begun.saturating_sub(tasks.len()) as u64,
    }
}

/// What a worker says of a task that it has done.
fn result(task: i64, grant: i64) -> String {
    format!("task {task} by grant {grant}")
}

/// The grants of a task, for whoever looks into a failure.
fn history(book: &Book, task: i64) -> String {
    let grants = book.by_task.get(&task).into_iter().flatten();
    let told: Vec<_> = grants.map(|number| format!("grant {number} {:?}", book.grants[number])).collect();
    if told.is_empty() { "nobody was given it".to_owned() } else { told.join(", ") }
}

/// The steps of one grant, which must be those of its user, from its time on, and each end of a doing before the next begins.
fn beside(number: i64, grant: &Grant, steps: &[&Step]) -> Option<String> {
    let is_whose = |step: &&&Step| step.task == grant.task && step.user == grant.user;
    if steps.iter().filter(is_whose).count() < steps.len() {
        return Some(format!("grant {number} is on record as {grant:?}, and {steps:?}"));
    }
    if let Some(early) = steps.iter().find(|step| step.at_ms < grant.at_ms) {
        return Some(format!("grant {number} was given at {} ms, and before that {early:?}", grant.at_ms));
    }
    let words: Vec<_> = steps.iter().map(|step| step.word).collect();
    let last = words.chunks(2).next_back().unwrap_or_default();
    let before = &words[..words.len() - last.len()];
    let have_failed = before.chunks(2).all(|doing| doing == [Word::Begun, Word::Failed]);
    let is_one = matches!(last, [Word::Begun] | [Word::Begun, Word::Done | Word::Failed]);
    (!have_failed || !is_one).then(|| format!("grant {number} was done as {steps:?}"))
}

/// What workers were told, against the ledger: nobody believes that something counts that does not, or the other way round.
fn counted(book: &Book, by_grant: &BTreeMap<i64, Vec<&Step>>, counts: Counts) -> Option<String> {
    let completed = book.ended(|end| matches!(end, End::Completed(_)));
    let has = |steps: &[&Step], word| steps.iter().filter(|step| step.word == word).count() as u64;
    let is_over = |number: &i64| {
        book.grants.get(number).is_some_and(|it| matches!(it.end, End::Expired | End::Returned))
    };
    let late =
        by_grant.iter().filter(|(number, steps)| has(steps, Word::Done) > 0 && is_over(number)).count();
    let failed: u64 = by_grant.values().map(|steps| has(steps, Word::Failed)).sum();
    // What is given back at the end may be so without an answer.
    let found = Counts { completed, failed, late: late as u64, ..counts };
    let text = format!("by ledger and witness workers were to be told {found:?}, and were told {counts:?}");
    (found != counts).then_some(text)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::journal::{Entry, What};
    use serde_json::{Value, json};

    const USERS: u64 = 2;

    fn created(task: i64) -> Value {
        json!({"created": {"task": task, "spec": {
            "executor": {"group": "gamma"}, "when": {"once": {"start": "2026-01-01T00:00:00Z"}},
        }}})
    }

    fn of(kind: &str, (grant, task, user): (i64, i64, u64), more: &Value) -> Value {
        let mut fields = json!({
            "grant": grant, "task": task, "start": "2026-01-01T00:00:00Z", "user": format!("python-{user}"),
        });
        fields.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        json!({kind: fields})
    }

    fn granted(it: (i64, i64, u64)) -> Value {
        of("granted", it, &json!({"version": 1}))
    }

    fn completed(it: (i64, i64, u64)) -> Value {
        of("completed", it, &json!({"result": result(it.1, it.0)}))
    }

    fn expired(it: (i64, i64, u64)) -> Value {
        of("expired", it, &json!({}))
    }

    /// Each event at its own second.
    fn book(events: &[Value]) -> Book {
        let entry = |(second, event): (usize, &Value)| {
            let event = match event.get("expired") {
                Some(fields) => json!({"task": {"grant_expired": fields}}),
                None => json!({"task": event}),
            };
            let envelope = json!({
                "now": format!("2026-01-01T00:00:{second:02}Z"), "events": [{"shard": 1, "event": event}], "causes": [],
            });
            let what = What::Envelope(serde_json::from_value(envelope).unwrap());
            Entry { partition: 1, offset: second as u64, at_ms: 0, what }
        };
        let entries: Vec<_> = events.iter().enumerate().map(entry).collect();
        Book::of(&entries, USERS)
    }

    /// In the second of the year.
    fn step(second: i64, (grant, task, user): (i64, i64, u64), word: Word) -> Step {
        let at_ms = 1_767_225_600_000 + second * 1_000;
        Step { task, grant, user: format!("python-{user}"), at_ms, word }
    }

    fn rules(book: &Book, steps: &[Step], counts: Option<Counts>) -> Vec<String> {
        let wrong = judge(book, steps, &BTreeSet::from([1]), counts).wrong;
        wrong.iter().map(|it| it.split(':').next().unwrap().to_owned()).collect()
    }

    const FIRST: (i64, i64, u64) = (10, 1, 0);
    const SECOND: (i64, i64, u64) = (11, 1, 1);

    fn counts(completed: u64, late: u64) -> Option<Counts> {
        Some(Counts { completed, late, ..Counts::default() })
    }

    /// API-8
    #[test]
    fn a_task_that_is_done_once_is_in_order() {
        let book = book(&[created(1), granted(FIRST), completed(FIRST)]);
        let steps = [step(1, FIRST, Word::Begun), step(2, FIRST, Word::Done)];
        assert_eq!(rules(&book, &steps, counts(1, 0)), Vec::<String>::new());
    }

    /// API-8, PUL-13: work is repeated only behind the end of a lease, and only one result counts.
    #[test]
    fn a_task_whose_lease_ran_out_is_done_again_and_the_first_result_is_refused() {
        let book = book(&[created(1), granted(FIRST), expired(FIRST), granted(SECOND), completed(SECOND)]);
        let steps = [
            step(1, FIRST, Word::Begun),
            step(3, SECOND, Word::Begun),
            step(4, FIRST, Word::Done),
            step(4, SECOND, Word::Done),
        ];
        let judged = judge(&book, &steps, &BTreeSet::from([1]), counts(1, 1));
        assert_eq!((judged.wrong, judged.again), (Vec::new(), 1));
        // Who was late must have been told so.
        assert_eq!(rules(&book, &steps, counts(2, 0)), [REFUSED]);
    }

    /// API-8: the planted history: two workers have one task, by right as each was told, and both complete it.
    #[test]
    fn a_task_that_is_done_twice_is_found() {
        let twice = [created(1), granted(FIRST), granted(SECOND), completed(FIRST), completed(SECOND)];
        let steps = [
            step(1, FIRST, Word::Begun),
            step(2, SECOND, Word::Begun),
            step(3, FIRST, Word::Done),
            step(4, SECOND, Word::Done),
        ];
        assert_eq!(rules(&book(&twice), &steps, counts(2, 0)), [ONCE, AGAIN].map(str::to_owned));
        // One after the other is no better.
        let after = [created(1), granted(FIRST), completed(FIRST), granted(SECOND), completed(SECOND)];
        let steps = [(FIRST, 1), (SECOND, 3)]
            .map(|(it, second)| [step(second, it, Word::Begun), step(second + 1, it, Word::Done)]);
        assert_eq!(rules(&book(&after), &steps.concat(), counts(2, 0)), [ONCE, AGAIN].map(str::to_owned));
        // The ledger is in order, and a worker does what it was given once more.
        let once = book(&[created(1), granted(FIRST), completed(FIRST)]);
        let again = [Word::Begun, Word::Done, Word::Begun, Word::Done].map(|word| step(3, FIRST, word));
        assert_eq!(rules(&once, &again, counts(1, 0)), [AGAIN]);
        let beside = [Word::Begun, Word::Begun, Word::Done].map(|word| step(3, FIRST, word));
        assert_eq!(rules(&once, &beside, counts(1, 0)), [AGAIN]);
        // Without a grant, before it, and by somebody else.
        for other in
            [step(3, SECOND, Word::Begun), step(0, FIRST, Word::Begun), step(3, (10, 1, 1), Word::Begun)]
        {
            let steps = [other, step(4, FIRST, Word::Begun), step(5, FIRST, Word::Done)];
            assert!(rules(&once, &steps, None).contains(&AGAIN.to_owned()), "{steps:?}");
        }
    }

    /// API-8: the planted history: a task that was acknowledged is given to nobody, or is given and never completed.
    #[test]
    fn a_task_that_is_lost_is_found() {
        assert_eq!(rules(&book(&[]), &[], counts(0, 0)), [ONCE]);
        assert_eq!(rules(&book(&[created(1)]), &[], counts(0, 0)), [ONCE]);
        let begun = [step(1, FIRST, Word::Begun)];
        assert_eq!(rules(&book(&[created(1), granted(FIRST)]), &begun, counts(0, 0)), [ONCE]);
        let over = book(&[created(1), granted(FIRST), expired(FIRST)]);
        assert_eq!(rules(&over, &begun, counts(0, 0)), [ONCE]);
        // Completed, and not done.
        let completed = book(&[created(1), granted(FIRST), completed(FIRST)]);
        assert_eq!(rules(&completed, &begun, counts(1, 0)), [ONCE]);
    }

    /// PUL-7: the planted history: a completion that comes behind the end of its grant counts.
    #[test]
    fn a_completion_of_what_is_over_is_found() {
        let events = [created(1), granted(FIRST), expired(FIRST), completed(FIRST)];
        let steps = [step(1, FIRST, Word::Begun), step(3, FIRST, Word::Done)];
        assert_eq!(rules(&book(&events), &steps, None), [REFUSED, ONCE].map(str::to_owned));
    }

    #[test]
    fn what_failed_is_done_again_by_its_grant_or_by_another() {
        let it = book(&[created(1), granted(FIRST), completed(FIRST)]);
        let words = [Word::Begun, Word::Failed, Word::Begun, Word::Done];
        let steps = words.map(|word| step(3, FIRST, word));
        let told = Some(Counts { completed: 1, failed: 1, ..Counts::default() });
        assert_eq!(rules(&it, &steps, told), Vec::<String>::new());
    }

    #[test]
    fn lines_of_another_form_are_no_steps() {
        assert_eq!(Step::parse("1 10 python-0 1767225603000 begun"), Ok(step(3, FIRST, Word::Begun)));
        for line in [
            "",
            "1 10 python-0 5",
            "1 10 python-0 5 begun more",
            "x 10 python-0 5 done",
            "1 10 python-0 5 end",
        ] {
            assert_eq!(Step::parse(line), Err(line.to_owned()));
        }
    }
}
