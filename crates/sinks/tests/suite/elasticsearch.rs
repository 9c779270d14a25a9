//! Task logs in OpenSearch, on the server that `TIDEMILL_TEST_SEARCH` names (PUL-12). What a server says when it has no
//! room is said by a small one of the test, in the words of the published bulk protocol.

use std::net::{SocketAddr, ToSocketAddrs};
use std::sync::atomic::Ordering;

use crate::kit::{Crowded, Cut, Fixture, dying, parameters};
use serde_json::{Value, json};
use tidemill_log::LogId;
use tidemill_sinks::{Config, Opener, openers};

/// An index that is deleted with it.
struct Index {
    server: String,
    name: String,
}

impl Index {
    fn new() -> Self {
        let server = std::env::var("TIDEMILL_TEST_SEARCH").expect(
            "TIDEMILL_TEST_SEARCH names a server: run `deploy/dev/services start search`, \
             then `eval \"$(deploy/dev/services env)\"`",
        );
        Self { server, name: format!("tidemill-test-{}", LogId::random()) }
    }

    fn address(&self) -> SocketAddr {
        self.server.trim_start_matches("http://").to_socket_addrs().unwrap().next().unwrap()
    }

    fn sink(&self) -> Opener {
        self.sink_at(&self.server)
    }

    fn sink_at(&self, url: &str) -> Opener {
        let mut config = Config::default();
        config.elasticsearch.url = Some(url.to_owned());
        config.elasticsearch.index = self.name.clone();
        config.elasticsearch.bulk_kb = 64;
        config.elasticsearch.retry_pause_ms = 10;
        config.check().unwrap();
        openers(&config).unwrap().remove(0)
    }

    fn path(&self, path: &str) -> String {
        format!("{}/{}{path}", self.server, self.name)
    }

    /// Every document with its version, by id.
    fn documents(&self) -> Vec<Value> {
        ureq::post(self.path("/_refresh")).send_empty().unwrap();
        let question =
            json!({"size": 10_000, "version": true, "sort": ["grant_id"], "track_total_hits": true});
        let mut answer = ureq::post(self.path("/_search")).send_json(question).unwrap();
        let answer: Value = answer.body_mut().read_json().unwrap();
        let hits = answer["hits"]["hits"].as_array().unwrap().clone();
        assert_eq!(answer["hits"]["total"]["value"], hits.len());
        hits
    }

    /// Every grant is there once, as the read tables have it.
    fn agrees_with(&self, fixture: &Fixture) {
        let (grants, hits) = (fixture.grants(), self.documents());
        assert!(grants.len() > 100);
        assert_eq!(hits.len(), grants.len());
        for (hit, grant) in hits.iter().zip(grants.values()) {
            let document = &hit["_source"];
            let is = |field: &str, value: Value| assert_eq!(document[field], value, "{field} of {hit}");
            let time = |millis: Option<i64>| {
                Value::from(
                    millis.map(|at| tidemill_model::Timestamp::from_millisecond(at).unwrap().to_string()),
                )
            };
            assert_eq!(hit["_id"], grant.id.to_string());
            is("grant_id", grant.id.into());
            is("state", Value::from(&*grant.state));
            is("user", Value::from(&*grant.user_name));
            is("group", Value::from(&*grant.group_name));
            is("task_id", grant.task_id.into());
            is("template", "copy".into());
            is("parameters", parameters(grant.task_id));
            is("granted_at", time(Some(grant.granted_at)));
            is("expires_at", time(grant.expires_at));
            is("ended_at", time(grant.ended_at));
            is("result", Value::from(grant.result.as_deref()));
            is("returned_by", Value::from(grant.returned_by.as_deref()));
            is("reason", Value::from(grant.reason.as_deref()));
            let place = document["journal_offset"].as_u64().unwrap() << 20;
            assert_eq!(hit["_version"], place + document["event_index"].as_u64().unwrap());
        }
    }

    fn delete(&self, of: &str) {
        // It may not be there.
        let _ = ureq::delete(self.path(of)).call();
    }
}

impl Drop for Index {
    fn drop(&mut self) {
        self.delete("");
        self.delete("-positions");
    }
}

