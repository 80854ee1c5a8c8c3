"""From a module of the graph to what runs: the stages in order, and what is told of each."""
