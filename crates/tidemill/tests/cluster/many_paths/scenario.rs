//! What happens, and what has to come of it.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::path::Path;
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::{Duration, Instant};

use futures_util::{StreamExt, stream};
use hdfs_native::{Client, WriteOptions};
use jiff::SignedDuration;
use serde_json::Value;
use tidemill_model::Timestamp;

use super::feed::{self, Told};
use super::proxy::Proxy;
use crate::hdfs::{PrivateHdfs, client};

/// Short timeouts, as a site with a name node nearby would have them; the rhythm is the default one.
pub(crate) const SETTINGS: [(&str, &str); 2] =
    [("PROBER__PATHS__HDFS__LIMITS__TIMEOUT_MS", "2000"), ("PROBER__PATHS__MAX_PAUSE_MS", "4000")];

/// DEP-4: a path is found within this and one pass.
const LONGEST: Duration = Duration::from_secs(30);
/// What a pass over all paths may take, for every thousand of them.
const PASS: Duration = Duration::from_secs(1);
/// Jobs that are applied at once.
const AT_ONCE: usize = 1_000;
/// All the rest is over within this, for every thousand batches, also with other tests beside.
const PATIENCE: Duration = Duration::from_secs(20);

/// How much of it.
#[derive(Clone, Copy)]
pub(crate) struct Scale {
    batches: usize,
    paths: usize,
}

impl Scale {
    /// As the environment says; by default a tenth.
    pub(crate) fn from_environment() -> Self {
        let number = |name: &str, default: usize| {
            std::env::var(name)
                .map_or(default, |text| text.parse().unwrap_or_else(|_| panic!("{name}: {text:?}")))
        };
        let scale = Self {
            batches: number("TIDEMILL_PATHS_BATCHES", 10_000),
            paths: number("TIDEMILL_PATHS_PATHS", 1_000),
        };
        assert!(
            scale.paths >= 10 && scale.batches.is_multiple_of(scale.paths),
            "batches are a multiple of paths"
        );
        scale
    }

    fn thousands(of: usize) -> u32 {
        u32::try_from(of.div_ceil(1_000)).unwrap()
    }

    fn patience(self) -> Duration {
        Duration::from_secs(60) + PATIENCE * Self::thousands(self.batches)
    }

    fn bound(self) -> Duration {
        LONGEST + PASS * Self::thousands(self.paths)
    }
}

/// Where it happens.
pub(crate) trait Fixture {
    /// The group that has workers.
    fn group(&self) -> &'static str;
    fn apply_file(&self, file: &Path);
    fn json(&self, arguments: &[&str]) -> Value;
    /// Address and key.
    fn api(&self) -> (String, String);
    /// What else goes wrong while the name node is down.
    fn disturb(&mut self);
}

/// A path, and when it was there.
type Made = BTreeMap<String, Timestamp>;

pub(crate) fn run(name: &str, fixture: &mut impl Fixture, scale: Scale) {
    let begun_at = Instant::now();
    let say = |what: String| println!("{name}, {:5.1} s: {what}", begun_at.elapsed().as_secs_f64());
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let hdfs = PrivateHdfs::start();
    let name_node: SocketAddr = hdfs.url.trim_start_matches("hdfs://").parse().unwrap();
    let proxy = Proxy::open(name_node);
    say(format!("HDFS at {name_node}, and by {}", proxy.address));

    let paths: Vec<String> = (1..scale.paths).map(|n| format!("/c2/{}/{n}", n % 100)).collect();
    let hung = format!("hdfs://{}/c2/hung", proxy.address);
    let told = feed::follow(fixture.api());
    wait_for(fixture, scale, &hdfs.url, &paths, &hung);
    let per_path = scale.batches / scale.paths;
    until(scale, "all batches wait", &told, |told| told.generated == scale.batches + per_path);
    say(format!("{} batches wait for {} paths", scale.batches, scale.paths));

    proxy.hold(true);
    let (first, second) = paths.split_at(paths.len() / 2);
    let made = runtime.block_on(make(&client(&hdfs.url), first));
    say(format!("first half: found {}", until_found(scale, &told, &hdfs.url, &made)));

    until(scale, "the hung path is told of", &told, |told| {
        told.late.iter().any(|authority| hung.starts_with(&format!("{authority}/")))
    });
    say(format!("the name node has answered {} look-ups and listings so far", hdfs.calls()));
    hdfs.signal("-KILL");
    fixture.disturb();
    until(scale, "the dead name node is told of", &told, |told| told.late.contains(&hdfs.url));
    hdfs.start_again();
    say("the name node was killed and answers again".to_owned());
    let made = runtime.block_on(make(&client(&hdfs.url), second));
    say(format!("second half: found {}", until_found(scale, &told, &hdfs.url, &made)));

    assert!(!told.lock().unwrap().found.contains_key(&hung), "it hangs");
    let mut made = runtime.block_on(make(&client(&hdfs.url), &["/c2/hung".to_owned()]));
    proxy.hold(false);
    let answers_at = Timestamp::from(jiff::Timestamp::now());
    made.values_mut().for_each(|at| *at = answers_at);
    let found = until_found(scale, &told, hung.trim_end_matches("/c2/hung"), &made);
    say(format!("the hung one: found {found}"));

    until(scale, "all batches run", &told, |told| told.succeeded == scale.batches + per_path);
    let told = told.lock().unwrap();
    assert_eq!((told.ended_otherwise, told.withdrawn), (0, 0));
    assert_eq!(told.found.len(), scale.paths);
    say(format!("all {} batches have run", scale.batches));
    say(format!("the name node has answered {} look-ups and listings since its second start", hdfs.calls()));
    if let Some(status) = fixture.json(&["status"]).get("paths") {
        say(format!("the prober: {status}"));
    }
}

