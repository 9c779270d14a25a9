use serde_json::{Value, json};
use tidemill_store::rows::DeadLetterRow;

use crate::fixture::{Fixture, answers_done, send};
use crate::owner::OFFSET;
use crate::rows::{T0, Writer, definitions, job_row};

fn letter(index: i64, kind: &str, subject: &str) -> DeadLetterRow {
    DeadLetterRow {
        journal_partition: 0,
        kind: kind.into(),
        subject: subject.into(),
        journal_offset: 4,
        event_index: index,
        reason: "panicked".into(),
        recorded_at: T0,
        is_open: true,
        closed_at: None,
        redriven_by: None,
        redrive_outcome: None,
    }
}

/// EVT-9: what cannot be redriven is refused by a true reason: the log does not keep the command, no command lets the
/// timer go on, or the job is off or deleted.
#[tokio::test]
async fn what_cannot_be_redriven_is_refused_by_its_reason() {
    let fixture = Fixture::start(answers_done()).await;
    let mut off = job_row(&definitions()[0]);
    off.enabled = false;
    let mut deleted = job_row(&definitions()[2]);
    deleted.deleted_at = Some(T0);
    let closed = DeadLetterRow { is_open: false, closed_at: Some(T0), ..letter(5, "timer", "job/8192") };
    let letters = vec![
        letter(0, "command", "999"),
        letter(1, "timer", "batch/4097"),
        letter(2, "timer", &format!("job/{}", off.id)),
        letter(3, "timer", &format!("job/{}", deleted.id)),
        letter(4, "timer", "job/77"),
        closed,
    ];
    Writer::new(&*fixture.tables).rows(vec![off, deleted]).rows(letters).commit(OFFSET + 1);
    let reasons = [
        "does not keep the command at 999 of partition 0 any more",
        "no command lets the timer of batch/4097 go on",
        "is disabled; enabling it lets it go on",
        "is deleted",
        "job 77 is not known",
        "its timer runs again already",
    ];
    for (index, reason) in reasons.into_iter().enumerate() {
        let id = format!("0:4:{index}");
        let shown = send(fixture.get(&format!("/api/dead-letters/{id}"))).await.body;
        assert!(shown["obstacle"].as_str().unwrap().contains(reason), "{shown}");
        let refused = send(fixture.post(&format!("/api/dead-letters/{id}/redrive"), &Value::Null)).await;
        assert_eq!(refused.code(), (409, "not_redrivable"));
        assert!(refused.body["detail"].as_str().unwrap().contains(reason), "{}", refused.body);
    }
    let status = send(fixture.get("/api/status")).await.body;
    assert_eq!(status["open_dead_letters"], 5);
    let page = send(fixture.get("/api/dead-letters?open=true&kind=timer&limit=2")).await.body;
    assert_eq!((page["items"].as_array().unwrap().len(), page["next"].is_string()), (2, true), "{page}");
    let absent = send(fixture.get("/api/dead-letters/0:9:9")).await;
    assert_eq!(absent.body["code"], json!("unknown"));
}
