//! The pipeline: what is served is exactly what was there, whatever is in the way.

use std::{sync::Arc, time::Duration};

use anabranch_model::Timestamp;
use anabranch_split::{Compression, Effort, Form, Ground, Served, State, WideRow};
use anabranch_store::{PartitionBatch, Store};

use crate::fixture::{MIDNIGHT, ground, rows, run};

/// S2
#[test]
fn a_wide_partition_is_served_from_pieces_that_hold_exactly_its_rows() {
    let lz4 = Form::Blocks { codec: Compression::Lz4, block_bytes: 1000 };
    let zstd = Form::Blocks { codec: Compression::Zstd, block_bytes: 3000 };
    for form in [Form::Rows, lz4, zstd] {
        run(|world| async move {
            world.fill(0, 500).await;
            let before = world.original().await;
            let work = world.worker("w");
            let detected = world.detect(&work).await;
            let effort = work.advance(&detected, &Ground { form, ..ground() }).await.unwrap();
            let Effort::Rests(loaded) = effort else { panic!("{effort:?}") };
            assert!(matches!(loaded.row.state, State::Completed { .. }), "{:?}", loaded.row.state);
            let segment = &loaded.row.served[0];
            assert!(segment.pieces.len() > 5, "{}", segment.pieces.len());
            assert_eq!(segment.pre_split_data.rows as usize, before.len());
            assert_eq!(world.served(&work).await, before);
            // S1
            assert_eq!(world.original().await, before);
            assert_eq!(loaded.row.lease, None);
            let json = serde_json::to_value(&loaded.row).unwrap();
            assert_eq!(serde_json::from_value::<WideRow>(json).unwrap(), loaded.row);
        });
    }
}

/// A split that doesn't pay is set aside: its pieces are as good as before, but reads don't use them.
#[test]
fn what_is_set_aside_is_not_served() {
    run(|world| async move {
        world.fill(0, 500).await;
        let work = world.worker("w");
        let detected = world.detect(&work).await;
        let Effort::Rests(loaded) = work.advance(&detected, &ground()).await.unwrap() else { panic!() };
        assert!(Served::of(Arc::new(loaded.row.clone()), 0).is_some());
        let aside = WideRow { set_aside: Some("slower than its original".to_owned()), ..loaded.row };
        assert!(Served::of(Arc::new(aside), 0).is_none());
    });
}

#[test]
fn a_partition_below_the_threshold_is_left_alone() {
    run(|world| async move {
        world.fill(0, 50).await;
        let work = world.worker("w");
        let detected = world.detect(&work).await;
        work.advance(&detected, &ground()).await.unwrap();
        assert!(matches!(world.state(&work).await, State::NotWide { bytes, .. } if bytes > 1000));
        assert_eq!(world.store.tables().await.unwrap().len(), 1);
    });
}

/// S3: only sealed time is in a segment; it is extended as time seals, and earlier segments stay as they were.
#[test]
fn a_partition_that_takes_writes_is_split_up_to_the_watermark_and_extended() {
    run(|world| async move {
        let sealed = |seconds: i64| Ground { sealed_until: Timestamp::from_seconds(MIDNIGHT + seconds), ..ground() };
        world.fill(0, 400).await;
        let work = world.worker("w");
        let detected = world.detect(&work).await;
        let Effort::Rests(first) = work.advance(&detected, &sealed(300)).await.unwrap() else { panic!() };
        assert_eq!(first.row.served_until(), Some(Timestamp::from_seconds(MIDNIGHT + 300)));
        assert!(
            world.served(&work).await.iter().all(|row| row.position.time < Timestamp::from_seconds(MIDNIGHT + 300))
        );

        world.fill(400, 700).await;
        // A tail too small for a piece waits.
        let detected = world.detect(&work).await;
        let Effort::Rests(same) = work.advance(&detected, &sealed(310)).await.unwrap() else { panic!() };
        assert_eq!(same.row.served, first.row.served);

        let detected = world.detect(&work).await;
        let Effort::Rests(second) = work.advance(&detected, &sealed(600)).await.unwrap() else { panic!() };
        assert_eq!(second.row.served.len(), 2);
        assert_eq!(second.row.served[0], first.row.served[0]);
        let ordinals: Vec<u32> =
            second.row.served.iter().flat_map(|segment| segment.pieces.iter().map(|piece| piece.ordinal)).collect();
        let distinct: std::collections::BTreeSet<u32> = ordinals.iter().copied().collect();
        assert_eq!(distinct.len(), ordinals.len(), "S7: {ordinals:?}");

        let detected = world.detect(&work).await;
        work.advance(&detected, &ground()).await.unwrap();
        assert_eq!(world.served(&work).await, world.original().await);
    });
}

