//! Calls of the interface, and what a caller may conclude from their answers.

use std::io::ErrorKind;
use std::time::Duration;

use serde_json::Value;
use ureq::Agent;

/// Longer than the interface itself waits for an outcome.
const PATIENCE: Duration = Duration::from_secs(13);
/// A connection that was silent for longer may be closed by the interface at any moment.
const IDLE: Duration = Duration::from_secs(5);
const CONNECT: Duration = Duration::from_millis(500);

/// The longest answer that is no JSON, bytes.
const LONGEST: u64 = 64 << 20;

/// What a caller knows after a call.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Answer {
    /// It was done.
    Ok(Value),
    /// It was not done.
    Refused(String),
    /// Nobody said.
    Unknown(String),
}

/// A caller of one interface.
#[derive(Clone)]
pub(crate) struct Rest {
    agent: Agent,
    server: String,
    key: String,
}

impl Rest {
    /// A caller with the key `APP:SECRET`.
    #[must_use]
    pub(crate) fn new(address: &str, key: &str) -> Self {
        let config = Agent::config_builder()
            .timeout_global(Some(PATIENCE))
            .timeout_connect(Some(CONNECT))
            .max_idle_age(IDLE)
            .http_status_as_error(false)
            .build();
        Self { agent: config.into(), server: format!("http://{address}"), key: key.to_owned() }
    }

    /// The application and the secret.
    #[must_use]
    pub(crate) fn key(&self) -> (&str, &str) {
        self.key.split_once(':').unwrap_or((&self.key, ""))
    }

    /// Reads.
    #[must_use]
    pub(crate) fn get(&self, path: &str) -> Answer {
        let request = self.agent.get(format!("{}{path}", self.server));
        judged(request.header("Authorization", format!("Bearer {}", self.key)).call())
    }

    /// Reads what is no JSON.
    ///
    /// # Errors
    /// Why there is no answer, or which one it is.
    pub(crate) fn bytes(&self, path: &str) -> Result<Vec<u8>, String> {
        let request = self.agent.get(format!("{}{path}", self.server));
        let answer = request.header("Authorization", format!("Bearer {}", self.key)).call();
        let mut response = answer.map_err(|error| error.to_string())?;
        let body = response.body_mut().with_config().limit(LONGEST).read_to_vec();
        let body = body.map_err(|error| format!("{}: {error}", response.status()))?;
        match response.status().is_success() {
            true => Ok(body),
            false => Err(format!("{}: {}", response.status(), String::from_utf8_lossy(&body))),
        }
    }

    /// Writes, under this name of the request.
    #[must_use]
    pub(crate) fn post(&self, path: &str, action: &str, body: &Value) -> Answer {
        let request = self.agent.post(format!("{}{path}", self.server));
        let request = request.header("Authorization", format!("Bearer {}", self.key));
        judged(request.header("Idempotency-Key", action).send_json(body))
    }
}

fn judged(result: Result<ureq::http::Response<ureq::Body>, ureq::Error>) -> Answer {
    let mut response = match result {
        Ok(response) => response,
        Err(error) => return not_answered(&error),
    };
    let status = response.status();
    let body: Value = match response.body_mut().read_json() {
        Ok(body) => body,
        // The answer was cut off.
        Err(error) => return Answer::Unknown(format!("{status}: {error}")),
    };
    if status.is_success() {
        return Answer::Ok(body);
    }
    let code = body["code"].as_str().unwrap_or_default();
    let detail = body["detail"].as_str().unwrap_or_default();
    let told = format!("{} {code}: {detail}", status.as_u16());
    match code {
        // These leave open whether it is done.
        "outcome_unknown" | "stopping" | "internal" | "" => Answer::Unknown(told),
        _ => Answer::Refused(told),
    }
}

/// A connection that was never made has carried nothing.
fn not_answered(error: &ureq::Error) -> Answer {
    match error {
        ureq::Error::ConnectionFailed | ureq::Error::Timeout(ureq::Timeout::Connect) => {
            Answer::Refused("no connection".to_owned())
        }
        ureq::Error::Io(io) if io.kind() == ErrorKind::ConnectionRefused => {
            Answer::Refused("no connection".to_owned())
        }
        error => Answer::Unknown(error.to_string()),
    }
}
