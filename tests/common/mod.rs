//! Cases and devices of the suite.
// Each test binary uses its part of this.
#![allow(dead_code)]

use frazil::{EngineId, Router, cpu};
use frazil_conformance::case::{Case, CaseFile};
use frazil_conformance::memory::HostMemory;
use frazil_conformance::peer::{self, PeerFile};
use frazil_conformance::run::Entry;

/// Our own files of cases, by name.
pub(crate) const OWN_FILES: [(&str, &str); 4] = [
    ("sdpa_fwd", include_str!("../cases/sdpa_fwd.toml")),
    ("sdpa_fwd_storage", include_str!("../cases/sdpa_fwd_storage.toml")),
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
