//! What goes wrong below the port, and how it is told: which server, and what to do next.

use crate::engine::store::StoreError;
use crate::store::postgres::PgError;

/// A failure inside the store's code, before the server's name is added.
#[derive(Debug)]
pub enum Fault {
    /// The server or the way to it said no.
    Pg(PgError),
    /// Somebody else wrote in between: read again, decide again.
    RaceLost,
    /// An earlier try of the same change, whose reply was lost, has taken place: the one with this stamp.
    TookPlace(i64),
    /// A stored value is none that this program writes; says which.
    Damaged(&'static str),
    /// A failure that is already told.
    Told(StoreError),
}

/// Short for what the store's inner functions return.
pub type Tried<T> = Result<T, Fault>;

impl From<PgError> for Fault {
    fn from(error: PgError) -> Fault {
        Fault::Pg(error)
    }
}

impl From<StoreError> for Fault {
    fn from(error: StoreError) -> Fault {
        Fault::Told(error)
    }
}

impl Fault {
    /// Whether the connection is gone, so that nobody knows whether the statement took place.
    pub fn is_connection_lost(&self) -> bool {
        matches!(self, Fault::Pg(error) if error.is_connection_lost() || is_going_away(error))
    }

    /// Whether the same may succeed a little later: the server is away, or a standby that becomes the
    /// primary.
    pub fn may_pass(&self) -> bool {
        let read_only = |error: &PgError| {
            matches!(error, PgError::ReadOnly(_)) || error.sqlstate() == Some("25006")
        };
        self.is_connection_lost() || matches!(self, Fault::Pg(error) if read_only(error))
    }

    /// Tells it about this server.
    pub fn tell(self, place: &str) -> StoreError {
        match self {
            Fault::Told(error) => error,
            Fault::RaceLost | Fault::TookPlace(_) => StoreError::Busy(format!(
                "{place} was changed by others again and again; try again"
            )),
            Fault::Damaged(what) => StoreError::Foreign(format!(
                "{place} holds {what}; was it changed by hand? look at it with `idem doctor`"
            )),
            Fault::Pg(error) => tell_error(&error, place),
        }
    }
}

/// The server is starting or stopping, or has no room for another session: it says so and hangs up.
fn is_going_away(error: &PgError) -> bool {
    matches!(
        error.sqlstate(),
        Some("57P01" | "57P02" | "57P03" | "53300" | "53200")
    )
}

/// Whether the server has undone a statement for the sake of another one: the same may succeed at once.
pub fn is_collision(error: &PgError) -> bool {
    matches!(error.sqlstate(), Some("40001" | "40P01"))
}

/// Whether two transactions stood in each other's way, so that the same may succeed at once.
pub fn is_conflict(error: &PgError) -> bool {
    // Division by zero is how a statement undoes itself where a guard has changed; 57014 is one that
    // somebody cancelled.
    is_collision(error) || matches!(error.sqlstate(), Some("22012" | "23505" | "57014"))
}

fn tell_error(error: &PgError, place: &str) -> StoreError {
    match (error, error.sqlstate()) {
        (PgError::ReadOnly(_), _) | (_, Some("25006")) => StoreError::ReadOnly(format!(
            "{place} accepts no writes ({error}); connect to the primary server"
        )),
        (PgError::Authentication(_) | PgError::Tls(_), _) => StoreError::Place(error.to_string()),
        (_, Some("42P01" | "3F000")) => missing(place),
        // The server hangs up after it, and has been reached all the same.
        (_, Some("3D000")) => StoreError::Place(format!(
            "{place} is a database that is not there ({error}); create it (createdb, or CREATE DATABASE) and then run `idem init`, or correct its name in the URL"
        )),
        (_, Some("42501")) => StoreError::Place(format!(
            "the role may not use {place} ({error}); have its owner grant it, see `idem init --print-sql`"
        )),
        (_, Some("53100" | "53200")) => StoreError::Full(format!(
            "{place} has no room left ({error}); make some on the server and try again"
        )),
        (error, _) if error.is_connection_lost() || is_going_away(error) => {
            StoreError::Unreachable(format!(
                "{place} cannot be reached ({error}); try again when it is back"
            ))
        }
        _ => StoreError::Other(format!("{place}: {error}; see `idem doctor`")),
    }
}

/// The message where idem's tables are not in the database.
pub fn missing(place: &str) -> StoreError {
    StoreError::Place(format!(
        "{place} has no tables of idem's yet; make them once with `idem init`"
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_database_that_is_not_there_is_no_server_that_is_away() {
        let of = |sqlstate: &str| {
            let error = PgError::Server {
                sqlstate: sqlstate.to_owned(),
                message: "what the server says".to_owned(),
                detail: None,
                fatal: true,
            };
            Fault::from(error).tell("postgres://a@b/c")
        };
        let StoreError::Place(text) = of("3D000") else {
            panic!("{:?}", of("3D000"));
        };
        assert!(text.contains("createdb") && text.contains("`idem init`"));
        assert!(matches!(of("57P01"), StoreError::Unreachable(_)));
    }
}
