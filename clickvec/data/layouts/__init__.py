"""The layouts of logs that are recognised by their columns. Each turns the lines of its files into `Events`."""
