//! The browsable reference that the program serves.

use reqwest::{Method, Response};
use serde_json::Value;

use crate::fixture::{Fixture, answers_done};

const POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; \
                      frame-ancestors 'none'; base-uri 'none'; form-action 'none'";

/// Of what the page is made of: browsers keep what is below for a year.
fn version() -> String {
    let about: Value = serde_json::from_str(include_str!("../../reference/package.json")).unwrap();
    about["version"].as_str().unwrap().to_owned()
}

fn script() -> String {
    format!("/reference/{}/swagger-ui-bundle.js", version())
}

fn styles() -> String {
    format!("/reference/{}/swagger-ui.css", version())
}

fn header<'a>(response: &'a Response, name: &str) -> &'a str {
    response.headers().get(name).map_or("", |value| value.to_str().unwrap())
}

async fn get(fixture: &Fixture, path: &str, headers: &[(&str, &str)]) -> Response {
    let request = fixture.open(Method::GET, path);
    headers.iter().fold(request, |request, (name, value)| request.header(*name, *value)).send().await.unwrap()
}

/// What the page names, as paths.
fn named_in(page: &str) -> Vec<String> {
    let after = [" href=\"", " src=\""].map(|begin| page.split(begin).skip(1));
    let names = after.into_iter().flatten().map(|rest| rest.split('"').next().unwrap());
    names.filter(|name| !name.starts_with("data:")).map(|name| format!("/reference/{name}")).collect()
}

/// API-3: the reference is served without a key, guarded by its policy; all that its page names is there, and of this program.
#[tokio::test]
async fn reference_is_served_with_all_that_it_names() {
    let fixture = Fixture::start(answers_done()).await;
    let page = get(&fixture, "/reference/", &[]).await;
    assert_eq!((page.status().as_u16(), header(&page, "content-type")), (200, "text/html; charset=utf-8"));
    let page = page.text().await.unwrap();
    assert!(!page.contains("//") && !page.contains("<style") && !page.contains(" style="), "{page}");
    assert!(!page.contains("<script>") && !page.contains(" onload"), "{page}");
    let named = named_in(&page);
    assert!(named.contains(&script()) && named.contains(&styles()), "{named:?}");
    let mut paths = vec!["/reference/".to_owned(), "/reference/LICENSE".into(), "/reference/NOTICE".into()];
    paths.push(format!("{}.LICENSE.txt", script()));
    paths.extend(named);
    for path in paths {
        let answered = get(&fixture, &path.replace("reference/../", ""), &[]).await;
        assert_eq!(answered.status(), 200, "{path}");
        if path.contains("..") {
            continue;
        }
        let guards = ["content-security-policy", "x-content-type-options", "referrer-policy"];
        let guards = guards.map(|name| header(&answered, name));
        assert_eq!(guards, [POLICY, "nosniff", "no-referrer"], "{path}");
        let media = match path.rsplit('.').next().unwrap() {
            "js" => "text/javascript; charset=utf-8",
            "css" => "text/css; charset=utf-8",
            end if end.ends_with('/') => "text/html; charset=utf-8",
            _ => "text/plain; charset=utf-8",
        };
        assert_eq!(header(&answered, "content-type"), media, "{path}");
        let kept = if path.contains(&version()) { "public, max-age=31536000, immutable" } else { "no-cache" };
        assert_eq!(header(&answered, "cache-control"), kept, "{path}");
    }
    let licence = get(&fixture, "/reference/LICENSE", &[]).await.text().await.unwrap();
    assert!(licence.contains("Apache License"), "{licence}");
}

