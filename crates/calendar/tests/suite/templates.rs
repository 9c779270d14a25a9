//! What templates become (JOB-7).

use std::collections::BTreeMap;

use expect_test::{Expect, expect};
use tidemill_calendar::{Template, TemplateContext, TemplateError};
use tidemill_model::JobDefinition;

use crate::{at, zone};

/// A job with these fields beside those that it needs.
fn job(fields: serde_json::Value) -> JobDefinition {
    let mut whole = serde_json::json!({
        "id": 42, "version": 3, "group_id": 7,
        "spec": {"group": "sales", "name": "load-orders", "type": "shell", "command": ""},
    });
    for (name, value) in fields.as_object().unwrap() {
        whole["spec"][name] = value.clone();
    }
    serde_json::from_value(whole).unwrap()
}

fn render(text: &str, logical: &str, zone_name: &str) -> Result<String, TemplateError> {
    render_of(&job(serde_json::json!({})), text, logical, zone_name, usize::MAX)
}

fn render_of(
    definition: &JobDefinition,
    text: &str,
    logical: &str,
    zone_name: &str,
    most_bytes: usize,
) -> Result<String, TemplateError> {
    let params = BTreeMap::from([("city".to_owned(), "Zürich ${job}".to_owned())]);
    let zone = zone(zone_name);
    Template::parse(text)?.render(&TemplateContext {
        logical_time: at(logical),
        zone: &zone,
        time_format: None,
        batch_id: 4711,
        run: 2,
        attempt: 3,
        definition,
        params: &params,
        values: None,
        most_bytes,
    })
}

/// OPS-7: a short template may name a long value often; what it becomes has a bound all the same, and it says where it
/// went over it.
#[test]
fn text_that_gets_too_long_is_refused() {
    let at = "2025-01-01T00:00:00Z";
    let of = |text: &str, most| render_of(&job(serde_json::json!({})), text, at, "UTC", most);
    assert_eq!(of("in ${param.city}, ${run}", 20).unwrap(), "in Zürich ${job}, 2");
    let wrong = of("in ${param.city},  ${run}", 20).unwrap_err().to_string();
    assert_eq!(
        wrong,
        "template: '${run}' at character 20: makes the text longer than 20 bytes; make it shorter"
    );
    assert!(of(&"${param.city}".repeat(1_000_000), 100).is_err());
}

fn check(text: &str, logical: &str, zone_name: &str, expected: Expect) {
    expected.assert_eq(&render(text, logical, zone_name).unwrap());
}

fn refused(text: &str, expected: Expect) {
    let told = render(text, "2025-01-01T00:00:00Z", "UTC").unwrap_err().to_string();
    // Which fields a job has is not what is tested.
    let (begin, end) = ("values.PARENT.KEY, ", " and time patterns");
    let fields = told.split_once(begin).and_then(|(_, rest)| rest.split_once(end)).map(|(fields, _)| fields);
    assert!(fields.is_none_or(|fields| fields.contains("the job's job, ")), "{told}");
    expected.assert_eq(&fields.map_or(told.clone(), |fields| told.replace(fields, "…")));
}

/// JOB-7: the logical time in any format, on the job's clock.
#[test]
fn times_are_written_on_the_zones_clock() {
    let new_year = "2024-12-31T23:00:00Z";
    check("${yyyyMMdd}", new_year, "Europe/Berlin", expect!["20250101"]);
    check("${yyyy-MM-dd HH:mm:ss}", new_year, "UTC", expect!["2024-12-31 23:00:00"]);
    check("/in/${yyyy/MM/dd}/${HH}.${mm_ss}", new_year, "Asia/Kolkata", expect!["/in/2025/01/01/04.30_00"]);
    check(
        "${yyyy-MM-ddTHH:mm:ssXXX} ${yyyyMMddHHZ}",
        new_year,
        "America/St_Johns",
        expect!["2024-12-31T19:30:00-03:30 2024123119-0330"],
    );
    check("${HHXXX} ${HHZ}", new_year, "UTC", expect!["23Z 23+0000"]);
    check(
        "${logical_time} ${epoch} ${epoch_ms}",
        new_year,
        "Europe/Berlin",
        expect!["2025-01-01T00:00:00+01:00 1735686000 1735686000000"],
    );
    check(
        "${logical_time} ${epoch_ms}",
        "2025-01-01T00:00:00.25Z",
        "UTC",
        expect!["2025-01-01T00:00:00.25+00:00 1735689600250"],
    );
}

