"""The subcommands, one module each: a module parses, calls what does the work, and prints."""
