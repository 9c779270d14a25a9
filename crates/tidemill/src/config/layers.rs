//! One value, laid over by layer after layer, that remembers which layer set what.

use std::collections::BTreeMap;
use std::fmt;
use std::path::Path;

use serde_json::Value;
use tidemill_cli::{Done, Failure};

use super::{Settings, defaults, env, settings};

/// Where a value came from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Origin {
    Default,
    File(String),
    Environment(String),
    Flag(&'static str),
}

impl fmt::Display for Origin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Origin::Default => f.write_str("default"),
            Origin::File(file) => f.write_str(file),
            Origin::Environment(name) => f.write_str(name),
            Origin::Flag(flag) => f.write_str(flag),
        }
    }
}

/// An option of the command line that sets something.
#[derive(Debug, Clone)]
pub(crate) struct Flag {
    path: &'static str,
    value: String,
    name: &'static str,
}

impl Flag {
    pub(crate) fn new(path: &'static str, value: impl Into<String>, name: &'static str) -> Self {
        Self { path, value: value.into(), name }
    }
}

/// What holds, and why.
#[derive(Debug, Clone)]
pub(crate) struct Loaded {
    pub(crate) settings: Settings,
    /// Every setting by its path.
    pub(crate) values: BTreeMap<String, (Value, Origin)>,
}

/// Lays `file` (its name and text), `vars` and `flags` over the defaults.
pub(crate) fn load(file: Option<(&Path, &str)>, vars: &[(String, String)], flags: &[Flag]) -> Done<Loaded> {
    let mut layers = Layers::new();
    if let Some((path, text)) = file {
        let name = path.display().to_string();
        let value: Value = toml::from_str(text).map_err(|error| {
            Failure::bad_input(format!("{name} is not TOML: {}", error.to_string().trim_end()))
        })?;
        layers.overlay("", value, &Origin::File(name))?;
    }
    for (name, text) in vars {
        if let Some(path) = env::path(name) {
            layers.text(&path, text, Origin::Environment(name.clone()))?;
        }
    }
    for flag in flags {
        layers.text(flag.path, &flag.value, Origin::Flag(flag.name))?;
    }
    layers.finish()
}

struct Layers {
    /// Leaves by path.
    values: BTreeMap<String, (Value, Origin)>,
}

impl Layers {
    fn new() -> Self {
        let mut values = BTreeMap::new();
        leaves("", &defaults(), &mut |path, value| {
            values.insert(path.to_owned(), (value.clone(), Origin::Default));
        });
        Self { values }
    }

    fn overlay(&mut self, path: &str, value: Value, origin: &Origin) -> Done {
        if self.values.contains_key(path) {
            return self.set(path, value, origin.clone());
        }
        match value {
            Value::Object(fields) if path.is_empty() || self.is_section(path) => {
                for (name, value) in fields {
                    self.overlay(&join(path, &name), value, origin)?;
                }
                Ok(())
            }
            _ if self.is_section(path) => {
                Err(Failure::bad_input(format!("{path}: {value}: must be a section, from {origin}")))
            }
            _ => Err(self.unknown(path, origin)),
        }
    }

    /// Sets from a text, by the form of the default.
    fn text(&mut self, path: &str, text: &str, origin: Origin) -> Done {
        let Some((default, _)) = self.values.get(path) else {
            return Err(self.unknown(path, &origin));
        };
        let value = env::value(default, text);
        // What is not set by default can be a text, a number, true or false, or fields: whichever the setting takes.
        if default.is_null()
            && let Ok(other @ (Value::Number(_) | Value::Bool(_) | Value::Object(_))) =
                serde_json::from_str(text.trim())
            && fits(path, &value).is_err()
        {
            return self.set(path, other, origin);
        }
        self.set(path, value, origin)
    }