/// API-3: the reference without the slash leads to it, and what is not there is told as everywhere.
#[tokio::test]
async fn reference_has_one_address_and_no_other_methods() {
    let fixture = Fixture::start(answers_done()).await;
    let client =
        reqwest::Client::builder().no_proxy().redirect(reqwest::redirect::Policy::none()).build().unwrap();
    let led = client.get(format!("http://{}/reference", fixture.address)).send().await.unwrap();
    assert_eq!((led.status().as_u16(), header(&led, "location")), (308, "reference/"));
    assert_eq!(header(&led, "content-security-policy"), POLICY);
    assert_eq!(get(&fixture, "/reference", &[]).await.url().path(), "/reference/");
    for path in ["/reference/index.html", "/reference/5.34.0/swagger-ui.css", "/reference/../Cargo.toml"] {
        assert_eq!(get(&fixture, path, &[]).await.status(), 404, "{path}");
    }
    let written = fixture.open(Method::POST, "/reference/").send().await.unwrap();
    assert_eq!((written.status().as_u16(), header(&written, "allow")), (405, "GET"));
    let document = tidemill_api::document();
    let paths = document["paths"].as_object().unwrap();
    assert!(paths.keys().all(|path| !path.starts_with("/reference")), "the document lists calls only");
}

/// API-3: who takes gzip gets the files as they are kept, others the same unpacked; each form has a tag of its own, which
/// saves sending it again.
#[tokio::test]
async fn files_come_compressed_where_that_is_taken_and_once() {
    let fixture = Fixture::start(answers_done()).await;
    for (path, kept) in [
        (script(), include_bytes!("../../reference/swagger-ui-bundle.js.gz").as_slice()),
        (styles(), include_bytes!("../../reference/swagger-ui.css.gz").as_slice()),
    ] {
        let mut tags = Vec::new();
        for (accepts, is_packed) in [
            (Some("gzip, deflate, br, zstd"), true),
            (Some("br;q=1.0, GZIP;q=0.5"), true),
            (Some("*"), true),
            (None, false),
            (Some("identity"), false),
            (Some("gzip;q=0, *"), false),
            (Some("gzip; q=0.0"), false),
            (Some("br"), false),
        ] {
            let accepts: Vec<_> = accepts.iter().map(|it| ("accept-encoding", *it)).collect();
            let answered = get(&fixture, &path, &accepts).await;
            assert_eq!(answered.status(), 200);
            assert_eq!(header(&answered, "vary"), "accept-encoding", "{path} {accepts:?}");
            let coding = if is_packed { "gzip" } else { "" };
            assert_eq!(header(&answered, "content-encoding"), coding, "{path} {accepts:?}");
            let tag = header(&answered, "etag").to_owned();
            let body = answered.bytes().await.unwrap();
            if is_packed {
                assert_eq!(body, kept);
            } else {
                let length = u32::from_le_bytes(*kept.last_chunk().unwrap()) as usize;
                assert_eq!(body.len(), length);
                let text = std::str::from_utf8(&body).unwrap();
                assert!(text.contains("swagger-ui"), "{path}");
            }
            for (known, status) in
                [(tag.as_str(), 304), (&format!("\"a\", W/{tag}"), 304), ("\"other\"", 200)]
            {
                let headers = [accepts.as_slice(), &[("if-none-match", known)]].concat();
                let again = get(&fixture, &path, &headers).await;
                assert_eq!(again.status().as_u16(), status, "{path} {headers:?}");
                assert_eq!(header(&again, "etag"), tag);
                assert_eq!(header(&again, "content-security-policy"), POLICY);
                assert_eq!(again.bytes().await.unwrap().is_empty(), status == 304);
            }
            tags.push((is_packed, tag));
        }
        tags.sort();
        tags.dedup();
        assert_eq!(tags.len(), 2, "{path}: {tags:?}");
    }
}

/// API-3: `HEAD` answers what `GET` would, without the bytes.
#[tokio::test]
async fn head_says_what_get_would_send() {
    let fixture = Fixture::start(answers_done()).await;
    for path in ["/reference/", "/reference/start.js", &script(), &styles()] {
        for accepts in ["gzip", "identity"] {
            let head =
                fixture.open(Method::HEAD, path).header("accept-encoding", accepts).send().await.unwrap();
            let whole = get(&fixture, path, &[("accept-encoding", accepts)]).await;
            assert_eq!(head.status(), 200, "{path}");
            for name in ["content-type", "content-length", "content-encoding", "etag", "cache-control"] {
                assert_eq!(header(&head, name), header(&whole, name), "{path} {name}");
            }
            let length = header(&whole, "content-length").to_owned();
            assert_eq!(whole.bytes().await.unwrap().len().to_string(), length);
            assert!(head.bytes().await.unwrap().is_empty(), "{path}");
        }
    }
}
