//! What the settings say of the connections to Kafka, for its client: with the password, and with files that can be read.

use std::fs::{self, File};
use std::path::{Path, PathBuf};

use tidemill_log::{KafkaCertificate, KafkaLogin, KafkaMechanism, KafkaSecurity, KafkaTls};

use crate::config::{SaslMechanism, SecuritySettings};
use crate::failure::{Done, Failure};

/// Whether the client knows TLS and SCRAM.
const HAS_OPENSSL: bool = cfg!(feature = "kafka-tls");

pub(super) fn of(settings: &SecuritySettings) -> Done<KafkaSecurity> {
    if (settings.is_encrypted() || settings.has_login()) && !HAS_OPENSSL {
        let protocol = serde_json::to_value(settings.protocol).unwrap_or_default();
        let told = format!(
            "log.security.protocol: {protocol}: must be \"plaintext\", for this program was built without OpenSSL"
        );
        return Err(Failure::bad_input(told).hint("build it with `--features kafka-tls`"));
    }
    let tls = settings.is_encrypted().then(|| tls(settings)).transpose()?;
    let login = settings.has_login().then(|| login(settings)).transpose()?;
    Ok(KafkaSecurity { tls, login })
}

fn tls(settings: &SecuritySettings) -> Done<KafkaTls> {
    let ca_file = readable("ca_file", settings.ca_file.as_ref())?;
    let file = readable("certificate_file", settings.certificate_file.as_ref())?;
    let key_file = readable("key_file", settings.key_file.as_ref())?;
    let own = file.zip(key_file).map(|(file, key_file)| KafkaCertificate { file, key_file });
    Ok(KafkaTls { ca_file, own })
}

fn login(settings: &SecuritySettings) -> Done<KafkaLogin> {
    let mechanism = match settings.mechanism {
        SaslMechanism::Plain => KafkaMechanism::Plain,
        SaslMechanism::ScramSha256 => KafkaMechanism::ScramSha256,
        SaslMechanism::ScramSha512 => KafkaMechanism::ScramSha512,
    };
    let password = match (&settings.password, &settings.password_file) {
        (Some(password), _) => password.0.clone(),
        (None, file) => read_password(file.clone().unwrap_or_default())?,
    };
    Ok(KafkaLogin { mechanism, user: settings.user.clone().unwrap_or_default(), password })
}

fn read_password(file: PathBuf) -> Done<String> {
    let text = fs::read_to_string(&file).map_err(|error| unreadable("password_file", &file, &error))?;
    let password = text.trim_end_matches(['\r', '\n']);
    match password.is_empty() || password.contains('\n') {
        false => Ok(password.to_owned()),
        true => {
            let file = file.display();
            let told =
                format!("log.security.password_file: {file}: must hold the password in its first line alone");
            Err(Failure::bad_input(told).hint("write the password into it, and nothing else"))
        }
    }
}

/// The client library would say which of its own settings is wrong, and not which file.
fn readable(field: &str, file: Option<&PathBuf>) -> Done<Option<PathBuf>> {
    let Some(file) = file else { return Ok(None) };
    File::open(file).map_err(|error| unreadable(field, file, &error))?;
    Ok(Some(file.clone()))
}

fn unreadable(field: &str, file: &Path, error: &std::io::Error) -> Failure {
    Failure::bad_input(format!("log.security.{field}: {}: cannot be read: {error}", file.display()))
        .hint("name a file that this account can read")
}
