//! The router: engines in, plans out.

use std::sync::Arc;

use frazil_core::{
    BuildError, Device, EngineId, EngineRegistration, Error, Executable, Facts, Graph, NoEngine,
    Plan, PlanName, RegisteredEngine, Target, Unsupported, inventory,
};

use crate::explain::{Answer, Explanation};
use crate::rank;

/// Two engines of one name.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("engine {id} is registered by crate {first} and by crate {second}")]
pub struct RegistrationError {
    /// The name.
    pub id: EngineId,
    /// Crate of one.
    pub first: &'static str,
    /// Crate of the other.
    pub second: &'static str,
}

/// Asks engines and ranks their plans.
///
/// Filters narrow what is asked or offered and never change an answer.
#[derive(Clone, Debug)]
pub struct Router {
    engines: Vec<Arc<RegisteredEngine>>,
    only: Option<Vec<EngineId>>,
    workspace_limit: Option<u64>,
    simulated_first: Vec<EngineId>,
}

/// An executable, and the plans before it whose own planner refused at build.
#[derive(Debug)]
pub struct Built {
    /// The first plan that could be built.
    pub executable: Executable,
    /// Those ranked before it, each with its reason.
    pub declined: Vec<(PlanName, Unsupported)>,
}

impl Router {
    /// A router over the engines linked into this program.
    ///
    /// # Errors
    ///
    /// [`RegistrationError`] when two crates register one name.
    pub fn from_registrations() -> Result<Self, RegistrationError> {
        Self::collect(inventory::iter::<EngineRegistration>)
    }

