//! Many namespaces on one store, all with the default settings: how long it takes to make them and to start again, how
//! much memory they take, and what they cost while nothing happens.

use std::time::Instant;

use anabranch_api::v1;
use anyhow::Result;

use super::Bench;
use crate::{
    report::{Measure, Sheet, Unit},
    server::Server,
    wire,
};

const MIB: f64 = (1u64 << 20) as f64;

pub(super) async fn measure(bench: &mut Bench) -> Result<Vec<Measure>> {
    let directory = bench.path("namespaces");
    let wanted = bench.sizes.namespaces;
    let server = bench.launcher.start(&directory, &[])?;
    let began = Instant::now();
    let made = create(&server, wanted).await?;
    let creating = began.elapsed();
    server.stop()?;
    let mut sheet = Sheet::default();
    sheet.note("namespaces made", Unit::Count, f64::from(made));
    sheet.note("  to make one", Unit::Milliseconds, creating.as_secs_f64() * 1e3 / f64::from(made.max(1)));
    for run in 0..bench.sizes.runs {
        bench.progress(run);
        let server = bench.launcher.start(&directory, &[])?;
        let mut connection = server.connect().await?;
        connection.call(wire::READ, read(made / 2)).await?;
        sheet.note(
            "  start to the first answered read",
            Unit::Milliseconds,
            server.started.elapsed().as_secs_f64() * 1e3,
        );
        let before = server.process().settled_cpu().await?;
        sheet.note("  resident memory", Unit::MiB, server.process().resident_bytes()? as f64 / MIB);
        tokio::time::sleep(bench.sizes.idle).await;
        let used = server.process().cpu()? - before;
        let percent = 100.0 * used.as_secs_f64() / bench.sizes.idle.as_secs_f64();
        sheet.note("  idle CPU", Unit::PercentOfACore, percent);
        server.stop()?;
    }
    Ok(sheet.measures())
}

/// Makes namespaces; answers how many there are. A store that has no room for all is told, not hidden.
async fn create(server: &Server, wanted: u32) -> Result<u32> {
    let mut connection = server.connect().await?;
    for number in 0..wanted {
        let request = v1::CreateNamespaceRequest { name: name(number), ..Default::default() };
        if let Err(error) = connection.call(wire::CREATE_NAMESPACE, wire::encoded(&request)).await {
            eprintln!("  only {number} of {wanted} namespaces could be made: {error:#}");
            return Ok(number);
        }
    }
    Ok(wanted)
}

fn name(number: u32) -> String {
    format!("tenant_{number:04}")
}

fn read(number: u32) -> bytes::Bytes {
    wire::encoded(&v1::ReadEventRecordsRequest {
        namespace: name(number),
        time_series_id: "device:0001".to_owned(),
        ..v1::ReadEventRecordsRequest::default()
    })
}