/// S2: a byte of any piece, the last as well as the first, that isn't what was planned keeps the segment from being served, however
/// many rows and bytes there are.
#[test]
fn every_piece_is_proven_by_what_it_holds_not_by_how_much() {
    for last in [false, true] {
        run(|world| async move {
            world.fill(0, 500).await;
            let work = world.worker("w");
            let detected = world.detect(&work).await;
            let ground = Ground { form: Form::Rows, ..ground() };
            let Effort::Rests(first) = work.advance(&detected, &ground).await.unwrap() else { panic!() };
            let planned = &first.row.served[0].pieces;
            let piece = if last { planned.last().unwrap() } else { &planned[0] };
            // The same plan comes once more, in the next generation, where a row with another byte waits for it.
            let invalid = work.records().invalidate(&world.partition, "test").await.unwrap().unwrap();
            let table = invalid.row.generation.table(&world.partition.namespace, &world.partition.time_slice);
            world.store.create_table(&table).await.unwrap();
            let mut row = world.original().await.into_iter().find(|row| row.position == piece.oldest).unwrap();
            let mut value = row.item.value.to_vec();
            value[3] ^= 1;
            row.item.value = value.into();
            let partition = world.partition.piece(piece.ordinal);
            let batch = PartitionBatch { table, partition, rows: vec![row], write_time_micros: i64::MAX };
            world.store.write(vec![batch], Duration::from_secs(1)).await.remove(0).unwrap();
            let Effort::Rests(failed) = work.advance(&invalid, &ground).await.unwrap() else { panic!() };
            let State::Failed(failure) = &failed.row.state else { panic!("{:?}", failed.row.state) };
            assert!(failed.row.served.is_empty());
            assert!(failure.reason.contains(&format!("piece {} ", piece.ordinal)), "{}", failure.reason);
        });
    }
}

/// S2: a segment with a row missing, altered, added or in the wrong place is never served.
#[test]
fn what_is_read_back_differently_fails_and_goes_to_the_next_generation() {
    for corruption in 0..4 {
        run(|world| async move {
            world.fill(0, 500).await;
            let work = world.worker("w");
            // Spoil the first generation's pieces ahead of the split: rows that nobody planned, or that replace planned ones.
            let generation = anabranch_split::Generation::FIRST;
            let table = generation.table(&world.partition.namespace, &world.partition.time_slice);
            world.store.create_table(&table).await.unwrap();
            let mut spoilt = rows(499);
            match corruption {
                0 => spoilt[0].item.value = "altered".into(),
                1 => spoilt[0].position.id = anabranch_model::EventId::new("extra").unwrap(),
                2 => spoilt = rows(3),
                _ => spoilt[0].item.key = anabranch_model::EventItemKey::new("other").unwrap(),
            }
            let partition = world.partition.piece(0);
            // Later than every write of the splitter, so that it stays.
            let batch = PartitionBatch { table, partition, rows: spoilt, write_time_micros: i64::MAX };
            world.store.write(vec![batch], Duration::from_secs(1)).await.remove(0).unwrap();

            let detected = world.detect(&work).await;
            let form = if corruption == 0 { Form::Rows } else { ground().form };
            let ground = Ground { form, ..ground() };
            let Effort::Rests(failed) = work.advance(&detected, &ground).await.unwrap() else { panic!() };
            let State::Failed(failure) = &failed.row.state else { panic!("{:?}", failed.row.state) };
            assert!(failed.row.served.is_empty());
            assert!(failure.reason.contains("piece 0"), "{}", failure.reason);
            // Not before its time.
            let Effort::Rests(same) = work.advance(&failed, &ground).await.unwrap() else { panic!() };
            assert_eq!(same.row, failed.row);
            world.env.sleep(Duration::from_secs(30)).await;
            let Effort::Rests(done) = work.advance(&failed, &ground).await.unwrap() else { panic!() };
            assert!(matches!(done.row.state, State::Completed { .. }), "{:?}", done.row.state);
            assert_eq!(done.row.served[0].generation, anabranch_split::Generation(2));
            assert_eq!(world.served(&work).await, world.original().await);
        });
    }
}