/// One job for each path, as many batches of it as there are for a path; a parent's batches bring them.
fn wait_for(fixture: &impl Fixture, scale: Scale, url: &str, paths: &[String], hung: &str) {
    let group = fixture.group();
    let inputs = paths.iter().map(|path| format!("{url}{path}")).chain([hung.to_owned()]);
    let waits = inputs.enumerate().map(|(number, input)| {
        let job = format!("name: wait-{number}, group: {group}, type: noop, parents: [start]");
        format!("- {{{job}, inputs: ['{input}']}}")
    });
    let jobs: Vec<String> =
        [format!("- {{name: start, group: {group}, type: noop}}")].into_iter().chain(waits).collect();
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("jobs.yaml");
    for jobs in jobs.chunks(AT_ONCE) {
        std::fs::write(&file, format!("jobs:\n{}\n", jobs.join("\n"))).unwrap();
        fixture.apply_file(&file);
    }
    let start = format!("{group}/start");
    for number in 0..scale.batches / scale.paths {
        let logical_time = Timestamp::UNIX_EPOCH + SignedDuration::from_hours(number as i64);
        fixture.json(&["job", "run", &start, "--concurrent", "--logical-time", &logical_time.to_string()]);
    }
}

/// Makes these, some at once; when each was there.
async fn make(client: &Client, paths: &[String]) -> Made {
    let one = |path: &String| {
        let path = path.clone();
        async move {
            let mut writer = client.create(&path, WriteOptions::default()).await.unwrap();
            // From its creation on it exists; it is closed later.
            let at = Timestamp::from(jiff::Timestamp::now());
            writer.close().await.unwrap();
            (path, at)
        }
    };
    stream::iter(paths).map(one).buffer_unordered(32).collect().await
}

/// Waits until all of these are found, in time; how long that took, for people.
fn until_found(scale: Scale, told: &Arc<Mutex<Told>>, url: &str, made: &Made) -> String {
    let whole: Vec<(String, Timestamp)> =
        made.iter().map(|(path, at)| (format!("{url}{path}"), *at)).collect();
    until(scale, "they are found", told, |told| whole.iter().all(|(path, _)| told.found.contains_key(path)));
    let told = told.lock().unwrap();
    let took = whole.iter().map(|(path, at)| told.found[path].duration_since(*at));
    let mut took: Vec<f64> = took.map(|took| took.as_secs_f64().max(0.0)).collect();
    took.sort_unstable_by(f64::total_cmp);
    let (longest, bound) = (took[took.len() - 1], scale.bound());
    assert!(longest <= bound.as_secs_f64(), "found after {longest} s; {bound:?} are allowed");
    let within = |part: usize| took[(took.len() * part / 100).min(took.len() - 1)];
    format!(
        "{} within {longest:.1} s, half of them {:.1} s, 99 % {:.1} s",
        took.len(),
        within(50),
        within(99)
    )
}

fn until(scale: Scale, what: &str, told: &Arc<Mutex<Told>>, is_so: impl Fn(&Told) -> bool) {
    let begun_at = Instant::now();
    loop {
        let told = told.lock().unwrap();
        if is_so(&told) {
            return;
        }
        let Told { found, generated, succeeded, late, .. } = &*told;
        let seen =
            format!("{} found, {generated} generated, {succeeded} succeeded, late {late:?}", found.len());
        assert!(begun_at.elapsed() < scale.patience(), "not within {:?}: {what}; {seen}", scale.patience());
        drop(told);
        thread::sleep(Duration::from_millis(50));
    }
}
