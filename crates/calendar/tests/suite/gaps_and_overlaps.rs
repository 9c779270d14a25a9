//! Tables of what fires around gaps and overlaps.

use expect_test::{Expect, expect};
use tidemill_calendar::{Period, Schedule, has_dst};

use crate::{at, cron, every, table, zone};

fn check(schedule: &Schedule, after: &str, n: usize, expected: Expect) {
    expected.assert_eq(&table(schedule, schedule.preview(at(after), n)));
}

/// JOB-3: the logical time is the period's start, the base time 1, 1, 2 and 5 minutes later.
#[test]
fn periods_are_due_at_their_base_times() {
    let berlin = |period| every(period, "Europe/Berlin");
    check(
        &berlin(Period::Hour),
        "2025-06-30T12:01:00Z",
        2,
        expect![[r#"
        Mon 2025-06-30T15:00:00+02:00 +60s
        Mon 2025-06-30T16:00:00+02:00 +60s
    "#]],
    );
    check(
        &berlin(Period::Hour),
        "2025-06-30T12:00:59.999Z",
        1,
        expect![[r#"
        Mon 2025-06-30T14:00:00+02:00 +60s
    "#]],
    );
    check(
        &berlin(Period::Day),
        "2025-12-30T12:00:00Z",
        3,
        expect![[r#"
        Wed 2025-12-31T00:00:00+01:00 +60s
        Thu 2026-01-01T00:00:00+01:00 +60s
        Fri 2026-01-02T00:00:00+01:00 +60s
    "#]],
    );
    check(
        &berlin(Period::Week),
        "2024-12-20T12:00:00Z",
        3,
        expect![[r#"
        Mon 2024-12-23T00:00:00+01:00 +120s
        Mon 2024-12-30T00:00:00+01:00 +120s
        Mon 2025-01-06T00:00:00+01:00 +120s
    "#]],
    );
    check(
        &berlin(Period::Month),
        "2024-01-31T12:00:00Z",
        4,
        expect![[r#"
        Thu 2024-02-01T00:00:00+01:00 +300s
        Fri 2024-03-01T00:00:00+01:00 +300s
        Mon 2024-04-01T00:00:00+02:00 +300s
        Wed 2024-05-01T00:00:00+02:00 +300s
    "#]],
    );
}

/// JOB-3: an hour that the clock leaves out has no batch.
#[test]
fn hours_skip_a_gap() {
    check(
        &every(Period::Hour, "Europe/Berlin"),
        "2025-03-29T23:30:00Z",
        3,
        expect![[r#"
        Sun 2025-03-30T01:00:00+01:00 +60s
        Sun 2025-03-30T03:00:00+02:00 +60s
        Sun 2025-03-30T04:00:00+02:00 +60s
    "#]],
    );
}

/// JOB-3: the two hours of an overlap are two batches.
#[test]
fn hours_of_an_overlap_are_two() {
    check(
        &every(Period::Hour, "America/New_York"),
        "2025-11-02T04:30:00Z",
        3,
        expect![[r#"
        Sun 2025-11-02T01:00:00-04:00 +60s
        Sun 2025-11-02T01:00:00-05:00 +60s
        Sun 2025-11-02T02:00:00-05:00 +60s
    "#]],
    );
    // Two hours back at once.
    check(
        &every(Period::Hour, "Antarctica/Troll"),
        "2025-10-25T22:30:00Z",
        5,
        expect![[r#"
        Sun 2025-10-26T01:00:00+02:00 +60s
        Sun 2025-10-26T02:00:00+02:00 +60s
        Sun 2025-10-26T01:00:00+00:00 +60s
        Sun 2025-10-26T02:00:00+00:00 +60s
        Sun 2025-10-26T03:00:00+00:00 +60s
    "#]],
    );
}

/// JOB-3: a shift of half an hour makes one short and one long hour, and neither loses nor doubles one.
#[test]
fn hours_follow_a_half_hour_shift() {
    check(
        &every(Period::Hour, "Australia/Lord_Howe"),
        "2025-10-04T14:00:00Z",
        4,
        expect![[r#"
        Sun 2025-10-05T01:00:00+10:30 +60s
        Sun 2025-10-05T02:30:00+11:00 +60s
        Sun 2025-10-05T03:00:00+11:00 +60s
        Sun 2025-10-05T04:00:00+11:00 +60s
    "#]],
    );
    check(
        &every(Period::Hour, "Australia/Lord_Howe"),
        "2025-04-05T13:30:00Z",
        3,
        expect![[r#"
        Sun 2025-04-06T01:00:00+11:00 +60s
        Sun 2025-04-06T02:00:00+10:30 +60s
        Sun 2025-04-06T03:00:00+10:30 +60s
    "#]],
    );
}

/// JOB-3: hours begin on the local clock where the offset is not a whole number of hours.
#[test]
fn hours_follow_offsets_of_minutes() {
    check(
        &every(Period::Hour, "Asia/Kolkata"),
        "2025-06-01T00:00:00Z",
        2,
        expect![[r#"
        Sun 2025-06-01T06:00:00+05:30 +60s
        Sun 2025-06-01T07:00:00+05:30 +60s
    "#]],
    );
    check(
        &every(Period::Hour, "Asia/Kathmandu"),
        "2025-06-01T00:00:00Z",
        2,
        expect![[r#"
        Sun 2025-06-01T06:00:00+05:45 +60s
        Sun 2025-06-01T07:00:00+05:45 +60s
    "#]],
    );
}

/// JOB-3: where midnight is left out, the day begins right after the gap.
#[test]
fn a_day_without_midnight_begins_after_the_gap() {
    check(
        &every(Period::Day, "America/Sao_Paulo"),
        "2018-11-03T12:00:00Z",
        2,
        expect![[r#"
        Sun 2018-11-04T01:00:00-02:00 +60s
        Mon 2018-11-05T00:00:00-02:00 +60s
    "#]],
    );
    check(
        &every(Period::Day, "Asia/Beirut"),
        "2025-03-29T12:00:00Z",
        2,
        expect![[r#"
        Sun 2025-03-30T01:00:00+03:00 +60s
        Mon 2025-03-31T00:00:00+03:00 +60s
    "#]],
    );
    check(
        &every(Period::Day, "Africa/Cairo"),
        "2025-04-24T12:00:00Z",
        2,
        expect![[r#"
        Fri 2025-04-25T01:00:00+03:00 +60s
        Sat 2025-04-26T00:00:00+03:00 +60s
    "#]],
    );
}

/// JOB-3: a day whose midnight comes twice begins once, at the first.
#[test]
fn a_day_with_two_midnights_begins_once() {
    check(
        &every(Period::Day, "Atlantic/Azores"),
        "2025-10-25T12:00:00Z",
        2,
        expect![[r#"
        Sun 2025-10-26T00:00:00+00:00 +60s
        Mon 2025-10-27T00:00:00-01:00 +60s
    "#]],
    );
    check(
        &every(Period::Hour, "Atlantic/Azores"),
        "2025-10-25T23:30:00Z",
        3,
        expect![[r#"
        Sun 2025-10-26T00:00:00+00:00 +60s
        Sun 2025-10-26T00:00:00-01:00 +60s
        Sun 2025-10-26T01:00:00-01:00 +60s
    "#]],
    );
    // At 00:01 back to 23:01: a minute of the new day, 59 of the old one again, then the new day once more.
    check(
        &every(Period::Day, "America/St_Johns"),
        "2010-11-06T12:00:00Z",
        2,
        expect![[r#"
        Sun 2010-11-07T00:00:00-02:30 +60s
        Mon 2010-11-08T00:00:00-03:30 +60s
    "#]],
    );
    check(
        &every(Period::Hour, "America/St_Johns"),
        "2010-11-07T01:15:00Z",
        5,
        expect![[r#"
        Sat 2010-11-06T23:00:00-02:30 +60s
        Sun 2010-11-07T00:00:00-02:30 +60s
        Sat 2010-11-06T23:01:00-03:30 +60s
        Sun 2010-11-07T00:00:00-03:30 +60s
        Sun 2010-11-07T01:00:00-03:30 +60s
    "#]],
    );
}

/// JOB-3: Samoa left out 30 December 2011; no batch is made for it, and none is lost beside it.
#[test]
fn a_skipped_day_has_no_batch() {
    check(
        &every(Period::Day, "Pacific/Apia"),
        "2011-12-29T00:00:00Z",
        3,
        expect![[r#"
        Thu 2011-12-29T00:00:00-10:00 +60s
        Sat 2011-12-31T00:00:00+14:00 +60s
        Sun 2012-01-01T00:00:00+14:00 +60s
    "#]],
    );
    // Its fixed time is made up for right after the gap.
    check(
        &cron("0 0 12 * * ?", "Pacific/Apia"),
        "2011-12-29T00:00:00Z",
        4,
        expect![[r#"
        Thu 2011-12-29T12:00:00-10:00
        Sat 2011-12-31T00:00:00+14:00
        Sat 2011-12-31T12:00:00+14:00
        Sun 2012-01-01T12:00:00+14:00
    "#]],
    );
    check(
        &cron("0 0 */12 * * ?", "Pacific/Apia"),
        "2011-12-29T00:00:00Z",
        4,
        expect![[r#"
        Thu 2011-12-29T00:00:00-10:00
        Thu 2011-12-29T12:00:00-10:00
        Sat 2011-12-31T00:00:00+14:00
        Sat 2011-12-31T12:00:00+14:00
    "#]],
    );
}

/// JOB-3: fixed times in a gap fire once, right after it.
#[test]
fn fixed_times_in_a_gap_fire_right_after_it() {
    check(
        &cron("0 30 2 * * ?", "Europe/Berlin"),
        "2025-03-29T00:00:00Z",
        3,
        expect![[r#"
        Sat 2025-03-29T02:30:00+01:00
        Sun 2025-03-30T03:00:00+02:00
        Mon 2025-03-31T02:30:00+02:00
    "#]],
    );
    check(
        &cron("0 0,15,30 2,3 * * ?", "Europe/Berlin"),
        "2025-03-30T00:00:00Z",
        4,
        expect![[r#"
        Sun 2025-03-30T03:00:00+02:00
        Sun 2025-03-30T03:15:00+02:00
        Sun 2025-03-30T03:30:00+02:00
        Mon 2025-03-31T02:00:00+02:00
    "#]],
    );
    check(
        &cron("0 10 2 * * ?", "Australia/Lord_Howe"),
        "2025-10-04T12:00:00Z",
        2,
        expect![[r#"
        Sun 2025-10-05T02:30:00+11:00
        Mon 2025-10-06T02:10:00+11:00
    "#]],
    );
    check(
        &cron("0 0 0 * * ?", "Africa/Cairo"),
        "2025-04-24T12:00:00Z",
        2,
        expect![[r#"
        Fri 2025-04-25T01:00:00+03:00
        Sat 2025-04-26T00:00:00+03:00
    "#]],
    );
}

/// JOB-3: fixed times in an overlap fire in its first pass only.
#[test]
fn fixed_times_in_an_overlap_fire_once() {
    check(
        &cron("0 30 2 * * ?", "Europe/Berlin"),
        "2025-10-25T12:00:00Z",
        2,
        expect![[r#"
        Sun 2025-10-26T02:30:00+02:00
        Mon 2025-10-27T02:30:00+01:00
    "#]],
    );
    check(
        &cron("0 0,45 1,2 * * ?", "Australia/Lord_Howe"),
        "2025-04-05T12:00:00Z",
        4,
        expect![[r#"
        Sun 2025-04-06T01:00:00+11:00
        Sun 2025-04-06T01:45:00+11:00
        Sun 2025-04-06T02:00:00+10:30
        Sun 2025-04-06T02:45:00+10:30
    "#]],
    );
    check(
        &cron("0 30 23 * * ?", "Asia/Beirut"),
        "2025-10-25T12:00:00Z",
        2,
        expect![[r#"
        Sat 2025-10-25T23:30:00+03:00
        Sun 2025-10-26T23:30:00+02:00
    "#]],
    );
}

/// JOB-3: with `*` or a step in hour or minute, what the clock shows fires, twice or not at all.
#[test]
fn intervals_follow_elapsed_time() {
    check(
        &cron("0 0/30 * * * ?", "Europe/Berlin"),
        "2025-03-30T00:15:00Z",
        3,
        expect![[r#"
        Sun 2025-03-30T01:30:00+01:00
        Sun 2025-03-30T03:00:00+02:00
        Sun 2025-03-30T03:30:00+02:00
    "#]],
    );
    check(
        &cron("0 30 * * * ?", "Europe/Berlin"),
        "2025-10-26T00:00:00Z",
        3,
        expect![[r#"
        Sun 2025-10-26T02:30:00+02:00
        Sun 2025-10-26T02:30:00+01:00
        Sun 2025-10-26T03:30:00+01:00
    "#]],
    );
    check(
        &cron("0 */20 2 * * ?", "Europe/Berlin"),
        "2025-10-25T22:00:00Z",
        6,
        expect![[r#"
        Sun 2025-10-26T02:00:00+02:00
        Sun 2025-10-26T02:20:00+02:00
        Sun 2025-10-26T02:40:00+02:00
        Sun 2025-10-26T02:00:00+01:00
        Sun 2025-10-26T02:20:00+01:00
        Sun 2025-10-26T02:40:00+01:00
    "#]],
    );
    check(
        &cron("0 */20 2 * * ?", "Europe/Berlin"),
        "2025-03-29T22:00:00Z",
        1,
        expect![[r#"
        Mon 2025-03-31T02:00:00+02:00
    "#]],
    );
}

/// JOB-3: what the warning of `apply` asks.
#[test]
fn dst_is_seen_where_the_offset_changes_within_a_year() {
    let now = at("2025-06-01T00:00:00Z");
    for name in ["Europe/Berlin", "Australia/Lord_Howe", "Africa/Casablanca", "Africa/Cairo"] {
        assert!(has_dst(&zone(name), now), "{name}");
    }
    for name in ["UTC", "Asia/Kolkata", "America/Sao_Paulo", "Etc/GMT+5"] {
        assert!(!has_dst(&zone(name), now), "{name}");
    }
    assert!(has_dst(&zone("America/Sao_Paulo"), at("2018-06-01T00:00:00Z")));
}

/// BYD-1: the span's ends are after-exclusive and until-inclusive, and a preview is what fires.
#[test]
fn fires_between_ends_at_its_bounds() {
    let hourly = every(Period::Hour, "UTC");
    let fires: Vec<_> =
        hourly.fires_between(at("2025-01-01T00:01:00Z"), at("2025-01-01T03:01:00Z")).collect();
    assert_eq!(fires, hourly.preview(at("2025-01-01T00:01:00Z"), 3));
    assert_eq!(fires.last().unwrap().at, at("2025-01-01T03:01:00Z"));
    let just_short = hourly.fires_between(at("2025-01-01T00:01:00Z"), at("2025-01-01T03:00:59.999Z"));
    assert_eq!(just_short.count(), 2);
}

/// GEN-9: a manual run takes the current period's start.
#[test]
fn period_start_is_the_newest_logical_time() {
    let day = every(Period::Day, "America/New_York");
    assert_eq!(day.period_start(at("2025-11-03T04:59:59Z")), Some(at("2025-11-02T04:00:00Z")));
    assert_eq!(day.period_start(at("2025-11-03T05:00:00Z")), Some(at("2025-11-03T05:00:00Z")));
    assert_eq!(day.logical_before(at("2025-11-03T05:00:00Z")), Some(at("2025-11-02T04:00:00Z")));
    let late = cron("0 0 23 * * ?", "UTC");
    assert_eq!(late.period_start(at("2025-11-03T22:59:59.5Z")), Some(at("2025-11-02T23:00:00Z")));
    let leap = cron("0 0 0 29 2 ?", "Europe/Berlin");
    assert_eq!(leap.logical_before(at("2024-02-28T23:00:00Z")), Some(at("2020-02-28T23:00:00Z")));
    let over = cron("0 0 0 1 1 ? 2020", "UTC");
    assert_eq!(over.next_after(at("2025-01-01T00:00:00Z")), None);
    assert_eq!(over.logical_at_or_before(at("2025-01-01T00:00:00Z")), Some(at("2020-01-01T00:00:00Z")));
    assert_eq!(over.logical_before(at("2020-01-01T00:00:00Z")), None);
}

/// JOB-3: what can fire more than once on a day is told from what cannot.
#[test]
fn sub_daily_is_more_than_once_a_day() {
    assert!(every(Period::Hour, "UTC").is_sub_daily());
    assert!(!every(Period::Day, "UTC").is_sub_daily());
    assert!(cron("0 0 6,18 * * ?", "UTC").is_sub_daily());
    assert!(!cron("0 0 23 * * ?", "UTC").is_sub_daily());
}
