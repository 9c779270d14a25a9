//! Where third parties report.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use tidemill_model::FieldError;

/// Reports of third parties on a topic. Unknown fields are refused; everything has a default.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Config {
    /// The whole name of a topic of the site, at the same brokers as the log, 1 to 249 letters, digits, `.`, `_`
    /// and `-`. It has to be there, and may have any number of partitions: reports of one code belong into one
    /// of them. Default none: third parties report by REST.
    pub topic: Option<String>,
}

impl Config {
    /// Checks the ranges.
    ///
    /// # Errors
    /// The first field that is outside its range, with its value and the rule.
    pub fn check(&self) -> Result<(), FieldError> {
        let Some(topic) = &self.topic else { return Ok(()) };
        let is_good = (1..=249).contains(&topic.len())
            && topic.chars().all(|c| c.is_ascii_alphanumeric() || matches!(c, '.' | '_' | '-'));
        if is_good {
            return Ok(());
        }
        Err(FieldError::new("topic", topic, "has to be 1 to 249 letters, digits, . _ and -"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn topics_that_no_broker_knows_are_refused() {
        let with = |topic: &str| Config { topic: Some(topic.to_owned()) }.check();
        assert!(Config::default().check().is_ok() && with("site.third-party_1").is_ok());
        for topic in ["", "a b", "a/b", &"x".repeat(250)] {
            assert_eq!(with(topic).unwrap_err().field, "topic");
        }
    }
}
