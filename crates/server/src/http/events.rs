//! Routes of events: writes, pages, and a history as lines of JSON.

use std::{convert::Infallible, sync::Arc};

use anabranch_api::v1::{
    AggregateEventRecordsRequest, ReadEventRecordsRequest, SearchEventRecordsRequest, WriteEventRecordsRequest,
};
use axum::{
    body::Body,
    extract::{Request, State},
    http::header,
    response::{IntoResponse, Response},
};
use bytes::Bytes;
use futures_util::{StreamExt, stream};
use serde::Serialize;

use super::{
    Http, errors,
    message::{InPath, fill, posts, timeout},
    refuse,
};
use crate::{convert::reads::FoundPage, failure::Failure, limits::Permit, observe::Protocol, operations::Answer};

posts! {
    write_sync: "WriteEventRecordsSync" WriteEventRecordsRequest => write_sync, timeout;
    write: "WriteEventRecords" WriteEventRecordsRequest => write, timeout;
    search: "SearchEventRecords" SearchEventRecordsRequest => search, timeout;
    aggregate: "AggregateEventRecords" AggregateEventRecordsRequest => aggregate, timeout;
}

pub(super) async fn read(
    State(http): State<Arc<Http>>,
    InPath(namespace): InPath<String>,
    request: Request,
) -> Response {
    let timeout = timeout(&request);
    let work = async {
        let mut message: ReadEventRecordsRequest = http.message(request).await?;
        fill(&mut message.namespace, "namespace", namespace)?;
        http.operations.read(message, timeout).await.map(FoundPage::into_message)
    };
    http.answer("ReadEventRecords", work).await
}

/// A history as lines of JSON, one page each. A failure of the first page is an ordinary one; a later one is the last line.
pub(super) async fn stream(
    State(http): State<Arc<Http>>,
    InPath(namespace): InPath<String>,
    mut request: Request,
) -> Response {
    let timeout = timeout(&request);
    let permit = request.extensions_mut().remove::<Permit>();
    let message = async {
        let mut message: ReadEventRecordsRequest = http.message(request).await?;
        fill(&mut message.namespace, "namespace", namespace)?;
        Ok(message)
    };
    let message = match message.await {
        Ok(message) => message,
        Err(failure) => {
            let failed = async { Err::<(), Failure>(failure) };
            return http.answer("StreamEventRecords", failed).await;
        }
    };
    let form = |page: FoundPage| line(&page.into_message());
    let mut pages = http.operations.stream(Protocol::Http, message, timeout, permit, form);
    let first = match pages.next().await {
        Some(Err(failure)) => return refuse(&failure),
        first => first,
    };
    let failed = |failure: Failure| Bytes::from(errors::body(&failure) + "\n");
    let lines = stream::iter(first).chain(pages).map(move |page| Ok::<_, Infallible>(page.unwrap_or_else(failed)));
    ([(header::CONTENT_TYPE, "application/x-ndjson")], Body::from_stream(lines)).into_response()
}

fn line(page: &impl Serialize) -> Answer<Bytes> {
    let unwritable = |error: serde_json::Error| Failure::internal(format!("a page has no JSON form: {error}"));
    let mut line = serde_json::to_vec(page).map_err(unwritable)?;
    line.push(b'\n');
    Ok(line.into())
}
