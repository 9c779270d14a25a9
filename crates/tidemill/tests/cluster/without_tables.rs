//! The tables' database is away, for the interfaces and the projector: what clients cannot put off goes on.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use tidemill_client::{Client, Method};
use tidemill_model::{BatchEvent, BatchResult, Event, JobEvent, TaskEvent};

use crate::clients::Clients;
use crate::kit::{Cluster, Relay, until};

const JOBS: &str = "
jobs:
- {name: long, group: demo, type: shell, command: sleep 600}
- {name: nothing, group: demo, type: noop, max_concurrent: 100}
";
const SECRET: &str = "correct-horse-battery";
/// API-5
const SECOND: Duration = Duration::from_secs(1);

/// Two interfaces and a projector that reach the database by a way that can be cut.
struct Fixture {
    // In this order they go.
    cluster: Cluster,
    relay: Relay,
    servers: [String; 2],
}

impl Fixture {
    fn start() -> Self {
        let mut cluster = Cluster::start();
        let relay = Relay::open(&cluster.database.url);
        let by_relay = [("STORE__URL", relay.url.as_str())];
        cluster.start_role("projector", "projector", &by_relay);
        let servers = ["api-2", "api-3"].map(|name| cluster.start_another_api(name, &by_relay));
        let fixture = Self { cluster, relay, servers };
        for server in 0..2 {
            until("it is ready", || (fixture.get(server, "/readyz").0 == 200).then_some(()));
        }
        fixture
    }

    fn client(&self, server: usize) -> Client {
        let (_, key) = self.cluster.api();
        Client::builder(&self.servers[server]).key(&key).timeout(Duration::from_secs(60)).build().unwrap()
    }

    fn get(&self, server: usize, path: &str) -> (u16, Value) {
        let told = self.client(server).get(path).answer().unwrap();
        (told.status, told.body)
    }

    /// A call that has to succeed at once.
    fn done(&self, server: usize, method: Method, path: &str, body: Option<&Value>) -> Value {
        let client = self.client(server);
        let call = client.call(method, path);
        let call = match body {
            Some(body) => call.body(body),
            None => call,
        };
        let told = call.answer().unwrap();
        assert_eq!(told.status, 200, "{path}: {}", told.body);
        told.body
    }

    fn post(&self, server: usize, path: &str, body: &Value) -> Value {
        self.done(server, Method::Post, path, Some(body))
    }

    /// Nobody reaches the database any more; both interfaces say so where they need it, and stay ready.
    fn cut(&mut self) {
        self.relay.cut();
        for server in 0..2 {
            let (status, body) = self.get(server, "/api/batches");
            assert_eq!((status, &body["code"]), (503, &json!("tables_unavailable")), "{body}");
            assert!(
                body["detail"].as_str().unwrap().contains("database of the read tables is away"),
                "{body}"
            );
            assert_eq!(self.get(server, "/readyz").0, 200);
        }
    }

    /// Until both interfaces know the key of this name.
    fn define_key(&self, app: &str) {
        self.post(0, "/api/keys", &json!({"app": app, "secret": SECRET, "role": "viewer"}));
        for server in 0..2 {
            until("the key is known", || (self.answers(server, app) != 401).then_some(()));
        }
    }

    /// What a call with this key is answered that needs no table.
    fn answers(&self, server: usize, app: &str) -> u16 {
        let key = format!("{app}:{SECRET}");
        let client = Client::builder(&self.servers[server]).key(&key).build().unwrap();
        client.get("/api/level").answer().unwrap().status
    }

    /// An open event stream; when it ended.
    fn stream(&self, server: usize, app: &str) -> JoinHandle<Instant> {
        let address = self.servers[server].trim_start_matches("http://").to_owned();
        let mut stream = TcpStream::connect(&address).unwrap();
        let request = format!(
            "GET /api/events?from=start&type=alarm HTTP/1.1\r\nhost: {address}\r\nauthorization: Bearer {app}:{SECRET}\r\n\r\n"
        );
        stream.write_all(request.as_bytes()).unwrap();
        let mut head = [0_u8; 12];
        stream.read_exact(&mut head).unwrap();
        assert_eq!(&head, b"HTTP/1.1 200");
        thread::spawn(move || {
            // The last chunk is empty; the connection may go instead.
            let mut lines = BufReader::new(stream).lines().map_while(Result::ok);
            lines.find(|line| line == "0");
            Instant::now()
        })
    }

    /// Revokes the key by one interface: within a second both refuse it, and its streams are over.
    fn revoke(&self, app: &str) {
        let streams = [0, 1].map(|server| self.stream(server, app));
        assert!(streams.iter().all(|stream| !stream.is_finished()));
        self.done(0, Method::Delete, &format!("/api/keys/{app}"), None);
        let revoked_at = Instant::now();
        assert_eq!(self.answers(0, app), 401, "whoever revoked it there finds it so");
        until("the other interface refuses it", || (self.answers(1, app) == 401).then_some(()));
        let refused = revoked_at.elapsed();
        let ended = streams.map(|stream| stream.join().unwrap().saturating_duration_since(revoked_at));
        println!("{app}: refused everywhere after {refused:?}, streams ended after {ended:?}");
        assert!(refused < SECOND && ended.iter().all(|took| *took < SECOND), "{refused:?}, {ended:?}");
    }
}