/// JOB-7: months, weeks and days move on the calendar, hours and minutes elapse.
#[test]
fn shifts_move_the_time() {
    check("${yyyyMMdd-1d} ${yyyyMMdd+1d}", "2024-03-01T00:00:00Z", "UTC", expect!["20240229 20240302"]);
    check(
        "${yyyyMMdd-1M} ${yyyyMM-12M} ${yyyyMMdd+1M}",
        "2025-03-31T00:00:00Z",
        "UTC",
        expect!["20250228 202403 20250430"],
    );
    check("${yyyyMMdd-2w}", "2025-01-06T00:00:00Z", "UTC", expect!["20241223"]);
    check("${yyyyMMddHH+2h} ${HH:mm-90m}", "2024-12-31T23:00:00Z", "UTC", expect!["2025010101 21:30"]);
    check(
        "${yyyy-MM-dd-1d} ${yyyyMMddHHmm-1m}",
        "2025-01-01T00:00:00Z",
        "UTC",
        expect!["2024-12-31 202412312359"],
    );
    check(
        "${epoch-1h} ${logical_time+1d}",
        "2025-01-01T00:00:00Z",
        "UTC",
        expect!["1735686000 2025-01-02T00:00:00+00:00"],
    );
    // Across the gap of 30 March: a day is 23 hours, 24 hours are not a day.
    let after_gap = "2025-03-30T22:00:00Z";
    check("${yyyyMMddHH-1d} ${yyyyMMddHH-24h}", after_gap, "Europe/Berlin", expect!["2025033000 2025032923"]);
    // The two hours of an overlap differ by their offset only.
    check(
        "${yyyyMMddHH} ${yyyyMMddHHZ}",
        "2025-10-26T00:00:00Z",
        "Europe/Berlin",
        expect!["2025102602 2025102602+0200"],
    );
    check(
        "${yyyyMMddHH} ${yyyyMMddHHZ}",
        "2025-10-26T01:00:00Z",
        "Europe/Berlin",
        expect!["2025102602 2025102602+0100"],
    );
}

/// JOB-7: batch id, run number and job fields; values are not expanded again.
#[test]
fn fields_are_put_in_as_they_are() {
    check("${batch_id} ${run} ${attempt} ${job_id}", "2025-01-01T00:00:00Z", "UTC", expect!["4711 2 3 42"]);
    check(
        "${job}|${group}|${param.city}",
        "2025-01-01T00:00:00Z",
        "UTC",
        expect!["load-orders|sales|Zürich ${job}"],
    );
}

/// JOB-7: the job's fields by their names; one that the job does not set is an error that names it.
#[test]
fn fields_of_the_job_are_put_in() {
    let full = job(serde_json::json!({
        "owner": "ann", "app_name": "loader", "business_type": "billing", "priority": 2, "host": "h1",
        "memory_mb": 64, "schedule": {"cron": "0 0 3 * * ?", "zone": "Europe/Berlin"},
        "worker_label": "big", "run_as": "etl",
    }));
    let text = "${name} ${group_id} ${version} ${owner} ${app_name} ${type} ${business_type} ${priority} ${host} \
                ${memory_mb} ${cron} ${zone} ${worker_label} ${run_as}";
    let at = "2025-01-01T00:00:00Z";
    expect!["load-orders 7 3 ann loader shell billing 2 h1 64 0 0 3 * * ? Europe/Berlin big etl"]
        .assert_eq(&render_of(&full, text, at, "Europe/Berlin", usize::MAX).unwrap());
    for field in ["owner", "app_name", "business_type", "host", "memory_mb", "period", "cron", "worker_label"]
    {
        let error = render(&format!("${{{field}}}"), at, "UTC").unwrap_err();
        assert_eq!(error.rule, format!("the job sets no {field}; set it"));
    }
    assert!(render("${owner-1d}", at, "UTC").unwrap_err().rule.contains("is no time"));
}

/// JOB-7: what belongs to the shell stays, `$${` is `${`.
#[test]
fn shell_syntax_stays() {
    check(
        "echo $HOME $(date) `x` $$ $1 }{ $",
        "2025-01-01T00:00:00Z",
        "UTC",
        expect!["echo $HOME $(date) `x` $$ $1 }{ $"],
    );
    check(
        "$${HOME}/${yyyy} $$${x} $${a:-${run}}",
        "2025-01-01T00:00:00Z",
        "UTC",
        expect!["${HOME}/2025 $${x} ${a:-2}"],
    );
    check("", "2025-01-01T00:00:00Z", "UTC", expect![""]);
}