    /// A router over the engines of these registrations.
    ///
    /// # Errors
    ///
    /// [`RegistrationError`] when two of them have one name.
    pub fn collect<'a>(
        registrations: impl IntoIterator<Item = &'a EngineRegistration>,
    ) -> Result<Self, RegistrationError> {
        Self::over(registrations.into_iter().map(RegisteredEngine::from))
    }

    /// A router over exactly these engines.
    ///
    /// # Errors
    ///
    /// [`RegistrationError`] when two of them have one name.
    pub fn over(
        engines: impl IntoIterator<Item = RegisteredEngine>,
    ) -> Result<Self, RegistrationError> {
        let mut engines: Vec<_> = engines.into_iter().map(Arc::new).collect();
        engines.sort_by(|a, b| a.id().order().cmp(&b.id().order()));
        if let Some(pair) = engines.windows(2).find(|pair| pair[0].id() == pair[1].id()) {
            let id = pair[0].id().clone();
            let (first, second) = (pair[0].package(), pair[1].package());
            return Err(RegistrationError { id, first, second });
        }
        Ok(Self { engines, only: None, workspace_limit: None, simulated_first: Vec::new() })
    }

    /// The engines, those of this workspace in table order, then others by name.
    pub fn engines(&self) -> impl ExactSizeIterator<Item = &RegisteredEngine> {
        self.engines.iter().map(Arc::as_ref)
    }

    /// Asks these engines alone.
    #[must_use]
    pub fn only(mut self, engines: impl IntoIterator<Item = EngineId>) -> Self {
        self.only = Some(engines.into_iter().collect());
        self
    }

    /// Offers plans whose workspace is at most that large, in bytes.
    #[must_use]
    pub fn workspace_limit(mut self, bytes: u64) -> Self {
        self.workspace_limit = Some(bytes);
        self
    }

    /// Lets these engines rank as if proven on silicon.
    #[must_use]
    pub fn simulated_first(mut self, engines: impl IntoIterator<Item = EngineId>) -> Self {
        self.simulated_first = engines.into_iter().collect();
        self
    }

    /// Every engine's answer.
    pub fn explain(&self, facts: &Arc<Facts>, target: &Arc<Target>) -> Explanation {
        let mut answers: Vec<_> = self
            .engines
            .iter()
            .map(|engine| {
                (engine.id().clone(), engine.maturity(), self.answer(engine, facts, target))
            })
            .collect();
        let order: Vec<EngineId> =
            self.rank(&answers).into_iter().map(|plan| plan.engine().clone()).collect();
        answers.sort_by_key(|(id, ..)| {
            order.iter().position(|ranked| ranked == id).unwrap_or(order.len())
        });
        Explanation { target: target.device.to_string(), answers }
    }

    /// One engine's answer, as in [`Router::explain`]; an engine that is not here is left out.
    pub fn ask(&self, engine: &EngineId, facts: &Arc<Facts>, target: &Arc<Target>) -> Answer {
        let known = self.engines.iter().find(|known| known.id() == engine);
        known.map_or(Answer::LeftOut, |engine| self.answer(engine, facts, target))
    }

    fn answer(
        &self,
        engine: &Arc<RegisteredEngine>,
        facts: &Arc<Facts>,
        target: &Arc<Target>,
    ) -> Answer {
        if self.only.as_ref().is_some_and(|only| !only.contains(engine.id())) {
            return Answer::LeftOut;
        }
        let plans = match engine.ask(facts, target) {
            Ok(plans) => plans,
            Err(why) => return Answer::Declined(why),
        };
        let limit = self.workspace_limit.unwrap_or(u64::MAX);
        let found = plans.iter().map(Plan::workspace_bytes).min().unwrap_or(0);
        let fitting: Vec<_> =
            plans.into_iter().filter(|plan| plan.workspace_bytes() <= limit).collect();
        if fitting.is_empty() {
            Answer::Declined(Unsupported::WorkspaceLimit { found, limit })
        } else {
            Answer::Served(fitting)
        }
    }

    fn rank(&self, answers: &[(EngineId, frazil_core::Maturity, Answer)]) -> Vec<Plan> {
        let served = answers.iter().filter_map(|(.., answer)| match answer {
            Answer::Served(plans) => Some(plans),
            _ => None,
        });
        let mut plans: Vec<Plan> = served.flatten().cloned().collect();
        rank::sort(&mut plans, &self.simulated_first);
        plans
    }

    /// The plans of all engines, best first.
    ///
    /// # Errors
    ///
    /// [`NoEngine`] with the reason of every engine that was asked and declined.
    pub fn plans(&self, facts: &Arc<Facts>, target: &Arc<Target>) -> Result<Vec<Plan>, NoEngine> {
        let answers = self.explain(facts, target).answers;
        let plans = self.rank(&answers);
        if !plans.is_empty() {
            return Ok(plans);
        }
        let (mut declined, mut left_out) = (Vec::new(), Vec::new());
        for (id, _, answer) in answers {
            match answer {
                Answer::Declined(why) => declined.push((id, why)),
                Answer::LeftOut => left_out.push(id),
                Answer::Served(_) => {}
            }
        }
        Err(NoEngine::new(target, declined, left_out))
    }

    /// The plan that was stored by name, asked for anew.
    ///
    /// # Errors
    ///
    /// [`Error::NoEngine`] as [`Router::plans`]; [`Error::NoSuchPlan`] when engines serve the graph
    /// but none offers that config.
    pub fn replay(
        &self,
        name: &PlanName,
        facts: &Arc<Facts>,
        target: &Arc<Target>,
    ) -> Result<Plan, Error> {
        let plans = self.clone().only([name.engine.clone()]).plans(facts, target)?;
        let target = target.device.to_string();
        plans
            .into_iter()
            .find(|plan| plan.name() == *name)
            .ok_or_else(|| Error::NoSuchPlan { name: name.clone(), target })
    }

    /// Reads the graph, asks for plans on the device's target and builds the best: [`Facts::read`],
    /// [`Router::plans`] and [`Router::build_first`], for callers who look at nothing in between.
    ///
    /// # Errors
    ///
    /// Those of the three stages.
    pub fn build(&self, graph: &Graph, device: &Device) -> Result<Built, Error> {
        let facts = Arc::new(Facts::read(graph)?);
        let plans = self.plans(&facts, &Arc::new(device.target().clone()))?;
        self.build_first(&plans, device)
    }

    /// Builds the first plan that can be built. Goes on to the next plan after a foreign planner's
    /// decline, never after a fault, and keeps every reason.
    ///
    /// # Errors
    ///
    /// The first fault; [`Error::NoEngine`] when every plan was declined, or there is none.
    pub fn build_first(&self, plans: &[Plan], device: &Device) -> Result<Built, Error> {
        let mut declined = Vec::new();
        for plan in plans {
            match plan.build(device) {
                Ok(executable) => {
                    return Ok(Built { executable, declined });
                }
                Err(BuildError::Declined(why)) => declined.push((plan.name(), why)),
                Err(BuildError::Fault(fault)) => return Err(fault),
            }
        }
        let declined = declined.into_iter().map(|(name, why)| (name.engine, why)).collect();
        Err(NoEngine::new(device.target(), declined, Vec::new()).into())
    }
}
