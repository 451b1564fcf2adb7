//! How engines become known.

use std::fmt;
use std::sync::Arc;

use super::{Engine, EngineId, Plan};
use crate::{Facts, FeatureSet, Target, Unsupported};

/// What an engine crate submits with `inventory::submit!` so that routers find it.
///
/// A crate that nothing names is not linked and so not registered: the facade names each engine
/// crate that its features enable.
#[derive(Debug)]
pub struct EngineRegistration {
    /// Its name.
    pub id: EngineId,
    /// The features that it serves; facts with others are declined before it is asked.
    pub features: FeatureSet,
    /// How far it is proven.
    pub maturity: Maturity,
    /// The crate that submits it, for messages.
    pub package: &'static str,
    /// Makes the engine. Cheap and infallible: what is missing on a target is a decline.
    pub construct: fn() -> Arc<dyn Engine>,
}

inventory::collect!(EngineRegistration);

/// How far an engine is proven.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Maturity {
    /// Its suite passed on such a device.
    Silicon {
        /// The device.
        device: &'static str,
        /// The day, `YYYY-MM-DD`.
        date: &'static str,
    },
    /// Its suite passed in the simulator only. Ranks after every `Silicon` engine for the same
    /// facts.
    Simulated,
}

impl fmt::Display for Maturity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Silicon { device, date } => write!(f, "silicon ({device}, {date})"),
            Self::Simulated => f.write_str("simulated"),
        }
    }
}

/// An engine with the answers that core gives for it.
#[derive(Debug)]
pub struct RegisteredEngine {
    id: EngineId,
    features: FeatureSet,
    maturity: Maturity,
    package: &'static str,
    engine: Arc<dyn Engine>,
}

impl RegisteredEngine {
    /// An engine that is handed over instead of being collected: a wrapper, or one under test.
    /// `package` is the crate that hands it over.
    pub fn new(
        id: EngineId,
        features: FeatureSet,
        maturity: Maturity,
        package: &'static str,
        engine: Arc<dyn Engine>,
    ) -> Self {
        Self { id, features, maturity, package, engine }
    }

    /// Its name.
    pub fn id(&self) -> &EngineId {
        &self.id
    }

    /// The features that it serves.
    pub fn features(&self) -> FeatureSet {
        self.features
    }

    /// The crate that it comes from.
    pub fn package(&self) -> &'static str {
        self.package
    }

    /// How far it is proven.
    pub fn maturity(&self) -> Maturity {
        self.maturity
    }

    pub(super) fn engine(&self) -> &dyn Engine {
        self.engine.as_ref()
    }

    /// The engine's plans for these facts, best first. The only road to a [`Plan`].
    ///
    /// # Errors
    ///
    /// [`Unsupported::Feature`] for the first feature that the engine does not name, the engine's
    /// own decline, or [`Unsupported::Overrides`] when the graph wants overrides and no config
    /// takes them.
    pub fn ask(
        self: &Arc<Self>,
        facts: &Arc<Facts>,
        target: &Arc<Target>,
    ) -> Result<Vec<Plan>, Unsupported> {
        if let Some(feature) = facts.features().first_outside(self.features) {
            return Err(Unsupported::Feature(feature));
        }
        let support = self.engine.check_support(facts, target)?;
        let mut plans = support.into_plans(self, facts, target);
        if facts.is_overridable() {
            plans.retain(|plan| plan.override_rules().is_some());
        }
        if plans.is_empty() { Err(Unsupported::Overrides) } else { Ok(plans) }
    }
}

impl From<&EngineRegistration> for RegisteredEngine {
    fn from(registration: &EngineRegistration) -> Self {
        let EngineRegistration { id, features, maturity, package, construct } = registration;
        Self::new(id.clone(), *features, *maturity, package, construct())
    }
}
