//! Which engines are asked, and about what.

use frazil::{EngineId, RegisteredEngine, Router, Target};
use frazil_conformance::run::short_name;
use frazil_conformance::support::at_home;

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

/// The engines that a command judges on a device, and a router that asks them alone.
#[derive(Clone, Debug)]
pub(crate) struct Judged {
    pub(crate) router: Router,
    pub(crate) engines: Vec<EngineId>,
}

impl Judged {
    /// The engine of that name, as [`router`] finds it. Without one those that are made for the
    /// device: what others say of it is the same of every case. All, where none is.
    pub(crate) fn on(target: &Target, name: Option<&str>) -> Result<Self, Failure> {
        let router = router(name)?;
        let mut engines = engines(&router, name);
        if name.is_none() {
            let at_home = at_home(&router, target);
            let at_home = at_home.map_err(|error| Failure::Fault(error.to_string()))?;
            if !at_home.is_empty() {
                engines = at_home;
            }
        }
        Ok(Self { router: router.only(engines.iter().cloned()), engines })
    }
}

/// The engines of that name, or all of them.
fn engines(router: &Router, name: Option<&str>) -> Vec<EngineId> {
    let is_meant =
        |id: &&EngineId| name.is_none_or(|name| id.as_str() == name || short_name(id) == name);
    router.engines().map(RegisteredEngine::id).filter(is_meant).cloned().collect()
}
