//! Back ends that do as a test says.

#[cfg(feature = "hdfs")]
pub(crate) mod hdfs;
use std::collections::{BTreeMap, HashMap};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use tidemill_model::Timestamp;
use tidemill_probe::{
    Answer, Authority, Backend, Config, Fault, Found, Hdfs, Limits, LocalBackend, Opener, Outcome, Page,
    Pages, Path, Question, Target,
};
use tokio::sync::Notify;

/// Short timeouts and pauses.
pub(crate) fn config() -> Config {
    Config {
        retry_pause_ms: 1,
        pause_ms: 50,
        max_pause_ms: 200,
        local: Limits { in_flight: 4, calls_per_s: 0, timeout_ms: 500 },
        hdfs: Hdfs { limits: Limits { in_flight: 8, calls_per_s: 0, timeout_ms: 200 }, ..Hdfs::default() },
        ..Config::default()
    }
}

pub(crate) fn question(path: &str) -> Question {
    Question { path: Path::parse("path", path, None).unwrap(), mark: None }
}

pub(crate) fn absolute(path: &std::path::Path) -> String {
    path.to_str().unwrap().to_owned()
}

/// Outcomes by the text of the question.
pub(crate) fn outcomes(answers: Vec<Answer>) -> BTreeMap<String, Outcome> {
    answers.into_iter().map(|answer| (answer.question.to_string(), answer.outcome)).collect()
}

/// What a fake does when it is asked.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Does {
    Find,
    Miss,
    Fail,
    Refuse,
    Hang,
}

type Rule = dyn Fn(&str) -> Does + Send + Sync;

/// A back end that does as its rule says, and counts.
pub(crate) struct Fake {
    rule: Box<Rule>,
    listing: Option<(Vec<String>, usize)>,
    counts: Arc<Counts>,
}

#[derive(Default)]
struct Counts {
    looks: AtomicUsize,
    pages: AtomicUsize,
    renewals: AtomicUsize,
    under_way: AtomicUsize,
    most: AtomicUsize,
    idle: Notify,
}

impl Fake {
    pub(crate) fn answering(rule: impl Fn(&str) -> Does + Send + Sync + 'static) -> Self {
        Self { rule: Box::new(rule), listing: None, counts: Arc::default() }
    }

    /// Lists these paths, so many in a page; looks are done by the rule.
    pub(crate) fn listing(
        paths: Vec<String>,
        page: usize,
        rule: impl Fn(&str) -> Does + Send + Sync + 'static,
    ) -> Self {
        Self { listing: Some((paths, page)), ..Self::answering(rule) }
    }

    pub(crate) fn looks(&self) -> usize {
        self.counts.looks.load(Ordering::Relaxed)
    }

    pub(crate) fn pages(&self) -> usize {
        self.counts.pages.load(Ordering::Relaxed)
    }

    pub(crate) fn renewals(&self) -> usize {
        self.counts.renewals.load(Ordering::Relaxed)
    }

    pub(crate) fn under_way(&self) -> usize {
        self.counts.under_way.load(Ordering::Relaxed)
    }

    pub(crate) fn most_at_once(&self) -> usize {
        self.counts.most.load(Ordering::Relaxed)
    }

    pub(crate) async fn wait_until_idle(&self) {
        loop {
            let idle = self.counts.idle.notified();
            if self.under_way() == 0 {
                return;
            }
            idle.await;
        }
    }
}

/// A call under way.
struct UnderWay(Arc<Counts>);

impl UnderWay {
    fn begin(counts: &Arc<Counts>) -> Self {
        let now = counts.under_way.fetch_add(1, Ordering::Relaxed) + 1;
        counts.most.fetch_max(now, Ordering::Relaxed);
        Self(Arc::clone(counts))
    }
}

impl Drop for UnderWay {
    fn drop(&mut self) {
        self.0.under_way.fetch_sub(1, Ordering::Relaxed);
        self.0.idle.notify_one();
    }
}

impl Backend for Fake {
    fn look(&self, target: Target) -> BoxFuture<'static, Result<Found, Fault>> {
        self.counts.looks.fetch_add(1, Ordering::Relaxed);
        let does = (self.rule)(&target.inside);
        let under_way = UnderWay::begin(&self.counts);
        async move {
            let _under_way = under_way;
            tokio::task::yield_now().await;
            match does {
                Does::Find => Ok(Found { present: true, calls: 1 }),
                Does::Miss => Ok(Found { present: false, calls: 1 }),
                Does::Fail => Err(Fault::Unavailable("out of order".to_owned())),
                Does::Refuse => Err(Fault::Refused("not for you".to_owned())),
                Does::Hang => std::future::pending().await,
            }
        }
        .boxed()
    }

    fn changed_at(&self, inside: &str) -> BoxFuture<'static, Result<Option<Timestamp>, Fault>> {
        let looked = self.look(Target { inside: inside.to_owned(), mark: false });
        async move { Ok(looked.await?.present.then(|| Timestamp::constant(1))) }.boxed()
    }

    fn list(&self, directory: &str) -> Option<Box<dyn Pages>> {
        let (paths, page) = self.listing.as_ref()?;
        let below = format!("{}/", directory.trim_end_matches('/'));
        let names = paths.iter().filter_map(|path| path.strip_prefix(&below).map(str::to_owned)).collect();
        Some(Box::new(FakePages { names, page: *page, counts: Arc::clone(&self.counts) }))
    }

    fn looks_per_page(&self) -> usize {
        if self.listing.is_some() { 10 } else { usize::MAX }
    }

    fn retries_hung(&self) -> bool {
        true
    }

    fn renew(&self) {
        self.counts.renewals.fetch_add(1, Ordering::Relaxed);
    }
}

struct FakePages {
    names: Vec<String>,
    page: usize,
    counts: Arc<Counts>,
}

impl Pages for FakePages {
    fn next(&mut self) -> BoxFuture<'_, Result<Option<Page>, Fault>> {
        self.counts.pages.fetch_add(1, Ordering::Relaxed);
        let rest = self.names.split_off(self.page.min(self.names.len()));
        let names = std::mem::replace(&mut self.names, rest);
        let page = Page { complete_to: names.last().cloned(), last: self.names.is_empty(), names };
        std::future::ready(Ok(Some(page))).boxed()
    }
}

/// Fakes by name node.
#[derive(Clone, Default)]
pub(crate) struct Fakes(Arc<Mutex<HashMap<String, Arc<Fake>>>>);

impl Fakes {
    pub(crate) fn add(&self, name_node: &str, fake: Fake) -> Arc<Fake> {
        let fake = Arc::new(fake);
        self.0.lock().unwrap().insert(name_node.to_owned(), Arc::clone(&fake));
        fake
    }
}

impl Opener for Fakes {
    fn open(&self, authority: &Authority) -> Result<Arc<dyn Backend>, Fault> {
        match self.0.lock().unwrap().get(authority.name()) {
            Some(fake) => Ok(Arc::clone(fake) as Arc<dyn Backend>),
            None => Err(Fault::Refused("nobody of that name".to_owned())),
        }
    }
}

/// A local back end for each mount, as this makes it.
pub(crate) struct Locals<F>(pub(crate) F);

impl<F: Fn() -> LocalBackend + Send + Sync + 'static> Opener for Locals<F> {
    fn open(&self, _: &Authority) -> Result<Arc<dyn Backend>, Fault> {
        Ok(Arc::new((self.0)()))
    }
}
