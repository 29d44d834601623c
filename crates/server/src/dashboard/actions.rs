//! What buttons do. Each is a form that is posted; the page that follows says what came of it. What can't be undone is asked for on
//! the page before.

use std::sync::Arc;

use anabranch_api::v1;
use axum::{
    Form,
    extract::{State, rejection::FormRejection},
    response::{IntoResponse, Redirect, Response},
};
use serde::Deserialize;
use tonic::Code;

use super::{
    failed,
    place::{self, SplitName},
};
use crate::{failure::Failure, http::Http, observe::Protocol, operations::Answer};

/// Who changed something, for those who look later.
const BY: &str = "dashboard";

#[derive(Deserialize)]
pub(super) struct ModeForm {
    namespace: String,
    mode: String,
    #[serde(default)]
    reason: String,
}

/// The split that a form means.
#[derive(Deserialize)]
pub(super) struct SplitForm {
    namespace: String,
    time_slice: String,
    series: String,
    time_bucket: u32,
    event_bucket: u32,
    #[serde(default)]
    reason: String,
}

impl SplitForm {
    fn href(&self) -> String {
        let name = SplitName {
            namespace: self.namespace.clone(),
            time_slice: self.time_slice.clone(),
            series: self.series.clone(),
            time_bucket: self.time_bucket,
            event_bucket: self.event_bucket,
        };
        name.href()
    }
}

/// The namespace whose tuner is asked to look.
#[derive(Deserialize)]
pub(super) struct LookForm {
    namespace: String,
}

/// The proposal that a form answers.
#[derive(Deserialize)]
pub(super) struct ProposalForm {
    namespace: String,
    number: u64,
    #[serde(default)]
    reason: String,
}

type Posted<T> = Result<Form<T>, FormRejection>;

/// Does what a form asks for, counted as the rpc that it is, and goes on to the page that shows it.
async fn done<T>(
    http: &Http,
    method: &'static str,
    posted: Posted<T>,
    work: impl AsyncFnOnce(&Http, T) -> Answer<(String, &'static str)>,
) -> Response {
    let work = async {
        let Form(form) =
            posted.map_err(|error| Failure::new(Code::InvalidArgument, "INVALID_FORM", error.body_text()))?;
        work(http, form).await
    };
    match Box::pin(http.operations.observe.track(Protocol::Http, method, work)).await {
        Ok((path, notice)) => Redirect::to(&place::with_query(path, &[("done", notice)])).into_response(),
        Err(failure) => failed(&failure),
    }
}

pub(super) async fn set_read_mode(State(http): State<Arc<Http>>, posted: Posted<ModeForm>) -> Response {
    done(&http, "SetReadMode", posted, async |http, form| {
        let mode = v1::ReadMode::from_str_name(&form.mode).unwrap_or_default();
        let request = v1::SetReadModeRequest {
            namespace: form.namespace.clone(),
            read_mode: mode.into(),
            reason: form.reason,
            by: BY.to_owned(),
        };
        http.operations.set_read_mode(request).await?;
        Ok((place::namespace(&form.namespace), "mode"))
    })
    .await
}

pub(super) async fn retry(State(http): State<Arc<Http>>, posted: Posted<SplitForm>) -> Response {
    done(&http, "RetrySplit", posted, async |http, form| {
        let page = form.href();
        let request = v1::RetrySplitRequest {
            namespace: form.namespace,
            time_series_id: form.series,
            time_slice: form.time_slice,
            time_bucket: Some(form.time_bucket),
            event_bucket: Some(form.event_bucket),
            all: false,
        };
        let answer = http.operations.retry_split(request).await?;
        Ok((page, if answer.splits.is_empty() { "nothing" } else { "retried" }))
    })
    .await
}

pub(super) async fn abandon(State(http): State<Arc<Http>>, posted: Posted<SplitForm>) -> Response {
    done(&http, "AbandonSplit", posted, async |http, form| {
        let page = form.href();
        let request = v1::AbandonSplitRequest {
            namespace: form.namespace,
            time_series_id: form.series,
            time_slice: form.time_slice,
            time_bucket: Some(form.time_bucket),
            event_bucket: Some(form.event_bucket),
            all: false,
            reason: if form.reason.is_empty() { format!("by {BY}") } else { form.reason },
        };
        http.operations.abandon_split(request).await?;
        Ok((page, "abandoned"))
    })
    .await
}

pub(super) async fn verify(State(http): State<Arc<Http>>, posted: Posted<SplitForm>) -> Response {
    done(&http, "VerifySplit", posted, async |http, form| {
        let page = form.href();
        let request = v1::VerifySplitRequest {
            namespace: form.namespace,
            time_series_id: form.series,
            time_slice: form.time_slice,
            time_bucket: Some(form.time_bucket),
            event_bucket: Some(form.event_bucket),
        };
        let answer = http.operations.verify_split(request).await?;
        if answer.verifications.is_empty() {
            let reason = "nothing of it is served any more: there is nothing to compare";
            return Err(Failure::new(Code::FailedPrecondition, "NOT_COMPARED", reason.to_owned()));
        }
        let equal = answer.verifications.iter().any(|found| found.segments_equal > 0);
        // What differs, or why nothing was compared, stands on the page of the split.
        match answer.verifications.into_iter().find(|found| !found.skipped_reason.is_empty()) {
            Some(skipped) => Err(Failure::new(Code::FailedPrecondition, "NOT_COMPARED", skipped.skipped_reason)),
            None => Ok((page, if equal { "verified" } else { "" })),
        }
    })
    .await
}

pub(super) async fn propose_tuning(State(http): State<Arc<Http>>, posted: Posted<LookForm>) -> Response {
    done(&http, "ProposeTuning", posted, async |http, form| {
        let page = place::namespace(&form.namespace);
        let request = v1::ProposeTuningRequest { namespace: form.namespace };
        let decision = http.operations.propose_tuning(request).await?;
        let proposed = decision.outcome() == v1::tuning_decision::Outcome::Proposed;
        Ok((page, if proposed { "proposed" } else { "kept" }))
    })
    .await
}

pub(super) async fn apply_tuning(State(http): State<Arc<Http>>, posted: Posted<ProposalForm>) -> Response {
    done(&http, "ApplyTuning", posted, async |http, form| {
        let page = place::namespace(&form.namespace);
        let request =
            v1::ApplyTuningRequest { namespace: form.namespace, number: Some(form.number), by: BY.to_owned() };
        http.operations.apply_tuning(request).await?;
        Ok((page, "tuned"))
    })
    .await
}

pub(super) async fn reject_tuning(State(http): State<Arc<Http>>, posted: Posted<ProposalForm>) -> Response {
    done(&http, "RejectTuning", posted, async |http, form| {
        let page = place::namespace(&form.namespace);
        let request = v1::RejectTuningRequest {
            namespace: form.namespace,
            number: Some(form.number),
            by: BY.to_owned(),
            reason: form.reason,
        };
        http.operations.reject_tuning(request).await?;
        Ok((page, "untuned"))
    })
    .await
}
