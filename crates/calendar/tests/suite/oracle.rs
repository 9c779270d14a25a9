//! Other implementations as oracles, in UTC, on what both understand.

use std::str::FromStr;

use croner::parser::{CronParser, Seconds};
use jiff::tz::TimeZone;
use proptest::prelude::{Strategy, prop, prop_oneof, proptest};
use tidemill_model::Timestamp;

use crate::cron;
use crate::properties::{cron_expressions, instants, list_of};

/// `*`, `?`, L, W and # in the day fields, with croner's numbering of weekdays set to Quartz's.
fn day_rule_expressions() -> impl Strategy<Value = String> {
    let day_of_month = prop_oneof![
        list_of(1, 31),
        proptest::strategy::Just("L".to_owned()),
        proptest::strategy::Just("LW".to_owned()),
        (1..=31u32).prop_map(|day| format!("{day}W")),
    ];
    let day_of_week = prop_oneof![
        list_of(1, 7),
        (1..=7u32).prop_map(|day| format!("{day}L")),
        (1..=7u32, 1..=5u32).prop_map(|(day, nth)| format!("{day}#{nth}")),
    ];
    let only_one = prop_oneof![
        day_of_month.prop_map(|day| (day, "?".to_owned())),
        day_of_week.prop_map(|day| ("?".to_owned(), day)),
    ];
    (list_of(0, 23), only_one, prop_oneof!["\\*", list_of(1, 12)])
        .prop_map(|(hour, (day, weekday), month)| format!("0 0 {hour} {day} {month} {weekday}"))
        .prop_filter("fires at all", |text| tidemill_calendar::Cron::try_from(text.as_str()).is_ok())
}

proptest! {
    #![proptest_config(proptest::test_runner::Config { cases: 200, ..Default::default() })]

    /// JOB-3: the `cron` crate names the same times.
    #[test]
    fn cron_crate_agrees(expression in cron_expressions(), after in instants()) {
        let theirs = ::cron::Schedule::from_str(&expression).expect(&expression);
        let start = chrono_utc(after);
        let theirs: Vec<i64> = theirs.after(&start).take(20).map(|time| time.timestamp()).collect();
        let ours: Vec<i64> = cron(&expression, "UTC")
            .preview(after, theirs.len())
            .iter()
            .map(|fire| fire.at.as_second())
            .collect();
        proptest::prop_assert_eq!(ours, theirs, "{}", expression);
    }

    /// JOB-3: croner names the same days for L, W and #.
    #[test]
    fn croner_agrees_on_day_rules(expression in day_rule_expressions(), after in instants()) {
        let parser = CronParser::builder()
            .seconds(Seconds::Required)
            .dom_and_dow(true)
            .alternative_weekdays(true)
            .build();
        let theirs = parser.parse(&expression).expect(&expression);
        let mut time = Timestamp::from_second(after.as_second()).unwrap().to_zoned(TimeZone::UTC);
        let ours = cron(&expression, "UTC");
        for fire in ours.preview(after, 10) {
            time = theirs.find_next_occurrence(&time, false).expect(&expression);
            proptest::prop_assert_eq!(fire.at.jiff(), time.timestamp(), "{}", expression);
        }
    }
}

fn chrono_utc(at: Timestamp) -> ::chrono::DateTime<::chrono::Utc> {
    ::chrono::DateTime::from_timestamp_millis(at.as_millisecond()).unwrap()
}

/// The generators reach the forms that the oracles are asked about.
#[test]
fn generators_make_valid_expressions() {
    let mut runner = proptest::test_runner::TestRunner::deterministic();
    for _ in 0..50 {
        let text = prop::strategy::Strategy::new_tree(&day_rule_expressions(), &mut runner).unwrap();
        let text = prop::strategy::ValueTree::current(&text);
        assert_eq!(text.split(' ').count(), 6, "{text}");
    }
}
