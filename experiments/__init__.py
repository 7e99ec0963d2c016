"""Experiments: longer runs that answer one question each, resumable. See docs/async_states.md."""
