//! The breaker that calls share.

use super::{Breaker, COOLDOWN, FAILURES, Generation, Model, Told};

impl Model {
    pub(super) fn admit(&mut self, claim: Generation) -> bool {
        let lives = &self.lives;
        match &mut self.breaker {
            Breaker::Closed(_) => true,
            Breaker::Open(until) if self.now < *until => false,
            Breaker::Open(_) => {
                self.breaker = Breaker::HalfOpen(vec![claim]);
                true
            }
            Breaker::HalfOpen(leases) => {
                leases.retain(|lease| *lease == claim || lives.contains_key(lease));
                if leases.is_empty() {
                    leases.push(claim);
                }
                leases.contains(&claim)
            }
        }
    }

    pub(super) fn tell(&mut self, claim: Generation, told: Told) {
        if matches!(self.breaker, Breaker::Open(until) if self.now >= until) {
            self.breaker = Breaker::HalfOpen(Vec::new());
        }
        match &mut self.breaker {
            Breaker::Open(_) => {}
            Breaker::Closed(failures) => match told {
                Told::Nothing => {}
                Told::Works => *failures = 0,
                Told::Fails if *failures + 1 < FAILURES => *failures += 1,
                Told::Fails => self.breaker = Breaker::Open(self.now + COOLDOWN),
            },
            Breaker::HalfOpen(leases) => {
                if !leases.contains(&claim) {
                    return;
                }
                leases.retain(|lease| *lease != claim);
                match told {
                    Told::Nothing => {}
                    Told::Works => self.breaker = Breaker::Closed(0),
                    Told::Fails => self.breaker = Breaker::Open(self.now + COOLDOWN),
                }
            }
        }
    }
}