/// OPS-4: while nobody reaches the tables' database, batches are killed, jobs submitted and run, tasks pulled, given back and
/// completed by every interface, executors run what comes of it, and the journal has all of it; once the database is back, the
/// tables show it.
#[test]
fn work_goes_on_while_the_tables_database_is_away() {
    let mut fixture = Fixture::start();
    fixture.cluster.start_executor("executor-1", 1_000);
    fixture.cluster.apply(JOBS);
    let id = |job: &str| fixture.cluster.json(&["job", "show", job])["id"].as_i64().unwrap();
    let (long, nothing) = (id("demo/long"), id("demo/nothing"));
    let (server, key) = fixture.cluster.api();
    let before = Clients::new(&server, &key, "demo");
    before.assign(&["ann", "bob"]);
    let task = before.task(&json!({"dispatch_times": 2}));
    let victim = fixture.post(0, &format!("/api/jobs/{long}/run"), &json!({}))["batch"].as_i64().unwrap();
    let is_running = || fixture.get(0, &format!("/api/batches/{victim}")).1["state"] == "running";
    until("it runs", || is_running().then_some(()));

    fixture.cut();
    fixture.post(0, &format!("/api/batches/{victim}/kill"), &json!({"reason": "without tables"}));
    let clients = [0, 1].map(|server| Clients::new(&fixture.servers[server], &key, "demo"));
    let given = |client: &Clients, user: &str| client.gets(user)["grant"].as_i64().unwrap();
    let back = given(&clients[1], "ann");
    assert_eq!(clients[0].give_back("ann", back).status, 200);
    let grant = given(&clients[0], "bob");
    assert_eq!(clients[1].complete("bob", grant, "fine").status, 200);
    let run = fixture.post(1, &format!("/api/jobs/{nothing}/run"), &json!({}))["batch"].as_i64().unwrap();
    let submit = json!({"job_name": "once", "user": "ann", "job_type": "noop", "command": "", "group_id": 1});
    let submitted = fixture.post(0, "/api/job/submit", &submit);
    assert_eq!(submitted["accept"], true, "{submitted}");
    let submitted = submitted["job_id"].as_i64().unwrap();

    let mut journal = fixture.cluster.journal();
    until("the journal has all of it", || {
        let (mut killed, mut ran, mut completed, mut returned, mut accepted, mut done) = Default::default();
        let mut of_submitted = None;
        for event in journal.events() {
            match event {
                Event::Batch(BatchEvent::Finished { batch, result, .. }) => {
                    killed |= batch.0 == victim && *result == BatchResult::Killed;
                    ran |= batch.0 == run && *result == BatchResult::Success;
                    done |= Some(*batch) == of_submitted && *result == BatchResult::Success;
                }
                Event::Batch(BatchEvent::Generated { batch, job, .. }) if job.0 == submitted => {
                    of_submitted = Some(*batch);
                }
                Event::Task(TaskEvent::Completed { grant: of, .. }) => completed |= of.0 == grant,
                Event::Task(TaskEvent::GrantReturned { grant: of, .. }) => returned |= of.0 == back,
                Event::Job(JobEvent::Submitted { definition }) => accepted |= definition.id.0 == submitted,
                _ => {}
            }
        }
        let all: [bool; 6] = [killed, ran, completed, returned, accepted, done];
        println!("killed, ran, completed, returned, submitted, done: {all:?}");
        all.iter().all(|it| *it).then_some(())
    });
    assert_eq!(fixture.get(1, "/api/batches").0, 503, "the database is still away");

    fixture.relay.mend();
    let result = |batch: i64| fixture.get(1, &format!("/api/batches/{batch}")).1["result"].clone();
    until("the tables show it", || {
        let once = fixture.get(0, &format!("/api/batches?job={submitted}")).1["items"][0]["result"].clone();
        (result(victim) == "killed" && result(run) == "success" && once == "success").then_some(())
    });
    before.comes_to(&task, &[("completed", 1), ("live", 0)]);
    let report = fixture.cluster.json(&["verify"]);
    assert_eq!(report["difference_count"], 0, "{report}");
    let checked = fixture.cluster.json(&["verify", "--journal"]);
    assert_eq!(checked["finding_count"], 0, "{checked:#}");
}

/// API-5, OPS-4: a key that one interface revokes is refused by the other one within a second, and its streams at both are over,
/// with the tables' database and without it.
#[test]
fn a_revoked_key_ends_at_every_interface_within_a_second() {
    let mut fixture = Fixture::start();
    ["first", "second"].iter().for_each(|app| fixture.define_key(app));
    fixture.revoke("first");
    fixture.cut();
    fixture.revoke("second");
}
