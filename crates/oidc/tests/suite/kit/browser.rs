//! A person with a browser: pages of the provider, followed to the end.

use std::collections::BTreeMap;

use reqwest::header::{COOKIE, LOCATION, SET_COOKIE};
use reqwest::redirect::Policy;
use reqwest::{Client, Response};
use tidemill_serving::tls;
use url::Url;

/// Where the provider sends the browser back to.
pub(crate) const REDIRECT: &str = "http://127.0.0.1:7070/api/sign-in/oidc/done";

struct Browser {
    http: Client,
    cookies: BTreeMap<String, String>,
}

/// Signs in at the provider's page as somebody, who consents to everything; the address to which the browser is sent back.
pub(crate) async fn sent_back(url: &str, login: &str) -> Url {
    let http = Client::builder().redirect(Policy::none()).no_proxy();
    let http = http.tls_backend_preconfigured(tls::trusts_nobody()).build().unwrap();
    let mut browser = Browser { http, cookies: BTreeMap::new() };
    let mut response = browser.go(Url::parse(url).unwrap(), None).await;
    for _ in 0..12 {
        let at = response.url().clone();
        if let Some(location) = response.headers().get(LOCATION) {
            let next = at.join(location.to_str().unwrap()).unwrap();
            if next.as_str().starts_with(REDIRECT) {
                return next;
            }
            response = browser.go(next, None).await;
            continue;
        }
        let status = response.status();
        let page = response.text().await.unwrap();
        let form = match () {
            () if page.contains(r#"name="prompt" value="login""#) => {
                format!("prompt=login&login={login}&password=any")
            }
            () if page.contains(r#"name="prompt" value="consent""#) => "prompt=consent".to_owned(),
            () => panic!("{at} answers {status}: {page}"),
        };
        response = browser.go(at, Some(form)).await;
    }
    panic!("the provider does not come to an end");
}

impl Browser {
    /// Gets a page, or sends a form to it.
    async fn go(&mut self, url: Url, form: Option<String>) -> Response {
        let cookies = self.cookies.iter().map(|(name, value)| format!("{name}={value}"));
        let cookies = cookies.collect::<Vec<_>>().join("; ");
        let request = match form {
            None => self.http.get(url),
            Some(form) => {
                self.http.post(url).header("Content-Type", "application/x-www-form-urlencoded").body(form)
            }
        };
        let response = request.header(COOKIE, cookies).send().await.unwrap();
        for cookie in response.headers().get_all(SET_COOKIE) {
            let pair = cookie.to_str().unwrap().split(';').next().unwrap();
            let (name, value) = pair.split_once('=').unwrap();
            if value.is_empty() {
                self.cookies.remove(name);
            } else {
                self.cookies.insert(name.to_owned(), value.to_owned());
            }
        }
        response
    }
}
