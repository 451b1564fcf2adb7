//! Cases and devices of the suite.
// Each test binary uses its part of this.
#![allow(dead_code)]

use frazil::{EngineId, Router, cpu};
use frazil_conformance::case::{Case, CaseFile};
use frazil_conformance::memory::HostMemory;
use frazil_conformance::peer::{self, PeerFile};
use frazil_conformance::run::Entry;

/// Our own files of cases, by name.
pub(crate) const OWN_FILES: [(&str, &str); 5] = [
    ("sdpa_fwd", include_str!("../cases/sdpa_fwd.toml")),
    ("sdpa_fwd_storage", include_str!("../cases/sdpa_fwd_storage.toml")),
    ("sdpa_fwd_decode", include_str!("../cases/sdpa_fwd_decode.toml")),
    ("sdpa_fwd_edges", include_str!("../cases/sdpa_fwd_edges.toml")),
    ("sdpa_fwd_buglog", include_str!("../cases/sdpa_fwd_buglog.toml")),
];

/// The engines linked into this test.
pub(crate) fn router() -> Router {
    Router::from_registrations().expect("each engine has a name of its own")
}

/// This computer.
pub(crate) fn host() -> HostMemory {
    HostMemory::new(cpu::host())
}

/// The cases of each of our files.
pub(crate) fn own_cases() -> Vec<(&'static str, Vec<Case>)> {
    let cases = |(name, text): &(&'static str, &str)| {
        let file = CaseFile::parse(text).unwrap_or_else(|error| panic!("{name}: {error}"));
        (*name, file.cases)
    };
    OWN_FILES.iter().map(cases).collect()
}

/// The peer's configurations.
pub(crate) fn peer_file() -> PeerFile {
    peer::read(include_str!("../cases/peer_sdpa.jsonl")).expect("the file is well formed")
}

/// The same with what the file's rules expect of the engines here.
pub(crate) fn peer_entries(router: &Router) -> Vec<Entry> {
    let engines: Vec<&EngineId> = router.engines().map(frazil::RegisteredEngine::id).collect();
    peer_file().entries(engines)
}

/// Numbers between -1 and 1, by a linear congruential generator.
pub(crate) fn values(seed: u64, count: usize) -> Vec<f32> {
    let mut state = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15);
    let step = || {
        state =
            state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        #[expect(clippy::cast_precision_loss, reason = "24 bits")]
        let value = (state >> 40) as f32 / (1 << 23) as f32 - 1.0;
        value
    };
    std::iter::repeat_with(step).take(count).collect()
}
