"""Prepare a log and encode a catalogue on a Ray cluster. Ray schedules the tasks and repeats those of a lost node."""