/// JOB-6: a bad template is refused with its place, the placeholder, and what to write instead.
#[test]
#[expect(clippy::too_many_lines, reason = "a table of templates, and of what is said of each")]
fn bad_templates_are_refused() {
    refused(
        "échо ${HOME}",
        expect![
            "template: '${HOME}' at character 6: unknown name; write '$${HOME}' for a shell variable; known are logical_time, epoch, epoch_ms, batch_id, run, attempt, param.NAME, values.PARENT.KEY, … and time patterns such as yyyyMMdd-1d"
        ],
    );
    refused(
        "${run",
        expect![
            "template: '${run' at character 1: '${' is not closed; add '}', or write '$${' for a plain '${'"
        ],
    );
    refused(
        "${}",
        expect!["template: '${}' at character 1: nothing between the braces; name a field or a time pattern"],
    );
    refused(
        "a${x:-1}",
        expect![
            "template: '${x:-1}' at character 2: 'x' is no part of a time pattern, which has yyyy MM dd HH mm ss XXX Z, the literals - _ / : . T and space, and at the end a shift such as -1d or +2h; write '$${x:-1}' to leave it to the shell"
        ],
    );
    refused(
        "${yyyyMMd}",
        expect![
            "template: '${yyyyMMd}' at character 1: unknown name; write '$${yyyyMMd}' for a shell variable; known are logical_time, epoch, epoch_ms, batch_id, run, attempt, param.NAME, values.PARENT.KEY, … and time patterns such as yyyyMMdd-1d"
        ],
    );
    refused(
        "${yyyy-M-dd}",
        expect![
            "template: '${yyyy-M-dd}' at character 1: 'M' is no part of a time pattern, which has yyyy MM dd HH mm ss XXX Z, the literals - _ / : . T and space, and at the end a shift such as -1d or +2h; write '$${yyyy-M-dd}' to leave it to the shell"
        ],
    );
    refused(
        "${YYYYMMDD}",
        expect![
            "template: '${YYYYMMDD}' at character 1: unknown name; write '$${YYYYMMDD}' for a shell variable; known are logical_time, epoch, epoch_ms, batch_id, run, attempt, param.NAME, values.PARENT.KEY, … and time patterns such as yyyyMMdd-1d"
        ],
    );
    refused(
        "${--}",
        expect![
            "template: '${--}' at character 1: a time pattern needs one of yyyy MM dd HH mm ss XXX Z; write '$${--}' to leave it to the shell"
        ],
    );
    refused(
        "${T}",
        expect![
            "template: '${T}' at character 1: unknown name; write '$${T}' for a shell variable; known are logical_time, epoch, epoch_ms, batch_id, run, attempt, param.NAME, values.PARENT.KEY, … and time patterns such as yyyyMMdd-1d"
        ],
    );
    refused(
        "${yyyyMMdd-1y}",
        expect![
            "template: '${yyyyMMdd-1y}' at character 1: '1' is no part of a time pattern, which has yyyy MM dd HH mm ss XXX Z, the literals - _ / : . T and space, and at the end a shift such as -1d or +2h; write '$${yyyyMMdd-1y}' to leave it to the shell"
        ],
    );
    refused(
        "${yyyyMMdd-1d-1d}",
        expect![
            "template: '${yyyyMMdd-1d-1d}' at character 1: '1' is no part of a time pattern, which has yyyy MM dd HH mm ss XXX Z, the literals - _ / : . T and space, and at the end a shift such as -1d or +2h; write '$${yyyyMMdd-1d-1d}' to leave it to the shell"
        ],
    );
    refused(
        "${-1d}",
        expect![
            "template: '${-1d}' at character 1: a time pattern needs one of yyyy MM dd HH mm ss XXX Z; write '$${-1d}' to leave it to the shell"
        ],
    );
    refused(
        "${run+1d}",
        expect!["template: '${run+1d}' at character 1: 'run' is no time and takes no shift"],
    );
    refused(
        "${yyyy-9999999d}",
        expect!["template: '${yyyy-9999999d}' at character 1: a shift has at most 6 digits"],
    );
    refused(
        "${yyyy-999999M}",
        expect![
            "template: '${yyyy-999999M}' at character 1: the shifted time is outside the years -9999 to 9999; shift it by less"
        ],
    );
    refused(
        "${param.}",
        expect![
            "template: '${param.}' at character 1: a parameter's name has letters, digits, '_', '-' and '.'"
        ],
    );
    refused(
        "${param.a b}",
        expect![
            "template: '${param.a b}' at character 1: a parameter's name has letters, digits, '_', '-' and '.'"
        ],
    );
    refused(
        "${param.town}",
        expect![
            "template: '${param.town}' at character 1: no parameter 'town'; add it to the job's parameters"
        ],
    );
    refused(
        "${ run }",
        expect![
            "template: '${ run }' at character 1: 'r' is no part of a time pattern, which has yyyy MM dd HH mm ss XXX Z, the literals - _ / : . T and space, and at the end a shift such as -1d or +2h; write '$${ run }' to leave it to the shell"
        ],
    );
}

/// JOB-7: a definition can be checked for parameters that it lacks.
#[test]
fn param_names_are_listed() {
    let template = Template::parse("${param.b} ${run} ${param.a-1} ${param.b}").unwrap();
    assert_eq!(template.param_names().collect::<Vec<_>>(), ["b", "a-1", "b"]);
}

/// JOB-3: the warning for sub-daily jobs is for an hour that nothing tells from its repeat.
#[test]
fn local_hour_without_offset_is_seen() {
    let mentions = |text| Template::parse(text).unwrap().mentions_local_hour_without_offset();
    assert!(mentions("/out/${yyyyMMdd}/${HH}"));
    assert!(mentions("${yyyyMMddHH-1h} ${batch_id}"));
    for text in ["${yyyyMMdd}", "${yyyyMMddHHZ}", "${HH} ${XXX}", "${HH} ${epoch}", "${logical_time}", "HH"] {
        assert!(!mentions(text), "{text}");
    }
}
