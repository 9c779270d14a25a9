//! Which parents' times a batch needs (DEP-3).

use expect_test::{Expect, expect};
use tidemill_calendar::{
    Mapping, MappingError, Period, Quantifier, Schedule, check_mapping, parent_times, same_grid,
};

use crate::{at, cron, every, local};

fn back(periods: u16) -> Mapping {
    Mapping::Offset(periods)
}

/// The needed times on the parent's clock, shortened to first, last and count when there are many.
fn check(child: &Schedule, parent: &Schedule, mapping: Mapping, logical: &str, expected: Expect) {
    let text = match parent_times(child, parent, mapping, at(logical)) {
        Ok(required) => {
            let times: Vec<_> = required.times.iter().map(|time| local(&parent.zone, *time)).collect();
            match &times[..] {
                [first, .., last] => {
                    format!("{:?} of {}: {first} .. {last}", required.quantifier, times.len())
                }
                _ => format!("{:?} of {}: {}", required.quantifier, times.len(), times.join("")),
            }
        }
        Err(error) => error.to_string(),
    };
    expected.assert_eq(&text);
}

/// DEP-3: *all* of a day is its hours, 24, 23 or 25 of them.
#[test]
fn all_hours_of_a_day_are_23_24_or_25() {
    let (day, hour) = (every(Period::Day, "Europe/Berlin"), every(Period::Hour, "Europe/Berlin"));
    check(
        &day,
        &hour,
        Mapping::All,
        "2025-06-01T22:00:00Z",
        expect!["All of 24: Sun 2025-06-01T01:00:00+02:00 .. Mon 2025-06-02T00:00:00+02:00"],
    );
    check(
        &day,
        &hour,
        Mapping::All,
        "2025-03-30T22:00:00Z",
        expect!["All of 23: Sun 2025-03-30T01:00:00+01:00 .. Mon 2025-03-31T00:00:00+02:00"],
    );
    check(
        &day,
        &hour,
        Mapping::All,
        "2025-10-26T23:00:00Z",
        expect!["All of 25: Sun 2025-10-26T01:00:00+02:00 .. Mon 2025-10-27T00:00:00+01:00"],
    );
    check(
        &day,
        &hour,
        Mapping::Any,
        "2025-10-26T23:00:00Z",
        expect!["AnyOf of 25: Sun 2025-10-26T01:00:00+02:00 .. Mon 2025-10-27T00:00:00+01:00"],
    );
}

/// DEP-3: successive intervals of *all* join without a hole and without a repeat.
#[test]
fn intervals_of_all_partition_the_parents_times() {
    let (day, hour) = (every(Period::Day, "America/Sao_Paulo"), every(Period::Hour, "Asia/Kolkata"));
    let (from, until) = (at("2018-10-01T03:00:00Z"), at("2019-03-31T03:00:00Z"));
    let days = std::iter::successors(Some(from), |time| day.logical_after(*time));
    let joined: Vec<_> = days
        .skip(1)
        .take_while(|time| *time <= until)
        .flat_map(|time| parent_times(&day, &hour, Mapping::All, time).unwrap().times)
        .collect();
    let hours: Vec<_> = std::iter::successors(hour.logical_after(from), |time| hour.logical_after(*time))
        .take_while(|time| *time <= until)
        .collect();
    assert_eq!(joined, hours);
}

/// DEP-3: *offset* counts the parent's periods, across gaps, and months of any length.
#[test]
fn offsets_count_the_parents_periods() {
    let day = every(Period::Day, "Europe/Berlin");
    check(&day, &day, back(1), "2025-03-30T22:00:00Z", expect!["All of 1: Sun 2025-03-30T00:00:00+01:00"]);
    check(&day, &day, back(7), "2025-03-30T22:00:00Z", expect!["All of 1: Mon 2025-03-24T00:00:00+01:00"]);
    let month = every(Period::Month, "Europe/Berlin");
    check(
        &month,
        &month,
        back(1),
        "2024-02-29T23:00:00Z",
        expect!["All of 1: Thu 2024-02-01T00:00:00+01:00"],
    );
    let weekdays = cron("0 0 6 ? * MON-FRI", "Europe/Berlin");
    check(
        &day,
        &weekdays,
        back(1),
        "2025-06-07T22:00:00Z",
        expect!["All of 1: Thu 2025-06-05T06:00:00+02:00"],
    );
    let hour = every(Period::Hour, "Europe/Berlin");
    check(&hour, &hour, back(1), "2025-10-26T01:00:00Z", expect!["All of 1: Sun 2025-10-26T02:00:00+02:00"]);
    let past = cron("0 0 0 1 1 ? 2024-2025", "UTC");
    check(
        &past,
        &past,
        back(2),
        "2025-01-01T00:00:00Z",
        expect![
            "mapping 'offset 2': cron '0 0 0 1 1 ? 2024-2025' in UTC has no logical time before 2024-01-01T00:00:00.000Z"
        ],
    );
}