/// PUL-12: a sink that is killed again and again, before and after it has written, loses and doubles nothing.
#[test]
fn killed_sink_loses_and_doubles_nothing() {
    let (mut fixture, index) = (Fixture::new(21), Index::new());
    fixture.works(40);
    let (sink, died) = dying(index.sink(), 16);
    let running = fixture.start(vec![sink]);
    running.stores_until(&mut fixture, (25, 3), "sinks died often", || died.load(Ordering::SeqCst) >= 16);
    running.catch_up(&fixture);
    running.stop().unwrap();
    index.agrees_with(&fixture);
    // Another life goes on where the last one ended.
    let running = fixture.start(vec![index.sink()]);
    fixture.works(10);
    running.catch_up(&fixture);
    let stored: u64 = running.partitions().iter().map(|it| it.changes).sum();
    assert!(stored < 200, "{stored} changes were stored for 20 decisions");
    running.stop().unwrap();
    index.agrees_with(&fixture);
}

/// PUL-12: connections that break in the middle of a request, or between documents and position, lose and double
/// nothing; and what is done again does not go back.
#[test]
fn broken_connections_lose_and_double_nothing() {
    let (mut fixture, index) = (Fixture::new(22), Index::new());
    let cut = Cut::open(index.address(), 12, 6_000);
    let running = fixture.start(vec![index.sink_at(&format!("http://{}", cut.address))]);
    running.stores_until(&mut fixture, (40, 4), "connections broke often", || cut.broken() >= 8);
    running.catch_up(&fixture);
    running.stop().unwrap();
    index.agrees_with(&fixture);
    // Without its positions everything is sent again: each document is there already, as it is or newer.
    index.delete("-positions");
    let before = index.documents();
    let running = fixture.start(vec![index.sink()]);
    running.catch_up(&fixture);
    running.stop().unwrap();
    assert_eq!(index.documents(), before);
}

/// PUL-12: a document that the mapping does not take stops that partition, with the grant and the reason; fixed, it
/// goes on, and nothing is skipped.
#[test]
fn mapping_that_does_not_fit_is_told_and_stops_the_sink() {
    let (mut fixture, index) = (Fixture::new(23), Index::new());
    let mappings = json!({"mappings": {"properties": {"user": {"type": "integer"}}}});
    ureq::put(index.path("")).send_json(mappings).unwrap();
    fixture.works(60);
    let running = fixture.start(vec![index.sink()]);
    let told = running.stops();
    for part in ["refuses to store task logs", "grant ", "status 400", "mapper_parsing_exception", "user"] {
        assert!(told.contains(part), "{part}: {told}");
    }
    running.stop().unwrap_err();
    index.delete("");
    let running = fixture.start(vec![index.sink()]);
    running.catch_up(&fixture);
    running.stop().unwrap();
    index.agrees_with(&fixture);
}

/// PUL-12: documents for which there is no room are sent again, only they, and so are whole requests; a body that is
/// too large is cut; bodies keep to their bound.
#[test]
fn server_without_room_is_asked_again_for_what_is_open() {
    let mut fixture = Fixture::new(24);
    let crowded = Crowded::open();
    let mut config = Config::default();
    config.elasticsearch.url = Some(format!("http://{}", crowded.address));
    config.elasticsearch.user = Some("ann".to_owned());
    config.elasticsearch.password = Some("secret".to_owned());
    config.elasticsearch.bulk_kb = 64;
    config.elasticsearch.retry_pause_ms = 1;
    fixture.works(300);
    // Known to the tables, so that it is read in few batches.
    fixture.grants();
    let running = fixture.start(openers(&config).unwrap());
    // More requests, whatever was read at once.
    (0..10).for_each(|_| running.stores(&mut fixture, 5));
    running.catch_up(&fixture);
    running.stop().unwrap();
    let (grants, told) = (fixture.grants(), crowded.told());
    assert!(told.documents.keys().copied().eq(grants.keys().copied()));
    for (id, grant) in &grants {
        assert_eq!(told.documents[id]["state"], Value::from(&*grant.state));
    }
    assert!(told.largest_body <= 64 * 1_024, "{}", told.largest_body);
    assert!(told.crowded_requests > 2 && told.crowded_documents > 5 && told.too_large > 0, "{told:?}");
    assert_eq!(told.sent_though_there, 0);
    // ann:secret
    assert_eq!(told.authorization.as_deref(), Some("Basic YW5uOnNlY3JldA=="));
}
