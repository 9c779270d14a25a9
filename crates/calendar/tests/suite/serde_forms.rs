//! The written forms, which stand in events and must not change.

use expect_test::{Expect, expect};
use serde::Serialize;
use serde::de::DeserializeOwned;
use tidemill_calendar::{Mapping, Period, Schedule, Template};

use crate::{at, cron, every};

fn check<T: Serialize + DeserializeOwned + PartialEq + std::fmt::Debug>(value: &T, expected: Expect) {
    let text = serde_json::to_string(value).unwrap();
    expected.assert_eq(&text);
    assert_eq!(&serde_json::from_str::<T>(&text).unwrap(), value);
}

/// JOB-3, DEP-3, JOB-7: schedules, mappings and templates go through JSON and come back equal.
#[test]
fn written_forms_round_trip() {
    let daily = every(Period::Day, "Europe/Berlin");
    check(&daily, expect![[r#"{"rule":{"period":"day"},"zone":"Europe/Berlin"}"#]]);
    check(&cron("0  0 23 * * ?", "UTC"), expect![[r#"{"rule":{"cron":"0 0 23 * * ?"},"zone":"UTC"}"#]]);
    check(&Mapping::Same, expect![[r#""same""#]]);
    check(&Mapping::Offset(2), expect![[r#"{"offset":2}"#]]);
    check(&Mapping::Latest, expect![[r#""latest""#]]);
    check(&Template::parse("a ${yyyy}").unwrap(), expect![[r#""a ${yyyy}""#]]);
    let fire = daily.next_after(at("2025-01-01T00:00:00Z")).unwrap();
    check(&fire, expect![[r#"{"at":"2025-01-01T23:01:00.000Z","logical_time":"2025-01-01T23:00:00.000Z"}"#]]);
}

/// JOB-6: what does not parse as text does not deserialize either, and says why.
#[test]
fn invalid_forms_are_refused_with_the_rule() {
    let refused = |json: &str| serde_json::from_str::<Schedule>(json).unwrap_err().to_string();
    assert!(refused(r#"{"rule":{"cron":"0 0 24 * * ?"},"zone":"UTC"}"#).contains("hour '24'"));
    assert!(refused(r#"{"rule":{"period":"day"},"zone":"Mars"}"#).contains("'Mars' is not an IANA"));
    assert!(refused(r#"{"rule":{"period":"year"},"zone":"UTC"}"#).contains("year"));
    assert!(refused(r#"{"rule":{"period":"day"},"zone":"UTC","x":1}"#).contains("unknown field `x`"));
    assert!(serde_json::from_str::<Mapping>(r#"{"offset":-1}"#).is_err());
    assert!(serde_json::from_str::<Template>(r#""${nope""#).is_err());
}

/// JOB-3: zone names are matched in any case and kept as the data spells them.
#[test]
fn zone_names_are_canonical() {
    assert_eq!(crate::zone("europe/berlin").to_string(), "Europe/Berlin");
}

/// EVT-3: the schema of a schedule has its texts as strings.
#[test]
fn schema_shows_text_as_strings() {
    let schema = schemars::schema_for!(Schedule);
    let zone = schema.pointer("/$defs/Zone/type").unwrap();
    assert_eq!(zone, "string");
    assert_eq!(schema.pointer("/$defs/Cron/type").unwrap(), "string");
}