/// DEP-3: *latest* is the newest of the parent's that is not after mine.
#[test]
fn latest_is_never_after_the_child() {
    let (day, hour) = (every(Period::Day, "UTC"), every(Period::Hour, "UTC"));
    check(
        &hour,
        &day,
        Mapping::Latest,
        "2025-06-01T13:00:00Z",
        expect!["All of 1: Sun 2025-06-01T00:00:00+00:00"],
    );
    check(
        &hour,
        &day,
        Mapping::Latest,
        "2025-06-01T00:00:00Z",
        expect!["All of 1: Sun 2025-06-01T00:00:00+00:00"],
    );
    let noon = cron("0 0 12 * * ?", "UTC");
    check(
        &day,
        &noon,
        Mapping::Latest,
        "2025-06-02T00:00:00Z",
        expect!["All of 1: Sun 2025-06-01T12:00:00+00:00"],
    );
}

/// DEP-3: *same* needs equal grids; writing and zone aliases do not matter, what fires does.
#[test]
fn same_needs_equal_grids() {
    let (day, hour) = (every(Period::Day, "UTC"), every(Period::Hour, "UTC"));
    check(
        &day,
        &day,
        Mapping::Same,
        "2025-06-01T00:00:00Z",
        expect!["All of 1: Sun 2025-06-01T00:00:00+00:00"],
    );
    check(
        &day,
        &hour,
        Mapping::Same,
        "2025-06-01T00:00:00Z",
        expect![
            "mapping 'same': the child's schedule (every day in UTC) and the parent's (every hour in UTC) differ; give both the same rule and zone, or choose offset, all, latest or any"
        ],
    );
    assert!(same_grid(&day, &every(Period::Day, "Etc/UTC")));
    assert!(same_grid(&every(Period::Day, "Asia/Calcutta"), &every(Period::Day, "Asia/Kolkata")));
    assert!(!same_grid(&day, &every(Period::Day, "Europe/London")));
    assert!(!same_grid(&every(Period::Day, "America/Sao_Paulo"), &every(Period::Day, "Etc/GMT+3")));
    assert!(same_grid(&cron("0 0 23 * * ?", "UTC"), &cron("0  0 23 ? 1-12 SUN-SAT *", "UTC")));
    assert!(!same_grid(&cron("0 0 23 * * ?", "UTC"), &cron("0 0 22 * * ?", "UTC")));
    assert!(!same_grid(&cron("0 0 0 * * ?", "UTC"), &day));
    let differing = check_mapping(&day, &hour, Mapping::Same).unwrap_err();
    assert!(matches!(differing, MappingError::DifferentGrids { .. }), "{differing}");
    check_mapping(&day, &day, Mapping::Same).unwrap();
}

/// DEP-3: more than 1,000 times are refused when the dependency is defined, and 1,000 are not.
#[test]
fn too_many_times_are_refused_at_definition() {
    let (month, day) = (every(Period::Month, "UTC"), every(Period::Day, "UTC"));
    let minutely = cron("0 * * * * ?", "UTC");
    for mapping in [Mapping::All, Mapping::Any] {
        let error = check_mapping(&day, &minutely, mapping).unwrap_err();
        assert!(matches!(error, MappingError::TooManyTimes { .. }), "{error}");
        check_mapping(&month, &every(Period::Hour, "UTC"), mapping).unwrap();
    }
    check_mapping(&day, &minutely, Mapping::Latest).unwrap();
    check_mapping(&day, &minutely, back(1_000)).unwrap();
    let thousand = cron("0-49 0-19 5 * * ?", "UTC");
    let required = parent_times(&day, &thousand, Mapping::All, at("2025-06-02T00:00:00Z")).unwrap();
    assert_eq!(required.times.len(), 1_000);
    let one_more = cron("0-10 0-12 0-6 * * ?", "UTC");
    let error = parent_times(&day, &one_more, Mapping::All, at("2025-06-03T00:00:00Z")).unwrap_err();
    assert!(error.to_string().starts_with("mapping 'all': more than 1000"), "{error}");
}

/// DEP-3: an interval without a time of the parent is nothing to wait for, or never to be had.
#[test]
fn empty_intervals_tell_all_from_any() {
    let (hour, day) = (every(Period::Hour, "UTC"), every(Period::Day, "UTC"));
    let all = parent_times(&hour, &day, Mapping::All, at("2025-06-01T13:00:00Z")).unwrap();
    assert_eq!((all.times.len(), all.quantifier, all.is_impossible()), (0, Quantifier::All, false));
    let any = parent_times(&hour, &day, Mapping::Any, at("2025-06-01T13:00:00Z")).unwrap();
    assert!(any.is_impossible());
    let midnight = parent_times(&hour, &day, Mapping::Any, at("2025-06-01T00:00:00Z")).unwrap();
    assert_eq!(midnight.times, [at("2025-06-01T00:00:00Z")]);
    assert!(!midnight.is_impossible());
}
