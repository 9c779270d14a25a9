//! What settings have to keep together: ranges, and what goes with what.

use tidemill_model::FieldError;

use super::log::LogBackend;
use super::settings::Settings;

impl Settings {
    /// What no single field can know: ranges and what must come together. The path that is wrong, and
    /// the rule.
    pub(crate) fn check(&self) -> Result<(), (String, String)> {
        self.log.check()?;
        self.check_secrets()?;
        if self.executor.listen.parse::<std::net::SocketAddr>().is_err() {
            return Err(("executor.listen".to_owned(), "must be ip:port, as in 0.0.0.0:8790".to_owned()));
        }
        if self.projector.min_write_interval_ms > 500 {
            return Err(("projector.min_write_interval_ms".to_owned(), "must be 0 to 500".to_owned()));
        }
        if self.projector.pull_retention_days > 36_500 {
            return Err(("projector.pull_retention_days".to_owned(), "must be 0 to 36500".to_owned()));
        }
        let section = |name: &str| {
            let name = name.to_owned();
            move |error: FieldError| (format!("{name}.{}", error.field), error.rule)
        };
        self.log.security.check().map_err(section("log.security"))?;
        self.archive.check().map_err(section("archive"))?;
        self.snapshots.check().map_err(section("snapshots"))?;
        self.logs.check().map_err(section("logs"))?;
        self.process.check().map_err(section("process"))?;
        self.redis.check().map_err(section("redis"))?;
        self.prober.check().map_err(section("prober"))?;
        self.quality.check().map_err(section("quality"))?;
        self.third_party.check().map_err(section("third_party"))?;
        self.sinks.check().map_err(section("sinks"))?;
        if self.third_party.topic.is_some() && self.log.backend == LogBackend::Embedded {
            let rule = "needs log.backend = \"kafka\"; here third parties report by REST";
            return Err(("third_party.topic".to_owned(), rule.to_owned()));
        }
        // The rule begins with the field's name.
        let named = |section: &'static str| {
            move |rule: String| {
                let field = rule.split(' ').next().unwrap_or_default();
                (format!("{section}.{field}"), rule)
            }
        };
        self.tls.check()?;
        self.http.check().map_err(named("http"))?;
        self.api.check().map_err(named("api"))?;
        Ok(())
    }

    /// Each secret opens one thing: all are too long to be guessed, and no two are the same.
    fn check_secrets(&self) -> Result<(), (String, String)> {
        let secrets = [
            ("internal_key", self.internal_key.as_deref()),
            ("logs_key", self.logs_key.as_deref()),
            ("operator_key", self.operator_key.as_deref().filter(|key| !key.is_empty())),
            ("api.internal_key", Some(&*self.api.internal_key).filter(|key| !key.is_empty())),
            ("api.logs_key", Some(&*self.api.logs_key).filter(|key| !key.is_empty())),
            ("api.operator_key", Some(&*self.api.operator_key).filter(|key| !key.is_empty())),
        ];
        let given = secrets.iter().filter_map(|(name, key)| Some((*name, (*key)?)));
        let what = |name: &'static str| name.rsplit('.').next().unwrap_or(name);
        for (name, key) in given.clone() {
            if key.len() < 16 {
                return Err((name.to_owned(), "must have at least 16 characters".to_owned()));
            }
            if let Some((other, _)) =
                given.clone().find(|(other, same)| what(other) != what(name) && *same == key)
            {
                let rule =
                    format!("must differ from {other}, for each of them opens one thing only; draw another");
                return Err((name.to_owned(), rule));
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// API-5, OPS-3: a secret that opens two ports is refused, and an empty one is none.
    #[test]
    fn each_secret_opens_one_external_dependency() {
        let with = |internal: &str, logs: &str, operator: &str| {
            let some = |key: &str| Some(key.to_owned());
            let settings = Settings {
                internal_key: some(internal),
                logs_key: some(logs),
                operator_key: some(operator),
                ..Settings::default()
            };
            settings.check().map_err(|(field, _)| field)
        };
        let (one, two, three) = ("one-one-one-one-1", "two-two-two-two-2", "three-three-three");
        assert_eq!(with(one, two, three), Ok(()));
        assert_eq!(with(one, two, ""), Ok(()));
        assert_eq!(with(one, one, three), Err("internal_key".to_owned()));
        assert_eq!(with(one, two, two), Err("logs_key".to_owned()));
        assert_eq!(with(one, two, "short"), Err("operator_key".to_owned()));
        assert_eq!(with("", two, three), Err("internal_key".to_owned()));
    }
}
