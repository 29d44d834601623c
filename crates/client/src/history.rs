//! Whole histories: page after page by token, or as one stream that goes on where it was cut.

use anabranch_api::v1::{ReadEventRecordsRequest, ReadEventRecordsResponse};
use futures_util::{
    StreamExt,
    stream::{self, BoxStream},
};
use tonic::{Request, Status, Streaming};

use crate::{
    Client, ClientError,
    retry::{Repeat, delay, may_help},
    wait::wait,
};

/// One page of a history, or why there is none.
type Page = Result<ReadEventRecordsResponse, ClientError>;

impl Client {
    /// Reads a history page after page, one request each: the next is asked for when the last has been taken. Ends after
    /// the first error. Go on later from the last page's token.
    pub fn pages(&self, request: ReadEventRecordsRequest) -> BoxStream<'static, Page> {
        let client = self.clone();
        stream::unfold(Some(request), move |request| {
            let client = client.clone();
            async move {
                let mut request = request?;
                let page = client.read(request.clone()).await;
                let token = page.as_ref().map(|page| page.next_page_token.clone()).unwrap_or_default();
                let more = !token.is_empty();
                request.page_token = token;
                Some((page, more.then_some(request)))
            }
        })
        .boxed()
    }

    /// Reads a history as one stream: the server reads ahead while a page is worked on. A lost connection is opened again
    /// after the last page that came. Ends after the first error that can't be helped.
    pub fn stream(&self, request: ReadEventRecordsRequest) -> BoxStream<'static, Page> {
        let begun = Some(Scan { client: self.clone(), request, open: None, turn: self.turn(), failures: 0 });
        stream::unfold(begun, |scan| async move { scan?.next().await }).boxed()
    }
}

/// A stream under way.
struct Scan {
    client: Client,
    /// What to ask for when the stream has to be opened again.
    request: ReadEventRecordsRequest,
    open: Option<Streaming<ReadEventRecordsResponse>>,
    /// Whose turn it was when it was opened.
    turn: usize,
    /// Failures since the last page that came.
    failures: u32,
}

impl Scan {
    async fn next(mut self) -> Option<(Page, Option<Scan>)> {
        loop {
            match self.receive().await {
                Ok(Some(page)) => {
                    self.failures = 0;
                    let last = page.next_page_token.is_empty();
                    self.request.page_token.clone_from(&page.next_page_token);
                    return Some((Ok(page), (!last).then_some(self)));
                }
                Ok(None) => return None,
                Err(status) => {
                    self.open = None;
                    self.failures += 1;
                    let policy = &self.client.options.retry;
                    if self.failures >= policy.attempts || !may_help(Repeat::Read, &status) {
                        return Some((Err(status.into()), None));
                    }
                    self.client.move_on(self.turn);
                    wait(delay(policy, self.failures, &status)).await;
                }
            }
        }
    }

    async fn receive(&mut self) -> Result<Option<ReadEventRecordsResponse>, Status> {
        let open = match &mut self.open {
            Some(open) => open,
            closed => {
                let request = Request::new(self.request.clone());
                self.turn = self.client.turn();
                let mut series = self.client.services(self.turn).series.clone();
                closed.insert(series.stream_event_records(request).await?.into_inner())
            }
        };
        open.message().await
    }
}