    /// Sets one leaf; what the settings' types say about it is told with its path.
    fn set(&mut self, path: &str, value: Value, origin: Origin) -> Done {
        if let Err(error) = fits(path, &value) {
            let shown = if settings::SECRET.contains(&path) { "…".to_owned() } else { value.to_string() };
            let rule = match error.to_string() {
                rule if rule.contains("invalid socket address") => {
                    "must be ip:port, as in 127.0.0.1:8780".to_owned()
                }
                rule => rule,
            };
            return Err(Failure::bad_input(format!("{path}: {shown}: {rule}, from {origin}"))
                .hint("`tidemill config schema` shows every setting with its form and range"));
        }
        self.values.insert(path.to_owned(), (value, origin));
        Ok(())
    }

    fn is_section(&self, path: &str) -> bool {
        let prefix = format!("{path}.");
        self.values.keys().any(|key| key.starts_with(&prefix))
    }

    fn unknown(&self, path: &str, origin: &Origin) -> Failure {
        let failure = Failure::bad_input(format!("there is no setting {path}, from {origin}"));
        let section = path.rsplit_once('.').map_or("", |(section, _)| section);
        let siblings: Vec<_> = self
            .values
            .keys()
            .filter(|key| key.rsplit_once('.').map_or("", |(section, _)| section) == section)
            .map(String::as_str)
            .collect();
        match siblings.is_empty() {
            true => failure.hint("`tidemill config show` lists every setting"),
            false => failure.hint(format!("there are {}", siblings.join(", "))),
        }
    }

    fn finish(self) -> Done<Loaded> {
        let mut whole = defaults();
        for (path, (value, _)) in &self.values {
            place(&mut whole, path, value.clone());
        }
        let settings: Settings =
            serde_json::from_value(whole).map_err(|error| Failure::bad_input(error.to_string()))?;
        if let Err((path, rule)) = settings.check() {
            return Err(Failure::bad_input(match self.values.get(&path) {
                Some((_, origin)) if settings::SECRET.contains(&&*path) => {
                    format!("{path}: …: {rule}, from {origin}")
                }
                Some((value, origin)) => format!("{path}: {value}: {rule}, from {origin}"),
                None => rule,
            }));
        }
        Ok(Loaded { settings, values: self.values })
    }
}

/// Whether the setting's type takes the value.
fn fits(path: &str, value: &Value) -> Result<(), serde_json::Error> {
    let mut alone = defaults();
    place(&mut alone, path, value.clone());
    serde_json::from_value::<Settings>(alone).map(drop)
}

fn join(path: &str, name: &str) -> String {
    if path.is_empty() { name.to_owned() } else { format!("{path}.{name}") }
}

/// Visits every setting of `value`; open maps are settings as a whole.
pub(super) fn leaves(path: &str, value: &Value, visit: &mut impl FnMut(&str, &Value)) {
    match value {
        Value::Object(fields) if !settings::OPEN.contains(&path) => {
            for (name, value) in fields {
                leaves(&join(path, name), value, visit);
            }
        }
        _ => visit(path, value),
    }
}

/// Puts `value` at `path`, whose sections exist.
fn place(whole: &mut Value, path: &str, value: Value) {
    let mut at = whole;
    for name in path.split('.') {
        at = at.get_mut(name).expect("paths of settings exist in the defaults");
    }
    *at = value;
}

#[cfg(test)]
mod tests {
    use super::*;

    fn origin_and_value(file: Option<&str>, vars: &[(&str, &str)], flags: &[Flag], path: &str) -> String {
        let vars: Vec<_> =
            vars.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect();
        match load(file.map(|text| (Path::new("t.toml"), text)), &vars, flags) {
            Ok(loaded) => {
                let (value, origin) = &loaded.values[path];
                format!("{value} from {origin}")
            }
            Err(failure) => failure.to_string(),
        }
    }

