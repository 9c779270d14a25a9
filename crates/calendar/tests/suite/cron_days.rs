//! Which dates an expression names.

use expect_test::{Expect, expect};

use crate::{at, cron};

/// The dates of the next fires after `after`, in UTC.
fn check(expression: &str, after: &str, n: usize, expected: Expect) {
    let fires = cron(expression, "UTC").preview(at(after), n);
    let text: Vec<_> = fires.iter().map(|fire| fire.at.strftime("%a %F %T").to_string()).collect();
    expected.assert_eq(&text.join("\n"));
}

/// JOB-3: `L` is the month's last day, in leap years too; `L-n` counts back from it.
#[test]
fn last_days_of_months() {
    check(
        "0 0 0 L * ?",
        "2023-12-31T12:00:00Z",
        4,
        expect![[r#"
        Wed 2024-01-31 00:00:00
        Thu 2024-02-29 00:00:00
        Sun 2024-03-31 00:00:00
        Tue 2024-04-30 00:00:00"#]],
    );
    check(
        "0 0 0 L 2 ?",
        "2099-01-01T00:00:00Z",
        2,
        expect![[r#"
        Sat 2099-02-28 00:00:00
        Sun 2100-02-28 00:00:00"#]],
    );
    check(
        "0 0 0 L-2 2,3 ?",
        "2025-01-01T00:00:00Z",
        2,
        expect![[r#"
        Wed 2025-02-26 00:00:00
        Sat 2025-03-29 00:00:00"#]],
    );
    check(
        "0 0 0 LW * ?",
        "2025-05-01T00:00:00Z",
        4,
        expect![[r#"
        Fri 2025-05-30 00:00:00
        Mon 2025-06-30 00:00:00
        Thu 2025-07-31 00:00:00
        Fri 2025-08-29 00:00:00"#]],
    );
}

/// JOB-3: `nW` is the nearest weekday inside the month.
#[test]
fn nearest_weekdays() {
    check(
        "0 0 0 1W * ?",
        "2025-01-15T00:00:00Z",
        4,
        expect![[r#"
        Mon 2025-02-03 00:00:00
        Mon 2025-03-03 00:00:00
        Tue 2025-04-01 00:00:00
        Thu 2025-05-01 00:00:00"#]],
    );
    check(
        "0 0 0 15W * ?",
        "2025-02-01T00:00:00Z",
        3,
        expect![[r#"
        Fri 2025-02-14 00:00:00
        Fri 2025-03-14 00:00:00
        Tue 2025-04-15 00:00:00"#]],
    );
    check(
        "0 0 0 31W * ?",
        "2025-05-01T00:00:00Z",
        2,
        expect![[r#"
        Fri 2025-05-30 00:00:00
        Thu 2025-07-31 00:00:00"#]],
    );
}

/// JOB-3: weekdays count from Sunday = 1 as in Quartz; `nL` and `n#k` pick one in the month.
#[test]
fn weekdays_as_quartz_counts_them() {
    check("0 0 0 ? * 1", "2025-06-01T12:00:00Z", 1, expect!["Sun 2025-06-08 00:00:00"]);
    check(
        "0 0 0 ? * MON-FRI",
        "2025-06-05T12:00:00Z",
        3,
        expect![[r#"
        Fri 2025-06-06 00:00:00
        Mon 2025-06-09 00:00:00
        Tue 2025-06-10 00:00:00"#]],
    );
    check(
        "0 0 0 ? * fri-mon",
        "2025-06-05T12:00:00Z",
        5,
        expect![[r#"
        Fri 2025-06-06 00:00:00
        Sat 2025-06-07 00:00:00
        Sun 2025-06-08 00:00:00
        Mon 2025-06-09 00:00:00
        Fri 2025-06-13 00:00:00"#]],
    );
    check(
        "0 0 0 ? * 6L",
        "2025-06-01T00:00:00Z",
        2,
        expect![[r#"
        Fri 2025-06-27 00:00:00
        Fri 2025-07-25 00:00:00"#]],
    );
    check(
        "0 0 0 ? * L",
        "2025-06-01T00:00:00Z",
        2,
        expect![[r#"
        Sat 2025-06-07 00:00:00
        Sat 2025-06-14 00:00:00"#]],
    );
    check(
        "0 0 0 ? * TUE#1,6#3",
        "2025-06-01T00:00:00Z",
        3,
        expect![[r#"
        Tue 2025-06-03 00:00:00
        Fri 2025-06-20 00:00:00
        Tue 2025-07-01 00:00:00"#]],
    );
    check(
        "0 0 0 ? * MON#5",
        "2025-01-01T00:00:00Z",
        3,
        expect![[r#"
        Mon 2025-03-31 00:00:00
        Mon 2025-06-30 00:00:00
        Mon 2025-09-29 00:00:00"#]],
    );
}

/// JOB-3: leap days, and dates that must satisfy both day fields.
#[test]
fn rare_dates() {
    check(
        "0 0 12 29 2 ?",
        "2025-01-01T00:00:00Z",
        2,
        expect![[r#"
        Tue 2028-02-29 12:00:00
        Sun 2032-02-29 12:00:00"#]],
    );
    check(
        "0 0 0 13 * FRI",
        "2025-01-01T00:00:00Z",
        3,
        expect![[r#"
        Fri 2025-06-13 00:00:00
        Fri 2026-02-13 00:00:00
        Fri 2026-03-13 00:00:00"#]],
    );
    check(
        "0 0 0 29 2 MON",
        "2025-01-01T00:00:00Z",
        2,
        expect![[r#"
        Mon 2044-02-29 00:00:00
        Mon 2072-02-29 00:00:00"#]],
    );
    check(
        "0 0 0 31 * ?",
        "2025-01-31T12:00:00Z",
        3,
        expect![[r#"
        Mon 2025-03-31 00:00:00
        Sat 2025-05-31 00:00:00
        Thu 2025-07-31 00:00:00"#]],
    );
}

/// JOB-3: lists, steps, wrapping ranges, names in any case, and years.
#[test]
fn forms_of_fields() {
    check(
        "0 0 22-2/2 * * ?",
        "2025-06-01T12:00:00Z",
        4,
        expect![[r#"
        Sun 2025-06-01 22:00:00
        Mon 2025-06-02 00:00:00
        Mon 2025-06-02 02:00:00
        Mon 2025-06-02 22:00:00"#]],
    );
    check(
        "5/25 0 0 1 jan,Jul ? 2026/2",
        "2025-06-01T12:00:00Z",
        4,
        expect![[r#"
        Thu 2026-01-01 00:00:05
        Thu 2026-01-01 00:00:30
        Thu 2026-01-01 00:00:55
        Wed 2026-07-01 00:00:05"#]],
    );
    check(
        "0 0 0 1 11-2 ? 2026,2027-2028",
        "2026-03-01T12:00:00Z",
        4,
        expect![[r#"
        Sun 2026-11-01 00:00:00
        Tue 2026-12-01 00:00:00
        Fri 2027-01-01 00:00:00
        Mon 2027-02-01 00:00:00"#]],
    );
    check(
        "0 10-20/5 */12 * * *",
        "2025-06-01T12:12:00Z",
        3,
        expect![[r#"
        Sun 2025-06-01 12:15:00
        Sun 2025-06-01 12:20:00
        Mon 2025-06-02 00:10:00"#]],
    );
}
