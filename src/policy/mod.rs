//! Pure policies: state, event, clock reading and random number in; decision out.
