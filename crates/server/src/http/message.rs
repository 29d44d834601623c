//! Messages out of requests: the JSON body, and the fields that stand in the path.

use std::time::Duration;

use anabranch_api::json::{self, JsonError};
use axum::{
    body::Body,
    extract::{FromRequestParts, Path, Query, Request},
    http::{StatusCode, Uri, header, request::Parts},
    response::{IntoResponse, Response},
};
use bytes::Bytes;
use http_body_util::{BodyExt, LengthLimitError, Limited};
use serde::{Serialize, de::DeserializeOwned};
use serde_json::Value;
use tonic::Code;

use super::{Http, errors};
use crate::{failure::Failure, limits};

/// How long a client may take to send a body.
const BODY_TIMEOUT: Duration = Duration::from_secs(60);
/// The reason of the one failure whose status isn't the twin of its code.
pub(super) const TOO_LARGE: &str = "BODY_TOO_LARGE";

/// Routes that take a message, fill in the namespace, and do what it says; within the time that the client gives, where the
/// operation takes one.
macro_rules! posts {
    ($($name:ident: $rpc:literal $request:ident => $operation:ident $(, $timeout:ident)?;)*) => {
        $(
            pub(super) async fn $name(
                axum::extract::State(http): axum::extract::State<std::sync::Arc<super::Http>>,
                super::message::InPath(namespace): super::message::InPath<String>,
                request: axum::extract::Request,
            ) -> axum::response::Response {
                $( let $timeout = super::message::timeout(&request); )?
                let work = async {
                    let mut message: $request = http.message(request).await?;
                    super::message::fill(&mut message.namespace, "namespace", namespace)?;
                    http.operations.$operation(message $(, $timeout)?).await
                };
                http.answer($rpc, Box::pin(work)).await
            }
        )*
    };
}
pub(super) use posts;

impl Http {
    /// The message of a body. No body is an empty message: all that is needed may stand in the path. What the content is
    /// said to be doesn't matter.
    pub(super) async fn message<M>(&self, request: Request) -> Result<M, Failure>
    where
        M: prost::Message + prost::Name + DeserializeOwned + Default,
    {
        let body = self.body(request.into_body()).await?;
        if body.iter().all(u8::is_ascii_whitespace) {
            return Ok(M::default());
        }
        parsed(&body)
    }

    async fn body(&self, body: Body) -> Result<Bytes, Failure> {
        let most = self.max_body_bytes;
        let read = Limited::new(body, most).collect();
        match self.operations.env.timeout(BODY_TIMEOUT, read).await {
            Ok(Ok(body)) => Ok(body.to_bytes()),
            Ok(Err(error)) if error.is::<LengthLimitError>() => {
                let message = format!("the body is longer than {most} bytes; send fewer events at once, or use gRPC");
                Err(Failure::new(Code::OutOfRange, TOO_LARGE, message))
            }
            Ok(Err(error)) => {
                let message = format!("the body could not be read: {error}");
                Err(Failure::new(Code::InvalidArgument, "BROKEN_BODY", message))
            }
            Err(_) => {
                let message = format!("the body did not arrive within {BODY_TIMEOUT:?}");
                Err(Failure::new(Code::DeadlineExceeded, "SLOW_BODY", message))
            }
        }
    }
}

/// Puts what stands in the path into its field; a body that says otherwise is refused.
pub(super) fn fill(field: &mut String, name: &'static str, in_path: String) -> Result<(), Failure> {
    if field.is_empty() || *field == in_path {
        *field = in_path;
        return Ok(());
    }
    Err(Failure::invalid(name, format!("the body says `{field}` and the path `{in_path}`; leave it out of the body")))
}

/// What the fields of a query are, where they aren't texts and numbers.
#[derive(Default)]
pub(super) struct InQuery {
    /// Given as often as one likes.
    pub(super) lists: &'static [&'static str],
    /// `true` or `false`.
    pub(super) bools: &'static [&'static str],
}

/// The message that a query spells: fields as in JSON.
pub(super) fn query<M>(uri: &Uri, known: &InQuery) -> Result<M, Failure>
where
    M: prost::Message + prost::Name + DeserializeOwned + Default,
{
    let pairs: Query<Vec<(String, String)>> =
        Query::try_from_uri(uri).map_err(|error| Failure::invalid("query", error.body_text()))?;
    let mut fields = serde_json::Map::new();
    for (name, value) in pairs.0 {
        if known.bools.contains(&name.as_str()) {
            let value = value.parse().map_err(|_| Failure::invalid(name.clone(), "is true or false"))?;
            fields.insert(name, Value::Bool(value));
        } else if known.lists.contains(&name.as_str()) {
            let list = fields.entry(name).or_insert_with(|| Value::Array(Vec::new()));
            list.as_array_mut().into_iter().for_each(|list| list.push(value.clone().into()));
        } else if fields.insert(name.clone(), value.into()).is_some() {
            return Err(Failure::invalid(name, "is in the query twice"));
        }
    }
    parsed(Value::Object(fields).to_string().as_bytes())
}

fn parsed<M>(text: &[u8]) -> Result<M, Failure>
where
    M: prost::Message + prost::Name + DeserializeOwned,
{
    json::from_slice(text).map_err(|error| match error {
        JsonError::Field { path, reason } => Failure::invalid(path, reason),
        JsonError::Text { .. } => Failure::new(Code::InvalidArgument, "INVALID_JSON", error.to_string()),
    })
}

/// How long the client will wait, if it says so as gRPC does.
pub(super) fn timeout(request: &Request) -> Option<Duration> {
    limits::timeout(request.headers())
}

/// An answer.
pub(super) fn json(message: &impl Serialize) -> Response {
    match serde_json::to_vec(message) {
        Ok(body) => ([(header::CONTENT_TYPE, "application/json")], body).into_response(),
        Err(error) => errors::response(&Failure::internal(format!("the answer has no JSON form: {error}"))),
    }
}

/// Parameters of the path, decoded.
pub(super) struct InPath<T>(pub(super) T);

impl<T, S> FromRequestParts<S> for InPath<T>
where
    T: DeserializeOwned + Send,
    S: Send + Sync,
{
    type Rejection = Response;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, Response> {
        match Path::from_request_parts(parts, state).await {
            Ok(Path(found)) => Ok(InPath(found)),
            Err(error) => {
                let failure = Failure::new(Code::InvalidArgument, "INVALID_PATH", error.body_text());
                Err(errors::with_status(StatusCode::BAD_REQUEST, &failure))
            }
        }
    }
}
