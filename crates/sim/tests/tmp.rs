//! tmp
use anabranch_sim::*;
#[test]
fn t() {
    let mut n = 0;
    for seed in 0..300 {
        let r = run_seed(Options { plant: Some(Plant::SetsWithoutComparing), ..Options::new(seed) });
        if let Some(v) = r.violation {
            n += 1;
            println!("{seed} {} {}", v.invariant, &v.what[..v.what.len().min(150)]);
        }
    }
    println!("found {n}");
}
