//! What is refused, and with which words.

use expect_test::{Expect, expect};
use tidemill_calendar::{Cron, Mapping, Period, Zone, check_mapping};

fn refused(expression: &str, expected: Expect) {
    expected.assert_eq(&Cron::try_from(expression).unwrap_err().to_string());
}

/// JOB-6: an invalid cron is refused with field, value and rule.
#[test]
fn bad_cron_expressions_are_refused_by_field() {
    refused(
        "",
        expect![
            "cron: '' has 0 fields, it needs 6 or 7: second, minute, hour, day of month, month, day of week, and optionally year"
        ],
    );
    refused(
        "0 0 23 * *",
        expect![
            "cron: '0 0 23 * *' has 5 fields, it needs 6 or 7: second, minute, hour, day of month, month, day of week, and optionally year"
        ],
    );
    refused(
        "@daily",
        expect![
            "cron: '@daily' has 1 fields, it needs 6 or 7: second, minute, hour, day of month, month, day of week, and optionally year"
        ],
    );
    refused("60 0 0 * * ?", expect!["cron: second '60' in '60 0 0 * * ?': 0-59 expected"]);
    refused("0 -1 0 * * ?", expect!["cron: minute '-1' in '0 -1 0 * * ?': 0-59 expected"]);
    refused("0 0 24 * * ?", expect!["cron: hour '24' in '0 0 24 * * ?': 0-23 expected"]);
    refused("0 0 1,,2 * * ?", expect!["cron: hour '' in '0 0 1,,2 * * ?': 0-23 expected"]);
    refused("0 0 ? * * *", expect!["cron: hour '?' in '0 0 ? * * *': 0-23 expected"]);
    refused(
        "0 */0 0 * * ?",
        expect!["cron: minute '*/0' in '0 */0 0 * * ?': a step is a number from 1 to 60, as in */5"],
    );
    refused("0 /5 0 * * ?", expect!["cron: minute '/5' in '0 /5 0 * * ?': 0-59 expected"]);
    refused("0 0 0 32 * ?", expect!["cron: day of month '32' in '0 0 0 32 * ?': 1-31 expected"]);
    refused("0 0 0 0 * ?", expect!["cron: day of month '0' in '0 0 0 0 * ?': 1-31 expected"]);
    refused(
        "0 0 0 1-5W * ?",
        expect![
            "cron: day of month '1-5W' in '0 0 0 1-5W * ?': W follows one day of the month, as in 15W, or L, as in LW"
        ],
    );
    refused(
        "0 0 0 L-31 * ?",
        expect!["cron: day of month 'L-31' in '0 0 0 L-31 * ?': L, LW, or L-n with n from 1 to 30 expected"],
    );
    refused("0 0 0 1 13 ?", expect!["cron: month '13' in '0 0 0 1 13 ?': 1-12 or JAN-DEC expected"]);
    refused("0 0 0 1 MÄR ?", expect!["cron: month 'MÄR' in '0 0 0 1 MÄR ?': 1-12 or JAN-DEC expected"]);
    refused("0 0 0 ? * 0", expect!["cron: day of week '0' in '0 0 0 ? * 0': 1-7 or SUN-SAT expected"]);
    refused("0 0 0 ? * 8", expect!["cron: day of week '8' in '0 0 0 ? * 8': 1-7 or SUN-SAT expected"]);
    refused(
        "0 0 0 ? * MON#6",
        expect![
            "cron: day of week 'MON#6' in '0 0 0 ? * MON#6': after # a number from 1 to 5 expected, as in FRI#2"
        ],
    );
    refused(
        "0 0 0 ? * ?",
        expect![
            "cron: day of week '?' in '0 0 0 ? * ?': '?' may stand in one of day of month and day of week, not in both"
        ],
    );
    refused("0 0 0 ?,1 * *", expect!["cron: day of month '?' in '0 0 0 ?,1 * *': 1-31 expected"]);
    refused("0 0 0 1 1 ? 1969", expect!["cron: year '1969' in '0 0 0 1 1 ? 1969': 1970-2199 expected"]);
    refused(
        "0 0 0 1 1 ? 2030-2020",
        expect!["cron: year '2030-2020' in '0 0 0 1 1 ? 2030-2020': a range of years must not run backwards"],
    );
    refused(
        "0 0 99999999999999999999 * * ?",
        expect!["cron: hour '99999999999999999999' in '0 0 99999999999999999999 * * ?': 0-23 expected"],
    );
    refused("0 0 +5 * * ?", expect!["cron: hour '+5' in '0 0 +5 * * ?': 0-23 expected"]);
}

/// JOB-6: an expression that no date satisfies is refused when it is defined.
#[test]
fn cron_that_never_fires_is_refused() {
    refused(
        "0 0 0 30 2 ?",
        expect![
            "cron: '0 0 0 30 2 ?' never fires: no date from 1970 to 2199 matches; check day, month and year"
        ],
    );
    refused(
        "0 0 0 29 2 ? 2025",
        expect![
            "cron: '0 0 0 29 2 ? 2025' never fires: no date from 1970 to 2199 matches; check day, month and year"
        ],
    );
    refused(
        "0 0 0 31 4,6,9,11 ?",
        expect![
            "cron: '0 0 0 31 4,6,9,11 ?' never fires: no date from 1970 to 2199 matches; check day, month and year"
        ],
    );
}

/// JOB-6: a zone that is not in the bundled data is refused by name.
#[test]
fn unknown_zones_are_refused_by_name() {
    for name in ["", "Mars/Olympus", "Europe/Berlín", "+02:00", "CET-1CEST", "Etc/Unknown", "../etc/passwd"]
    {
        let error = Zone::try_from(name).unwrap_err().to_string();
        assert_eq!(
            error,
            format!("zone: '{name}' is not an IANA time zone; write a name such as 'Europe/Berlin' or 'UTC'")
        );
    }
}

/// JOB-6: an offset mapping has bounds.
#[test]
fn offsets_are_bounded() {
    let day = crate::every(Period::Day, "UTC");
    check_mapping(&day, &day, Mapping::Offset(1_000)).unwrap();
    for value in [0, 1_001, u16::MAX] {
        let error = check_mapping(&day, &day, Mapping::Offset(value)).unwrap_err().to_string();
        let expected = format!("mapping 'offset': {value} is out of range; write 1 to 1000 periods back");
        assert_eq!(error, expected);
    }
}
