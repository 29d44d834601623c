//! Whole servers in one deterministic process, with faults and an oracle.
