//! Which engines are asked, and about what.

use frazil::{EngineId, Router};

use crate::failure::Failure;

/// A router over the engines of this program, or over the one named: its whole name, or the part
/// after the operation (`cpu` for `sdpa_fwd_cpu`).
pub(crate) fn router(engine: Option<&str>) -> Result<Router, Failure> {
    let router = Router::from_registrations().map_err(|error| Failure::Fault(error.to_string()))?;
    let Some(name) = engine else { return Ok(router) };
    let suffix = format!("_{name}");
    let known = || router.engines().map(|engine| engine.id());
    let chosen: Vec<EngineId> = known()
        .filter(|id| id.as_str() == name || id.as_str().ends_with(&suffix))
        .cloned()
        .collect();
    if chosen.is_empty() {
        let known: Vec<_> = known().map(EngineId::as_str).collect();
        return Err(Failure::Input(format!(
            "no engine is called `{name}`; there are: {}",
            known.join(", ")
        )));
    }
    Ok(router.only(chosen))
}