    /// OPS-1: defaults < file < environment < options.
    #[test]
    fn later_layers_win_and_are_named() {
        let file = Some("[api]\nlisten = \"127.0.0.1:1\"\n");
        let var = [("TIDEMILL__API__LISTEN", "127.0.0.1:2")];
        let flag = [Flag::new("api.listen", "127.0.0.1:3", "--listen")];
        let path = "api.listen";
        assert_eq!(origin_and_value(None, &[], &[], path), "\"127.0.0.1:8780\" from default");
        assert_eq!(origin_and_value(file, &[], &[], path), "\"127.0.0.1:1\" from t.toml");
        assert_eq!(origin_and_value(file, &var, &[], path), "\"127.0.0.1:2\" from TIDEMILL__API__LISTEN");
        assert_eq!(origin_and_value(file, &var, &flag, path), "\"127.0.0.1:3\" from --listen");
    }

    #[test]
    fn unknown_settings_are_refused_by_name_whatever_layer_they_are_in() {
        let told = origin_and_value(Some("[api]\nlisten_on = 1\n"), &[], &[], "");
        assert!(told.starts_with("error: there is no setting api.listen_on, from t.toml"), "{told}");
        assert!(told.contains("api.listen"), "{told}");
        let told = origin_and_value(None, &[("TIDEMILL__APY__LISTEN", "x")], &[], "");
        assert!(
            told.starts_with("error: there is no setting apy.listen, from TIDEMILL__APY__LISTEN"),
            "{told}"
        );
        let told = origin_and_value(Some("colour = 1\n"), &[], &[], "");
        assert!(told.starts_with("error: there is no setting colour, from t.toml"), "{told}");
    }

    #[test]
    fn values_of_the_wrong_form_are_told_with_their_setting() {
        for (file, start) in [
            ("[log]\npartitions = \"many\"\n", "error: log.partitions: \"many\": invalid type"),
            ("[log]\nbackend = \"paper\"\n", "error: log.backend: \"paper\": unknown variant"),
            ("api = 3\n", "error: api: 3: must be a section"),
            ("[log]\npartitions = 0\n", "error: log.partitions: 0: must be 1 to 4096"),
            ("[sinks.mysql]\nurl = \"a:secret@b\"\n", "error: sinks.mysql.url: …: has to be mysql://"),
            (
                "[sinks.parquet]\nroot = \"here\"\n",
                "error: sinks.parquet.root: \"here\": has to be an absolute",
            ),
            ("[sinks.paper]\nurl = \"x\"\n", "error: there is no setting sinks.paper"),
            (
                "[log.security]\nprotocol = \"ssl\"\npassword = \"secret\"\n",
                "error: log.security.password: …: goes with log.security.protocol = \"sasl_ssl\"",
            ),
            (
                "[log.kafka]\n\"sasl.password\" = \"secret\"\n",
                "error: log.kafka: …: sasl.password has a setting of its own: remove it here and set log.security",
            ),
            ("[redis]\nca_file = \"/ca\"\n", "error: redis.ca_file: \"/ca\": goes with a url of rediss://"),
            (
                "[log]\ncommand_retention_days = 0\n",
                "error: log.command_retention_days: 0: must be 1 to 36500",
            ),
        ] {
            let told = origin_and_value(Some(file), &[], &[], "");
            assert!(told.starts_with(start), "{file}: {told}");
            assert!(told.contains("from t.toml"), "{told}");
        }
    }

    #[test]
    fn environment_gives_numbers_lists_and_maps() {
        let vars = [
            ("TIDEMILL__LOG__PARTITIONS", "8"),
            ("TIDEMILL__LOG__BROKERS", "a:1, b:2"),
            ("TIDEMILL__EXECUTOR__SLOTS", "shell=4,noop=9"),
            ("TIDEMILL__LOG__SINGLE_BROKER", "true"),
        ];
        let shown = |path| origin_and_value(None, &vars, &[], path);
        assert_eq!(shown("log.partitions"), "8 from TIDEMILL__LOG__PARTITIONS");
        assert_eq!(shown("log.brokers"), "[\"a:1\",\"b:2\"] from TIDEMILL__LOG__BROKERS");
        assert_eq!(shown("executor.slots"), "{\"noop\":9,\"shell\":4} from TIDEMILL__EXECUTOR__SLOTS");
        assert_eq!(shown("log.single_broker"), "true from TIDEMILL__LOG__SINGLE_BROKER");
    }
}
