"""The parallel executor: tasks of a net, who runs them when, and on how many threads."""
