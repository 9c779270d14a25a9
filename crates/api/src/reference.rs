//! The browsable reference: Swagger UI of this interface's document, from inside the program, without a key as the document
//! itself. Nothing of it comes from elsewhere, and its policy lets nothing go elsewhere.
//!
//! The files stand in `crates/api/reference`, compressed where they are large; `deploy/dev/swagger-ui` takes a newer version.

use std::sync::{LazyLock, OnceLock};

use axum::Router;
use axum::body::Bytes;
use axum::http::{HeaderMap, HeaderValue, StatusCode, header};
use axum::middleware::map_response;
use axum::response::{IntoResponse, Redirect, Response};
use axum::routing::get;
use miniz_oxide::inflate::decompress_to_vec;
use sha2::{Digest, Sha256};

/// What pages and scripts may load and do. React sets styles by the object model, which no policy of styles looks at.
const POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; \
                      frame-ancestors 'none'; base-uri 'none'; form-action 'none'";
/// What browsers keep for a year has its version in its path.
const FOR_A_YEAR: &str = "public, max-age=31536000, immutable";
/// What may be another one with the next program; its tag says whether it is.
const ASK_AGAIN: &str = "no-cache";

const HTML: &str = "text/html; charset=utf-8";
const SCRIPT: &str = "text/javascript; charset=utf-8";
const STYLES: &str = "text/css; charset=utf-8";
const TEXT: &str = "text/plain; charset=utf-8";

/// A file as it is kept, and its path.
struct File {
    path: &'static str,
    media: &'static str,
    cache: &'static str,
    bytes: &'static [u8],
    is_compressed: bool,
}

macro_rules! file {
    ($path:literal, $name:literal, $media:ident, $cache:ident, compressed) => {
        File { is_compressed: true, ..file!($path, $name, $media, $cache) }
    };
    ($path:literal, $name:literal, $media:ident, $cache:ident) => {
        File {
            path: concat!("/reference/", $path),
            media: $media,
            cache: $cache,
            bytes: include_bytes!(concat!("../reference/", $name)),
            is_compressed: false,
        }
    };
}

const FILES: [File; 7] = [
    file!("", "index.html", HTML, ASK_AGAIN),
    file!("start.js", "start.js", SCRIPT, ASK_AGAIN),
    file!("5.35.0/swagger-ui.css", "swagger-ui.css.gz", STYLES, FOR_A_YEAR, compressed),
    file!("5.35.0/swagger-ui-bundle.js", "swagger-ui-bundle.js.gz", SCRIPT, FOR_A_YEAR, compressed),
    // The script's first line refers to it, beside itself.
    file!("5.35.0/swagger-ui-bundle.js.LICENSE.txt", "swagger-ui-bundle.js.LICENSE.txt", TEXT, FOR_A_YEAR),
    file!("LICENSE", "LICENSE", TEXT, ASK_AGAIN),
    file!("NOTICE", "NOTICE", TEXT, ASK_AGAIN),
];

/// A file as it is answered.
struct Served {
    file: File,
    /// Of its bytes as they are kept, in hexadecimal digits.
    digest: String,
    /// Made once: anybody may ask for it.
    unpacked: OnceLock<Bytes>,
}

impl Served {
    fn new(file: File) -> Self {
        let digest = Sha256::digest(file.bytes);
        let digest = digest.iter().take(16).map(|byte| format!("{byte:02x}")).collect();
        Self { file, digest, unpacked: OnceLock::new() }
    }

    fn answer(&self, asked: &HeaderMap) -> Response {
        let File { media, cache, bytes, is_compressed, .. } = self.file;
        let as_kept = !is_compressed || takes_gzip(asked);
        // The two forms of a file are two things to whoever keeps them.
        let tag = format!("\"{}{}\"", self.digest, if as_kept { "" } else { "-unpacked" });
        let mut headers = HeaderMap::new();
        headers.insert(header::CACHE_CONTROL, HeaderValue::from_static(cache));
        headers.insert(header::ETAG, tag.parse().expect("hexadecimal digits fit into a header"));
        if is_compressed {
            headers.insert(header::VARY, HeaderValue::from_static("accept-encoding"));
        }
        if is_known(asked, &tag) {
            return (StatusCode::NOT_MODIFIED, headers).into_response();
        }
        headers.insert(header::CONTENT_TYPE, HeaderValue::from_static(media));
        if is_compressed && as_kept {
            headers.insert(header::CONTENT_ENCODING, HeaderValue::from_static("gzip"));
        }
        let body = match as_kept {
            true => Bytes::from_static(bytes),
            false => self.unpacked.get_or_init(|| unpacked(bytes)).clone(),
        };
        (headers, body).into_response()
    }
}

/// Bytes as [`FILES`] has them, without the compression of `gzip -n`: a header of ten bytes before, checksum and length behind.
fn unpacked(bytes: &[u8]) -> Bytes {
    let packed = &bytes[10..bytes.len() - 8];
    decompress_to_vec(packed).expect("what the program has within was compressed by gzip").into()
}

/// The caller takes what is compressed. Absent, it is taken for one that knows no compression.
fn takes_gzip(asked: &HeaderMap) -> bool {
    let lines = asked.get_all(header::ACCEPT_ENCODING).iter().filter_map(|line| line.to_str().ok());
    let codings: Vec<(String, f32)> = lines.flat_map(|line| line.split(',')).map(weighted).collect();
    let named = |names: &[&str]| codings.iter().find(|(name, _)| names.contains(&name.as_str()));
    named(&["gzip", "x-gzip"]).or_else(|| named(&["*"])).is_some_and(|(_, weight)| *weight > 0.0)
}

/// A coding with how much it is wanted; not at all, if that is not told as a number.
fn weighted(coding: &str) -> (String, f32) {
    let (name, weight) = coding.split_once(';').unwrap_or((coding, "q=1"));
    let weight = weight.trim().strip_prefix("q=").and_then(|it| it.trim().parse().ok());
    (name.trim().to_ascii_lowercase(), weight.unwrap_or(0.0))
}

/// The caller has it already.
fn is_known(asked: &HeaderMap, tag: &str) -> bool {
    let lines = asked.get_all(header::IF_NONE_MATCH).iter().filter_map(|line| line.to_str().ok());
    let mut tags = lines.flat_map(|line| line.split(',')).map(|it| it.trim().trim_start_matches("W/"));
    tags.any(|it| it == tag || it == "*")
}

/// Made once, when the first is asked for.
static SERVED: LazyLock<[Served; FILES.len()]> = LazyLock::new(|| FILES.map(Served::new));

/// The pages, which the document does not list: they are for people.
pub(crate) fn pages<S: Clone + Send + Sync + 'static>() -> Router<S> {
    let mut router = Router::new()
        // Relative, so that it holds behind what puts a path of its own before it.
        .route("/reference", get(|| async { Redirect::permanent("reference/") }));
    for (place, file) in FILES.iter().enumerate() {
        router =
            router.route(file.path, get(move |asked: HeaderMap| async move { SERVED[place].answer(&asked) }));
    }
    router.route_layer(map_response(guarded))
}

async fn guarded(mut response: Response) -> Response {
    let headers = response.headers_mut();
    headers.insert(header::CONTENT_SECURITY_POLICY, HeaderValue::from_static(POLICY));
    headers.insert(header::X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
    headers.insert(header::REFERRER_POLICY, HeaderValue::from_static("no-referrer"));
    response
}
