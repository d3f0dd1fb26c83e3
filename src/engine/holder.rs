//! Who holds the lease of a half-open breaker.
//!
//! On one machine the kernel knows whether a holder lives. Where several machines share the store, the
//! holder is named after its claim, and the claim's record tells.

use super::hands::Hands;
use super::store::{Guards, StoreResult};
use crate::domain::name::{Key, Nonce, OpName, Scope};
use crate::domain::outcome::State;
use crate::domain::owner::Liveness;
use serde_json::{Value, json};

/// The name of a holder in a store that several machines share.
pub fn of_claim(name: &OpName, nonce: &Nonce) -> String {
    json!([name.scope.as_str(), name.key.as_str(), nonce.hex()]).to_string()
}

fn claim_of(holder: &str) -> Option<(OpName, Nonce)> {
    let value: Value = serde_json::from_str(holder).ok()?;
    let [scope, key, nonce] = value.as_array()?.as_slice() else {
        return None;
    };
    let name = OpName {
        scope: Scope::new(scope.as_str()?).ok()?,
        key: Key::new(key.as_str()?).ok()?,
    };
    Some((name, Nonce::from_hex(nonce.as_str()?)?))
}

/// Whether the holder of a lease still lives: as long as its claim is taken for alive, neither longer nor
/// less long.
pub fn lives(hands: &dyn Hands, guards: &mut dyn Guards, holder: &str) -> StoreResult<bool> {
    let Some((name, nonce)) = claim_of(holder) else {
        return Ok(hands.holder_lives(holder));
    };
    let record = guards.record_of(&name)?;
    Ok(record.is_some_and(|record| {
        record.nonce == nonce
            && record.state == State::Running
            && hands.observe(&record) != Liveness::Gone
    }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_holder_is_read_back() {
        let name = OpName {
            scope: Scope::new("a:b").unwrap(),
            key: Key::new("é \" ] k").unwrap(),
        };
        let nonce = Nonce([7; 16]);
        assert_eq!(claim_of(&of_claim(&name, &nonce)), Some((name, nonce)));
        for other in ["12:34", "me", "[]", "[\"a\",\"b\",\"c\"]"] {
            assert_eq!(claim_of(other), None);
        }
    }
}
