//! What the settings say of the connections to Kafka, for its client: with the password, and with files that can be read.

use std::path::{Path, PathBuf};

use tidemill_cli::{Done, Failure, files};
use tidemill_log::{KafkaCertificate, KafkaLogin, KafkaMechanism, KafkaSecurity, KafkaTls};

use crate::config::{SaslMechanism, SecuritySettings};

pub(super) fn of(settings: &SecuritySettings) -> Done<KafkaSecurity> {
    if !cfg!(feature = "kafka-tls") {
        without_openssl(settings)?;
    }
    let tls = settings.is_encrypted().then(|| tls(settings)).transpose()?;
    let login = settings.has_login().then(|| login(settings)).transpose()?;
    Ok(KafkaSecurity { tls, login })
}

/// What a client can do that knows neither TLS nor SCRAM.
fn without_openssl(settings: &SecuritySettings) -> Done {
    if !settings.is_encrypted() && !settings.has_login() {
        return Ok(());
    }
    let protocol = serde_json::to_value(settings.protocol).unwrap_or_default();
    let rule = "must be \"plaintext\", for this program was built without OpenSSL";
    Err(Failure::bad_input(format!("log.security.protocol: {protocol}: {rule}"))
        .hint("build it with `--features kafka-tls`"))
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
    let text = files::text(&file, files::MAX_SETTINGS_BYTES)
        .map_err(|error| unreadable("password_file", &file, &error))?;
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
    files::open(file).map_err(|error| unreadable(field, file, &error))?;
    Ok(Some(file.clone()))
}

fn unreadable(field: &str, file: &Path, error: &std::io::Error) -> Failure {
    Failure::bad_input(format!("log.security.{field}: {}: cannot be read: {error}", file.display()))
        .hint("name a file that this account can read")
}

#[cfg(test)]
mod tests {
    use std::fs;
    use tidemill_cli::Exit;

    use serde_json::json;

    use super::*;

    fn settings(value: serde_json::Value) -> SecuritySettings {
        serde_json::from_value(value).unwrap()
    }

    /// OPS-10: a program without OpenSSL takes no connection to be protected that is not.
    #[test]
    fn program_without_openssl_refuses_what_it_cannot_do() {
        assert_eq!(without_openssl(&SecuritySettings::default()), Ok(()));
        for protocol in ["ssl", "sasl_ssl", "sasl_plaintext"] {
            let refused = without_openssl(&settings(json!({ "protocol": protocol }))).unwrap_err();
            assert_eq!(refused.exit, Exit::BadInput);
            let told = refused.to_string();
            assert!(told.contains(&format!("log.security.protocol: \"{protocol}\": must be")), "{told}");
            assert!(told.contains("--features kafka-tls"), "{told}");
        }
    }

    /// OPS-10: a password's file holds it alone, and may end with its line.
    #[test]
    fn password_is_the_one_line_of_its_file() {
        let dir = tempfile::tempdir().unwrap();
        let read = |text: &str| {
            let file = dir.path().join("password");
            fs::write(&file, text).unwrap();
            read_password(file).map_err(|failure| (failure.exit, failure.to_string().contains("sesame")))
        };
        for text in ["sesame", "sesame\n", "sesame\r\n"] {
            assert_eq!(read(text), Ok("sesame".to_owned()), "{text:?}");
        }
        for text in ["", "\n", "sesame\nand more", "user\nsesame\n"] {
            assert_eq!(read(text), Err((Exit::BadInput, false)), "{text:?}");
        }
    }
}
