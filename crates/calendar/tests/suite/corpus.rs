//! Cron expressions and templates as people write them, and worse.

use std::collections::BTreeMap;

use tidemill_calendar::{Cron, Rule, Schedule, Template, TemplateContext, Zone};
use tidemill_corpus::corpus;
use tidemill_model::Timestamp;

/// One without changes of its clock, one with, one that has skipped a day.
const ZONES: [&str; 3] = ["UTC", "Europe/Berlin", "Pacific/Apia"];

fn zones() -> Vec<Zone> {
    ZONES.iter().map(|name| Zone::try_from((*name).to_owned()).unwrap()).collect()
}

/// JOB-3: what is accepted is kept as it is written, and fires in order, anywhere in time.
#[test]
fn cron_expressions_are_refused_or_fire_in_order() {
    let zones = zones();
    let instants =
        [Timestamp::MIN, Timestamp::UNIX_EPOCH, "2026-03-29T00:59:59Z".parse().unwrap(), Timestamp::MAX];
    corpus!("cron").fuzz(1_000, |input| {
        let text = String::from_utf8_lossy(input);
        let Ok(cron) = Cron::try_from(&*text) else { return };
        assert_eq!(Cron::try_from(cron.as_str()), Ok(cron.clone()));
        for zone in &zones {
            let schedule = Schedule { rule: Rule::Cron(cron.clone()), zone: zone.clone() };
            for instant in instants {
                let fires = schedule.preview(instant, 3);
                assert!(fires.iter().all(|fire| fire.at > instant), "{text:?} {fires:?}");
                assert!(fires.windows(2).all(|pair| pair[0].at < pair[1].at), "{text:?} {fires:?}");
                let back = [schedule.logical_at_or_before(instant), schedule.logical_before(instant)];
                assert!(back.into_iter().flatten().all(|time| time <= instant), "{text:?} {back:?}");
                schedule.period_start(instant);
            }
        }
    });
}

/// JOB-7: what is accepted renders for every logical time, or says why not; never to more than it promises.
#[test]
fn templates_are_refused_or_rendered() {
    let zones = zones();
    let definition: tidemill_model::JobDefinition = serde_json::from_value(serde_json::json!({
        "id": i64::MAX, "version": u32::MAX, "group_id": i32::MAX,
        "spec": {"group": "group", "name": "name", "type": "shell", "owner": "ann"},
    }))
    .unwrap();
    let params: BTreeMap<_, _> =
        [("day", "${run}"), ("a_b", "")].map(|(n, v)| (n.to_owned(), v.to_owned())).into();
    corpus!("template").fuzz(3_000, |input| {
        let text = String::from_utf8_lossy(input);
        let Ok(template) = Template::parse(&text) else { return };
        assert_eq!(template.as_str(), text);
        for zone in &zones {
            for logical_time in [Timestamp::MIN, Timestamp::UNIX_EPOCH, Timestamp::MAX] {
                let context = TemplateContext {
                    logical_time,
                    zone,
                    time_format: None,
                    batch_id: i64::MIN,
                    run: u32::MAX,
                    attempt: 1,
                    definition: &definition,
                    params: &params,
                    values: None,
                    most_bytes: usize::MAX,
                };
                if let Ok(rendered) = template.render(&context) {
                    assert!(rendered.len() <= 64 + text.len() * 40, "{} from {text:?}", rendered.len());
                }
            }
        }
    });
}
