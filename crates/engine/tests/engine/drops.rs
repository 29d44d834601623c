//! L1: what goes with a slice.

use std::time::Duration;

use anabranch_engine::{EventInput, ItemInput, SplitSelection, TimeInput};
use anabranch_model::{NamespaceConfig, Slo, SplitSettings};
use anabranch_store::Store;
use bytes::Bytes;

use crate::fixture::{World, history, run};

const SECOND: i64 = 1_000_000_000;

fn config() -> NamespaceConfig {
    NamespaceConfig {
        seconds_per_slice: 86_400,
        seconds_per_bucket: 86_400,
        accept_limit: Duration::from_secs(3600),
        seal_margin: Duration::from_secs(10),
        close_after: Some(Duration::from_secs(36 * 3600)),
        delete_after: Some(Duration::from_secs(38 * 3600)),
        read_slo: Slo { target: Duration::from_secs(5), max: Duration::from_secs(60) },
        split: SplitSettings {
            threshold_bytes: 64 << 10,
            target_piece_bytes: 16 << 10,
            must_pay: false,
            ..SplitSettings::default()
        },
        ..NamespaceConfig::default()
    }
}

/// A wide history of this day, split.
async fn split_today(world: &World) {
    let now = world.now();
    for chunk in (0..2000).collect::<Vec<i64>>().chunks(500) {
        let event = |at: &i64| EventInput {
            series: "wide".to_owned(),
            time: Some(TimeInput::Nanos(now - at * SECOND)),
            id: format!("e{now}.{at}"),
            items: vec![ItemInput { key: "k".to_owned(), value: Bytes::from(vec![7; 120]), metadata: None }],
        };
        world.write(chunk.iter().map(event).collect()).await.unwrap();
    }
    world.env.sleep(Duration::from_secs(2 * 3600)).await;
    let wide = SplitSelection { time_series_id: Some("wide".to_owned()), ..SplitSelection::default() };
    world.engine.request_splits("plays", &wide).await.unwrap();
    world.scan(history("wide")).await;
    world.env.sleep(Duration::from_secs(600)).await;
}

async fn records(world: &World) -> usize {
    let rows = world.engine.split_records("plays", &SplitSelection::default()).await.unwrap();
    rows.iter().filter(|row| !row.served.is_empty()).count()
}

async fn tables(world: &World) -> Vec<String> {
    world.store.tables().await.unwrap().into_iter().map(|table| table.table).collect()
}

#[test]
fn dropping_a_slice_drops_its_pieces_records_and_index_and_nothing_else_l1() {
    run(|world| async move {
        world.namespace(config()).await;
        split_today(&world).await;
        world.env.sleep(Duration::from_secs(86_400 - 2 * 3600 - 600)).await;
        split_today(&world).await;
        let (first, second) = ("data_20260328", "data_20260329");
        assert_eq!(records(&world).await, 2);
        for slice in [first, second] {
            let pieces = format!("wide_{slice}_");
            assert!(tables(&world).await.iter().any(|table| table.starts_with(&pieces)), "{:?}", tables(&world).await);
        }
        let second_before = world.scan(history("wide")).await.0.split_off(2000);
        assert_eq!(second_before.len(), 2000);
        // The first slice goes, the second is still open.
        world.env.sleep(Duration::from_secs(26 * 3600)).await;
        let names: Vec<String> =
            world.engine.namespace("plays").unwrap().slices.iter().map(anabranch_model::Slice::name).collect();
        assert!(!names.contains(&first.to_owned()) && names.contains(&second.to_owned()), "{names:?}");
        assert!(tables(&world).await.iter().all(|table| !table.contains(first)), "{:?}", tables(&world).await);
        assert!(tables(&world).await.iter().any(|table| table.starts_with(&format!("wide_{second}_"))));
        assert_eq!(records(&world).await, 1);
        for shard in 0..=u8::MAX {
            let of_first = world.store.list(&format!("wide_row/plays/{first}/{shard:02x}"), None, 10).await.unwrap();
            assert_eq!(of_first, []);
        }
        let measured = world.store.list("slice_sizes/plays", None, 100).await.unwrap();
        assert!(measured.iter().all(|(slice, _)| slice != first) && measured.iter().any(|(slice, _)| slice == second));
        assert_eq!(world.scan(history("wide")).await.0.len(), 2000, "the second slice is as it was");
    });
}
