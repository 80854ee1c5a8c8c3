"""Models as the world writes them: exporters that are installed, each against its framework."""
