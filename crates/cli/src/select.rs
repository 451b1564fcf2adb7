//! Which engines are asked, and about what.

use frazil::{EngineId, RegisteredEngine, Router};
use frazil_conformance::run::short_name;

use crate::failure::Failure;

/// A router over the engines of this program, or over the one named: its whole name, or the part
/// after the operation (`cpu` for `sdpa_fwd_cpu`).
pub(crate) fn router(engine: Option<&str>) -> Result<Router, Failure> {
    let router = Router::from_registrations().map_err(|error| Failure::Fault(error.to_string()))?;
    let Some(name) = engine else { return Ok(router) };
    let chosen = engines(&router, engine);
    if chosen.is_empty() {
        let known: Vec<_> = router.engines().map(|engine| engine.id().as_str()).collect();
        let known = known.join(", ");
        return Err(Failure::Input(format!("no engine is called `{name}`; there are: {known}")));
    }
    Ok(router.only(chosen))
}

/// The engines of that name, or all of them.
pub(crate) fn engines(router: &Router, name: Option<&str>) -> Vec<EngineId> {
    let is_meant =
        |id: &&EngineId| name.is_none_or(|name| id.as_str() == name || short_name(id) == name);
    router.engines().map(RegisteredEngine::id).filter(is_meant).cloned().collect()
}
