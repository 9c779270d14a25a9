//! What looks outside for the owners: for paths, for the quality service, for third parties' reports.

use std::sync::Arc;

use tidemill_cli::{Done, Failure};
use tidemill_cluster::{AskOwner, GroupShards, Submitter};
use tidemill_log::Log;
use tidemill_model::{ProberStatus, ShardId};
use tidemill_producers::Outside;
use tidemill_producers::prober::{self, Prober};
use tidemill_producers::quality::{self, Quality};
use tidemill_producers::third_party::{self, ThirdParties};
use tidemill_seal::OwnersSecret;
use tidemill_store::{ReadTables, Tables};

use super::tls;
use crate::config::Settings;

/// These, running.
pub(crate) struct Producers {
    prober: Prober,
    quality: Option<Quality>,
    third_parties: Option<ThirdParties>,
}

impl Producers {
    /// Starts what the settings name; the prober always. `api` is where the interface listens, if that is known.
    pub(crate) fn start(settings: &Settings, outside: &Outside, api: Option<String>) -> Done<Self> {
        let cannot = |what: &str| {
            let what = format!("cannot start {what}");
            move |error: tidemill_producers::Error| Failure::caused(what, &error)
        };
        let prober = prober::start(settings.prober.clone(), outside.clone()).map_err(cannot("the prober"))?;
        let mut config = settings.quality.clone();
        config.answer_url = config.answer_url.or(api);
        let tls = config.is_encrypted().then(|| tls::for_clients(settings)).transpose()?;
        let quality = quality::start(config, outside.clone(), tls);
        let quality = quality.map_err(cannot("to ask the quality service"))?;
        let third_parties = third_party::start(&settings.third_party, outside.clone());
        let third_parties = third_parties.map_err(cannot("to read reports of third parties"))?;
        Ok(Self { prober, quality, third_parties })
    }

    /// How the prober does, for whoever asks again and again.
    pub(crate) fn probes(&self) -> Arc<dyn Fn() -> ProberStatus + Send + Sync> {
        Arc::new(self.prober.watch())
    }

    /// Whether one of them has ended by itself.
    pub(crate) fn has_ended(&self) -> bool {
        self.prober.has_ended()
            || self.quality.as_ref().is_some_and(Quality::has_ended)
            || self.third_parties.as_ref().is_some_and(ThirdParties::has_ended)
    }

    /// Ends all of them; what they had begun is asked for again by the owners.
    pub(crate) fn stop(self) -> Done {
        let third_parties = self.third_parties.map_or(Ok(()), ThirdParties::stop);
        let quality = self.quality.map_or(Ok(()), Quality::stop);
        let ended = third_parties.and(quality).and(self.prober.stop());
        ended.map_err(|error| Failure::caused("what looks outside has failed", &error))
    }
}

/// What connects them to the rest: shards as the tables have them.
pub(crate) fn outside(
    log: &Arc<dyn Log>,
    tables: &Arc<dyn Tables>,
    submitter: &Submitter,
    internal_key: &str,
    ask: AskOwner,
) -> Outside {
    Outside {
        log: Arc::clone(log),
        submitter: submitter.clone(),
        secret: OwnersSecret::of(internal_key),
        ask,
        shards: shards(Arc::clone(tables)),
        instance: submitter.instance().as_str().into(),
    }
}

fn shards(tables: Arc<dyn Tables>) -> GroupShards {
    Arc::new(move || {
        let groups = tables.groups().map_err(|error| error.to_string())?;
        let number = |shard: i64| u16::try_from(shard).map(ShardId).map_err(|error| error.to_string());
        groups.iter().map(|group| number(group.shard)).collect()
    })
}
