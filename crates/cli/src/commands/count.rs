//! `anabranch count`: follows the answers to an aggregate, and adds them up.

use std::collections::BTreeMap;

use anabranch_api::{
    v1::{
        AggregateEventRecordsRequest, GroupBy, SearchQuery,
        aggregate_event_records_response::Group,
        partial::Reason,
        search_query::{Equals, Queries, Query},
    },
    wkt,
};
use bytes::Bytes;

use crate::{
    args::CountArgs,
    failure::Outcome,
    output::{Format, Out, note, table::Table, text},
    session::Session,
    times::{show_bytes, show_count, show_time, time_interval},
};

/// What tells groups apart: series, start and value.
type Key = (String, Option<(i64, i32)>, Option<Bytes>);

pub(crate) async fn run(session: &Session, args: &CountArgs) -> Outcome {
    let client = session.connect().await?;
    let mut request = request(session, args);
    let mut groups: BTreeMap<Key, Group> = BTreeMap::new();
    loop {
        let answer = client.aggregate(request.clone()).await?;
        for group in answer.groups {
            add(&mut groups, group);
        }
        if let Some(partial) = answer.partial.filter(|partial| partial.reason() == Reason::Retention) {
            let until = show_time(partial.complete_until.as_ref());
            note(
                session.colors,
                &format!("part of the span left the retention meanwhile: nothing before {until} is counted"),
            );
        }
        if answer.next_page_token.is_empty() {
            break;
        }
        request.page_token = answer.next_page_token;
    }
    let groups: Vec<Group> = groups.into_values().collect();
    let mut out = Out::new();
    match session.format {
        Format::Json => out.json(&groups)?,
        Format::Jsonl => groups.iter().try_for_each(|group| out.json_line(group))?,
        Format::Table if groups.is_empty() => out.line("nothing is stored there")?,
        Format::Table => out.text(&table(args, &groups).take_text(session.colors.stdout))?,
    }
    out.flush()?;
    Ok(())
}

fn request(session: &Session, args: &CountArgs) -> AggregateEventRecordsRequest {
    let equals = args.filter.iter().map(|filter| SearchQuery {
        query: Some(Query::Equals(Equals {
            event_item_key: filter.key.clone(),
            event_item_value: filter.value.clone().map(Bytes::from),
        })),
    });
    let queries: Vec<SearchQuery> = equals.collect();
    AggregateEventRecordsRequest {
        namespace: args.namespace.clone(),
        time_series_ids: args.series.clone(),
        time_interval: time_interval(args.from, args.to, session.now()),
        search_query: (!queries.is_empty()).then(|| SearchQuery { query: Some(Query::And(Queries { queries })) }),
        group_by: Some(GroupBy {
            time_series_id: args.by_series,
            time_step: args.every.and_then(|every| wkt::Duration::try_from(every).ok()),
            event_item_key: args.by.clone().unwrap_or_default(),
        }),
        page_token: String::new(),
    }
}

fn add(groups: &mut BTreeMap<Key, Group>, group: Group) {
    let order = |time: &wkt::Timestamp| (time.seconds, time.nanos);
    let key = (group.time_series_id.clone(), group.start.as_ref().map(order), group.event_item_value.clone());
    match groups.entry(key) {
        std::collections::btree_map::Entry::Vacant(new) => {
            new.insert(group);
        }
        std::collections::btree_map::Entry::Occupied(mut known) => {
            let known = known.get_mut();
            known.records += group.records;
            known.items += group.items;
            known.bytes += group.bytes;
            known.earliest = [known.earliest, group.earliest].into_iter().flatten().min_by_key(order);
            known.latest = [known.latest, group.latest].into_iter().flatten().max_by_key(order);
        }
    }
}

fn table(args: &CountArgs, groups: &[Group]) -> Table {
    let mut headers = Vec::new();
    headers.extend(args.by_series.then_some("series"));
    headers.extend(args.every.map(|_| "from"));
    headers.extend(args.by.as_ref().map(|_| "value"));
    let first = headers.len();
    headers.extend(["records", "items", "bytes", "earliest", "latest"]);
    let mut table = Table::new(&headers).align_right(&[first, first + 1, first + 2]);
    for group in groups {
        let mut row = Vec::new();
        row.extend(args.by_series.then(|| text::escaped(&group.time_series_id)));
        row.extend(args.every.map(|_| show_time(group.start.as_ref())));
        row.extend(
            args.by
                .as_ref()
                .map(|_| group.event_item_value.as_ref().map_or("-".to_owned(), |value| text::value(value, false))),
        );
        row.extend([show_count(group.records), show_count(group.items), show_bytes(group.bytes)]);
        row.extend([show_time(group.earliest.as_ref()), show_time(group.latest.as_ref())]);
        table.row(row);
    }
    table
}
