//! idem: makes shell commands safe to repeat.
