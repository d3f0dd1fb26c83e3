//! Permits of bulkheads that several machines share: rows with a lease.

use super::ServerStore;
use super::fault::Tried;
use crate::domain::name::Nonce;
use crate::engine::store::{Permit, PermitWish};
use crate::policy::bulkhead::enough;
use crate::store::postgres::Param;

/// How often a permit is looked for in one call because others were faster.
const RACES: u32 = 50;

impl ServerStore {
    /// Takes one that is free. It lasts as long as a lease, and is renewed with the claim's.
    pub(super) fn take_permit(&mut self, wish: &PermitWish<'_>) -> Tried<Permit> {
        let permits = i32::try_from(wish.permits).unwrap_or(i32::MAX);
        if wish.auxiliary {
            let taken = self.taken_permits(wish.bulkhead, permits)?;
            let free = wish.permits.saturating_sub(taken);
            if !enough(free, wish.permits, true) {
                return Ok(Permit::NoneFree);
            }
        }
        // One that lost its slot to somebody else looks whether there is another.
        for _ in 0..RACES {
            if self.take_slot(wish, permits)? {
                return Ok(Permit::Taken);
            }
            if self.taken_permits(wish.bulkhead, permits)? >= wish.permits {
                break;
            }
        }
        Ok(Permit::NoneFree)
    }

    fn take_slot(&mut self, wish: &PermitWish<'_>, permits: i32) -> Tried<bool> {
        // Two that choose the same slot meet at its row, and only one of them finds it free. Where the
        // reply was lost, the slot that was taken is taken again.
        let sql = self.within(
            "INSERT INTO @permit AS p (name, slot, nonce, until) \
             SELECT $1, slot, $3, clock_timestamp() + make_interval(secs => $4) \
             FROM generate_series(0, $2 - 1) AS slot \
             WHERE NOT EXISTS (SELECT FROM @permit AS q WHERE q.name = $1 AND q.slot = slot.slot \
               AND q.nonce <> $3 AND q.until > clock_timestamp()) \
             ORDER BY NOT EXISTS (SELECT FROM @permit AS q \
               WHERE q.name = $1 AND q.slot = slot.slot AND q.nonce = $3), random() LIMIT 1 \
             ON CONFLICT (name, slot) DO UPDATE SET nonce = EXCLUDED.nonce, until = EXCLUDED.until \
             WHERE p.until <= clock_timestamp() OR p.nonce = EXCLUDED.nonce RETURNING 1",
        );
        let params = [
            Param::Text(Some(wish.bulkhead)),
            Param::Int4(Some(permits)),
            Param::Bytes(Some(&wish.nonce.0)),
            Param::Float8(Some(self.lease_seconds())),
        ];
        Ok(!self.ask(&sql, &params)?.is_empty())
    }

    fn taken_permits(&mut self, bulkhead: &str, permits: i32) -> Tried<u32> {
        let sql = self.within(
            "SELECT count(*) FROM @permit WHERE name = $1 AND slot < $2 AND until > clock_timestamp()",
        );
        let params = [Param::Text(Some(bulkhead)), Param::Int4(Some(permits))];
        let count: i64 = self.ask(&sql, &params)?.only()?.get(0)?;
        Ok(u32::try_from(count).unwrap_or(u32::MAX))
    }

    /// How many permits of a bulkhead are free, for people.
    pub fn free_permits(&mut self, bulkhead: &str, permits: u32) -> Tried<u32> {
        let slots = i32::try_from(permits).unwrap_or(i32::MAX);
        Ok(permits.saturating_sub(self.taken_permits(bulkhead, slots)?))
    }

    /// Gives back what was taken for a claim that was not made; that of one that was ends with it.
    pub(super) fn drop_permit(&mut self, nonce: &Nonce) -> Tried<()> {
        let sql = self.within("DELETE FROM @permit WHERE nonce = $1");
        self.ask(&sql, &[Param::Bytes(Some(&nonce.0))]).map(drop)
    }
}
